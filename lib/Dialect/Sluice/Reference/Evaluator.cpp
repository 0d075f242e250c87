// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
// Stores the values of an evaluation, and walks over a function.
#include "sluice/Dialect/Sluice/Reference.h"

#include <cmath>
#include <type_traits>

using namespace mlir;

namespace sluice::reference {

static SequenceType sequenceType(Value value) { return cast<SequenceType>(value.getType()); }

double roundToBf16(double number) {
  constexpr int mantissa = 8, leastExponent = -125; // of numbers in [1/2, 1) times a power of two
  if (!std::isfinite(number)) {
    return number;
  }
  int exponent = 0;
  std::frexp(number, &exponent);
  int unit = std::max(exponent, leastExponent) - mantissa;
  double rounded = std::ldexp(std::nearbyint(std::ldexp(number, -unit)), unit);
  return std::fabs(rounded) < 0x1p128 ? rounded : std::copysign(INFINITY, number);
}

int64_t getColumns(Value sequence) {
  int64_t width = sequenceType(sequence).getWidth();
  return width == 0 ? 1 : width;
}

/// Returns the data of a value of this element type, rounded if the setting requires it.
template <typename T>
static std::vector<T> roundToElement(const RuntimeValues &setting, Type element,
                                     std::vector<T> data) {
  if (setting.rounded && element.isBF16()) {
    for (T &number : data) {
      number = static_cast<T>(roundToBf16(number));
    }
  }
  return data;
}

template <typename T> int64_t Evaluator<T>::getPositions(Value sequence) const {
  SequenceType type = sequenceType(sequence);
  auto [entry, added] = positionsOfScale.try_emplace(type.getScale(), 1);
  if (added && (isGiven(module, type) || isSegmented(module, type))) {
    entry->second = sluice::getPositions(module, type);
  } else if (int64_t factor = added ? getFactor(module, type) : 0) {
    entry->second = (setting.length + factor - 1) / factor;
  }
  return entry->second;
}

template <typename T> int64_t Evaluator<T>::getCount(Value sequence, int64_t row) const {
  auto scale =
      SymbolTable::lookupNearestSymbolFrom<ScaleOp>(module, sequenceType(sequence).getScale());
  auto counts = given.find(scale.getAxis());
  return counts == given.end() ? getPositions(sequence)
                               : llvm::divideCeil(counts->second[static_cast<size_t>(row)],
                                                  static_cast<int64_t>(scale.getFactor()));
}

template <typename T> void Evaluator<T>::setStep(int64_t length, Window rows) {
  setting.length = length;
  window = std::move(rows);
  positionsOfScale.clear();
}

/// Returns the positions that are computed: all valid ones, or the window's.
template <typename T>
static std::pair<int64_t, int64_t> getRowRange(const Evaluator<T> &evaluator,
                                               const typename Evaluator<T>::Window &window,
                                               Value sequence) {
  return window.rows ? window.rows(sequence)
                     : std::pair(int64_t{0}, evaluator.getPositions(sequence));
}

template <typename T> void Evaluator<T>::setSequence(Value value, std::vector<T> data) {
  if (static_cast<int64_t>(data.size()) != setting.rows * getPositions(value) * getColumns(value)) {
    llvm::report_fatal_error("reference: a sequence of the wrong size");
  }
  sequences[value] = {getPositions(value), getColumns(value),
                      roundToElement(setting, sequenceType(value).getElement(), std::move(data)),
                      0};
}

template <typename T> void Evaluator<T>::setTokens(Value value, std::vector<int32_t> data) {
  tokens[value] = std::move(data);
}

template <typename T> void Evaluator<T>::setTensor(Value value, std::vector<T> data) {
  if (static_cast<int64_t>(data.size()) !=
      cast<RankedTensorType>(value.getType()).getNumElements()) {
    llvm::report_fatal_error("reference: a tensor of the wrong size");
  }
  tensors[value] = roundToElement(setting, cast<RankedTensorType>(value.getType()).getElementType(),
                                  std::move(data));
}

template <typename T> const std::vector<T> &Evaluator<T>::getTensor(Value value) const {
  auto found = tensors.find(value);
  if (found == tensors.end()) {
    llvm::report_fatal_error("reference: a tensor is read before it is set");
  }
  return found->second;
}

template <typename T>
T Evaluator<T>::at(Value sequence, int64_t row, int64_t position, int64_t column, T null) const {
  if (auto lazy = lazies.find(sequence); lazy != lazies.end()) {
    return lazy->second(row, position, column, null);
  }
  if (tokens.contains(sequence)) { // the token after the last one is only a target
    bool isThere = position >= 0 && position < getPositions(sequence);
    return isThere ? T(tokenAt(sequence, row, position)) : null;
  }
  auto found = sequences.find(sequence);
  if (found == sequences.end()) {
    llvm::report_fatal_error("reference: a sequence is read before it is set");
  }
  const Dense &dense = found->second;
  if (position < dense.first || position >= dense.first + dense.positions) {
    if (window.missing && position >= 0) {
      window.missing(sequence, position);
    }
    return null;
  }
  return dense.data[(row * dense.positions + position - dense.first) * dense.columns + column];
}

template <typename T>
std::vector<T> Evaluator<T>::rowAt(Value sequence, int64_t row, int64_t position) const {
  std::vector<T> numbers(getColumns(sequence));
  for (size_t column = 0; column < numbers.size(); ++column) {
    numbers[column] = at(sequence, row, position, column);
  }
  return numbers;
}

template <typename T>
int32_t Evaluator<T>::tokenAt(Value value, int64_t row, int64_t position) const {
  auto found = tokens.find(value);
  if (found == tokens.end()) { // computed from tokens
    return static_cast<int32_t>(at(value, row, position, 0));
  }
  int64_t stride = found->second.size() / setting.rows;
  if (position < 0 || position >= stride) {
    llvm::report_fatal_error("reference: a token is read that was not given");
  }
  if (window.missing) {
    auto [first, end] = getRowRange(*this, window, value);
    if (position < first || position >= end) {
      window.missing(value, position);
    }
  }
  return found->second[row * stride + position];
}

template <typename T>
void Evaluator<T>::forEachPosition(Value sequence,
                                   llvm::function_ref<void(int64_t, int64_t)> visit) const {
  auto [first, end] = getRowRange(*this, window, sequence);
  for (int64_t row = 0; row < setting.rows; ++row) {
    for (int64_t position = first; position < end; ++position) {
      visit(row, position);
    }
  }
}

template <typename T>
void Evaluator<T>::define(Value sequence,
                          llvm::function_ref<std::vector<T>(int64_t, int64_t)> fill) {
  std::vector<T> data;
  forEachPosition(sequence, [&](int64_t row, int64_t position) {
    std::vector<T> numbers = fill(row, position);
    assert(static_cast<int64_t>(numbers.size()) == getColumns(sequence) &&
           "a row of another width");
    data.insert(data.end(), numbers.begin(), numbers.end());
  });
  auto [first, end] = getRowRange(*this, window, sequence);
  sequences[sequence] = {
      end - first, getColumns(sequence),
      roundToElement(setting, sequenceType(sequence).getElement(), std::move(data)), first};
}

template <typename T> std::vector<T> Evaluator<T>::getSequence(Value value) const {
  std::vector<T> data;
  forEachPosition(value, [&](int64_t row, int64_t position) {
    std::vector<T> numbers = rowAt(value, row, position);
    data.insert(data.end(), numbers.begin(), numbers.end());
  });
  return data;
}

template <typename T> LogicalResult Evaluator<T>::evaluate(Operation *op) {
  if (auto read = dyn_cast<ReadOp>(op)) {
    auto found = parameters.find(read.getParameter());
    if (found == parameters.end()) {
      return op->emitError("reference: expected parameter ") << read.getParameter() << " to be set";
    }
    setTensor(read.getValue(), found->second);
    return success();
  }
  if (auto store = dyn_cast<StoreGradientOp>(op)) {
    gradients[store.getParameter()] = getTensor(store.getGradient());
    return success();
  }
  if (isa<BeginBackwardOp>(op)) {
    return success();
  }
  auto reference = dyn_cast<ReferenceInterface>(op);
  if (!reference) {
    return op->emitError("reference: expected an op that has a reference");
  }
  if constexpr (std::is_same_v<T, double>) {
    reference.evaluateDouble(*this);
  } else {
    reference.evaluateFloat(*this);
  }
  return success();
}

template <typename T> LogicalResult Evaluator<T>::evaluate(func::FuncOp function) {
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (failed(evaluate(&op))) {
      return failure();
    }
  }
  return success();
}

template class Evaluator<double>;
template class Evaluator<float>;

} // namespace sluice::reference
