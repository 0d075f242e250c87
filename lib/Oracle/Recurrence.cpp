// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recurrences: expects each row from the previous row that the kernel found, so that the bounds of
// a row do not grow with the rows before it. By induction, all rows are right if each one is.
#include "Recurrence.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::oracle;

namespace {

class RecurrenceJudge {
public:
  RecurrenceJudge(dispatch::RecurrenceOp op, const OracleLaunch &launch, Judgement &judgement);
  LogicalResult run();

private:
  static int64_t getExtent(Value tensor) {
    return cast<RankedTensorType>(tensor.getType()).getDimSize(1);
  }
  /// Returns the row in the memory of a tensor that holds `position` of a row of the batch.
  static int64_t getRow(Value tensor, int64_t batch, int64_t position) {
    return batch * getExtent(tensor) + position % getExtent(tensor);
  }
  bool isMarked(int64_t batch, int64_t position) const;
  LogicalResult judgeRow(int64_t row);

  dispatch::RecurrenceOp op;
  const OracleLaunch &launch;
  DomainRows rows;
  Body body;
  const int64_t columns, groups;
  std::optional<TensorRows> weight, bits;
  std::vector<TensorRows> inputs;
  std::vector<std::unique_ptr<ValueComparison>> results;
};

} // namespace

RecurrenceJudge::RecurrenceJudge(dispatch::RecurrenceOp op, const OracleLaunch &launch,
                                 Judgement &judgement)
    : op(op), launch(launch), rows(op, launch), body(op.getBody().front(), launch),
      columns(static_cast<int64_t>(op.getColumns())), groups(op.countProductGroups()) {
  size_t next = 0;
  if (op.getWeighted()) {
    weight.emplace(op.getWeight(), launch.operands[next++]);
  }
  for (Value input : op.getInputs()) {
    inputs.emplace_back(input, launch.operands[next++]);
  }
  if (op.getResets()) {
    bits.emplace(op.getBits(), launch.operands[next]);
  }
  for (unsigned i = 0; i < op->getNumResults(); ++i) {
    results.push_back(std::make_unique<ValueComparison>(op, launch, i, judgement));
  }
}

bool RecurrenceJudge::isMarked(int64_t batch, int64_t position) const {
  auto every = static_cast<int64_t>(dispatch::RecurrenceOp(op).getResetEvery());
  auto at = static_cast<int64_t>(dispatch::RecurrenceOp(op).getResetAt());
  bool isPlace = every > 0 && llvm::mod(position - at, every) == 0;
  if (!bits) {
    return isPlace;
  }
  Value tensor = dispatch::RecurrenceOp(op).getBits();
  bool isDense = cast<RankedTensorType>(tensor.getType()).getRank() == 2;
  Number bit = isDense ? bits->at(batch, position % getExtent(tensor))
                       : bits->at(getRow(tensor, batch, position), 0);
  return isPlace || bit.value > 0.5;
}

LogicalResult RecurrenceJudge::judgeRow(int64_t row) {
  int64_t batch = rows.batch(row), p = rows.position(row);
  int64_t length = rows.length(row, op.getDomain().getFactor(), rows.positions());
  int64_t previous = op.getReversed() ? p + 1 : p - 1;
  bool exists = op.getReversed() ? previous < length : previous >= 0;
  bool isLinked = exists && !isMarked(batch, op.getAdjoint() ? previous : p);
  Number zero{0, 0};
  for (int64_t column = 0; column < columns; ++column) {
    SmallVector<Number> arguments;
    for (int64_t group = 0; group < groups; ++group) {
      ProductSum sum;
      int64_t n = group * columns + column, inner = op.countInnerColumns();
      for (int64_t k = 0; isLinked && k < inner; ++k) {
        Number left = results[0]->stored().at(getRow(op.getOutputs()[0], batch, previous), k);
        sum.add(left, op.getByInput() ? weight->at(k, n) : weight->at(n, k));
      }
      arguments.push_back(isLinked ? sum.total(launch.splits) : zero);
    }
    auto add = [&](Value tensor, const TensorRows &stored, int64_t at, bool isThere) {
      for (int64_t group = 0; group < op.countGroups(tensor); ++group) {
        arguments.push_back(isThere ? stored.at(getRow(tensor, batch, at), group * columns + column)
                                    : zero);
      }
    };
    for (auto [i, input] : llvm::enumerate(op.getInputs())) {
      int64_t at = p + op.getOffset(i);
      bool isThere = at == p || (at >= 0 && at < length && !isMarked(batch, p));
      add(input, inputs[i], at, isThere);
    }
    for (unsigned i = 0; i < op.getCarried(); ++i) {
      add(op.getOutputs()[i], results[i]->stored(), previous, isLinked);
    }
    auto yielded = evaluateScalar(body, arguments, BodyPlace{row, p, column});
    if (failed(yielded)) {
      return failure();
    }
    size_t next = 0;
    for (auto [result, tensor] : llvm::zip_equal(results, op.getOutputs())) {
      for (int64_t group = 0; group < op.countGroups(tensor); ++group) {
        result->check(getRow(tensor, batch, p), group * columns + column, (*yielded)[next++]);
      }
    }
  }
  return success();
}

/// The rings of carried results keep the row before the first due row.
LogicalResult RecurrenceJudge::run() {
  for (int64_t row = 0; row < rows.count(); ++row) {
    if (rows.isValid(row) && failed(judgeRow(row))) {
      return failure();
    }
  }
  return success();
}

LogicalResult sluice::oracle::judgeRecurrence(dispatch::RecurrenceOp op, const OracleLaunch &launch,
                                              Judgement &judgement) {
  return RecurrenceJudge(op, launch, judgement).run();
}
