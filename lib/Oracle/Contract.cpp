// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contractions, their weight gradients and the gradient of a gather.
#include "Contract.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::oracle;

namespace {

std::vector<TensorRows> storedAll(ValueRange tensors, const OracleLaunch &launch, size_t first) {
  std::vector<TensorRows> all;
  for (Value tensor : tensors) {
    all.emplace_back(tensor, launch.operands[first++]);
  }
  return all;
}

/// Returns the row in a tensor's memory for a row of the domain.
int64_t getRowLine(Value tensor, const DomainRows &rows, int64_t row) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return type.getRank() == 3 ? rows.inMemory(type.getDimSize(1), row) : row;
}

/// Rotates pairs of columns below `columns` of a row; the row is at position `p`.
void rotate(MutableArrayRef<SmallVector<Number>> row, const TensorRows &rotary, int64_t p,
            int64_t columns) {
  for (int64_t i = 0; i < columns; i += 2) {
    int64_t at = i % rotary.width();
    Number cosine = rotary.at(p, at), sine = rotary.at(p, at + 1);
    Number x = row[i].front(), y = row[i + 1].front();
    row[i].front() = subtract(multiply(x, cosine), multiply(y, sine));
    row[i + 1].front() = add(multiply(x, sine), multiply(y, cosine));
  }
}

/// Returns element (row, column) of an extra operand of a contraction.
Number extraAt(const TensorRows &extra, dispatch::AccessKind kind, int64_t row, int64_t column) {
  switch (kind) {
  case dispatch::AccessKind::Scalar:
    return extra.at(0, 0);
  case dispatch::AccessKind::Vector:
    return extra.at(0, column);
  default:
    return extra.at(row, column);
  }
}

/// Returns the error of a number of a row that a kernel may round to whole multiples of its maximum
/// / 32767, in f32.
double getWholeError(const TensorRows &input, int64_t line) {
  double most = 0x1p-100;
  for (int64_t k = 0; k < input.width(); ++k) {
    most = std::max(most, std::abs(input.at(line, k).value));
  }
  // Half a unit, and the relative errors of the scale, its inverse and a product.
  return most / 32767 / 2 + 4 * unit * most;
}

/// Returns column `k` of row `column` of a weight in groups.
Number getGroupedWeight(const TensorRows &weight, const TensorRows &scales, int64_t inner,
                        int64_t column, int64_t k) {
  int64_t row = column * int64_t(llvm::divideCeil(inner, dispatch::groupWeights)) +
                k / dispatch::groupWeights;
  auto byte = int64_t(weight.at(row, k % dispatch::groupBytes).value);
  int64_t second = llvm::divideFloorSigned(byte, 16);
  bool isSecond = k % dispatch::groupWeights >= dispatch::groupBytes;
  return multiply({double(isSecond ? second : byte - 16 * second - 8), 0}, scales.at(0, row));
}

} // namespace

LogicalResult sluice::oracle::judgeContract(dispatch::ContractOp op, const OracleLaunch &launch,
                                            Judgement &judgement) {
  TensorRows input(op.getInput(), launch.operands[0]), weight(op.getWeight(), launch.operands[1]);
  std::vector<TensorRows> extras = storedAll(op.getExtras(), launch, 2);
  std::vector<std::unique_ptr<ValueComparison>> results;
  for (unsigned i = 0; i < op->getNumResults(); ++i) {
    results.push_back(std::make_unique<ValueComparison>(op, launch, i, judgement));
  }
  Body epilogue(op.getEpilogue().front(), launch);
  bool byInput = op.getByInput();
  bool isWhole = getElementTypeOrSelf(op.getWeight().getType()).isInteger(8);
  int64_t inner = op.getInner(), columns = op.getColumns();
  DomainRows rows(op, launch);
  for (int64_t row = 0; row < rows.count(); ++row) {
    if (!rows.isValid(row)) {
      continue;
    }
    int64_t position = rows.position(row), line = getRowLine(op.getInput(), rows, row);
    std::vector<SmallVector<Number>> yields; // yielded values, by column
    double roundedInput = isWhole ? getWholeError(input, line) : 0;
    for (int64_t column = 0; column < columns; ++column) {
      ProductSum sum;
      for (int64_t k = 0; k < inner; ++k) {
        Number factor = input.at(line, k);
        factor.error = roundedInput;
        sum.add(factor, op.getGrouped() ? getGroupedWeight(weight, extras.back(), inner, column, k)
                        : byInput       ? weight.at(k, column)
                                        : weight.at(column, k));
      }
      SmallVector<Number> arguments{sum.total(launch.splits)};
      for (size_t i = 0; i < op.getArgumentExtras().size(); ++i) {
        auto kind = cast<dispatch::AccessAttr>(op.getAccesses()[i]).getKind();
        int64_t own = getRowLine(op.getExtras()[i], rows, row);
        arguments.push_back(extraAt(extras[i], kind, own, column));
      }
      auto yielded = evaluateScalar(epilogue, arguments, BodyPlace{row, position, column});
      if (failed(yielded)) {
        return failure();
      }
      yields.emplace_back(yielded->begin(), yielded->end());
    }
    if (op.getRotary()) {
      rotate(yields, extras[op.getArgumentExtras().size()], position,
             int64_t(*op.getRotatedColumns()));
    }
    for (int64_t column = 0; column < columns; ++column) {
      for (auto [result, tensor, number] :
           llvm::zip_equal(results, op.getOutputs(), yields[column])) {
        result->check(getRowLine(tensor, rows, row), column, number);
      }
    }
  }
  return success();
}

LogicalResult sluice::oracle::judgeWeightGradient(dispatch::WeightGradientOp op,
                                                  const OracleLaunch &launch,
                                                  Judgement &judgement) {
  TensorRows left(op.getLeft(), launch.operands[0]), right(op.getRight(), launch.operands[1]);
  size_t next = 2;
  std::optional<TensorRows> initWeight, initBias;
  if (op.getInitWeight()) {
    initWeight.emplace(op.getInitWeight(), launch.operands[next++]);
  }
  if (op.getInitBias()) {
    initBias.emplace(op.getInitBias(), launch.operands[next++]);
  }
  DomainRows rows(op, launch);
  auto judge = [&](unsigned number, bool isBias, const std::optional<TensorRows> &init) {
    ValueComparison result(op, launch, number, judgement);
    for (int64_t m = 0; m < left.width(); ++m) {
      for (int64_t k = 0; k < (isBias ? 1 : right.width()); ++k) {
        ProductSum sum;
        for (int64_t row = 0; row < rows.count(); ++row) {
          if (rows.isValid(row)) {
            sum.add(left.at(row, m), isBias ? Number{1, 0} : right.at(row, k));
          }
        }
        Number total = sum.total(launch.splits);
        int64_t at = isBias ? 0 : m, column = isBias ? m : k;
        result.check(at, column, init ? add(init->at(at, column), total) : total);
      }
    }
  };
  unsigned number = 0;
  if (op.getWeight()) {
    judge(number++, false, initWeight);
  }
  if (op.getBias()) {
    judge(number, true, initBias);
  }
  return success();
}

LogicalResult sluice::oracle::judgeScatter(dispatch::ScatterRowsOp op, const OracleLaunch &launch,
                                           Judgement &judgement) {
  TensorRows index(op.getIndex(), launch.operands[0]), values(op.getValues(), launch.operands[1]);
  ValueComparison result(op, launch, 0, judgement);
  DomainRows rows(op, launch);
  int64_t width = result.stored().width();
  std::vector<ProductSum> sums(result.stored().rows() * width);
  if (op.getInit()) { // a kernel adds the rows to it one by one
    TensorRows init(op.getInit(), launch.operands[2]);
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i].add(init.at(int64_t(i) / width, int64_t(i) % width));
    }
  }
  for (int64_t row = 0; row < rows.count(); ++row) {
    if (!rows.isValid(row)) {
      continue;
    }
    auto token = int64_t(index.at(row / rows.positions(), row % rows.positions()).value);
    bool inside = token >= 0 && token < result.stored().rows();
    for (int64_t column = 0; inside && column < width; ++column) {
      sums[token * width + column].add(values.at(row, column));
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    int64_t row = int64_t(i) / width, column = int64_t(i) % width;
    result.check(row, column, sums[i].total(launch.splits));
  }
  return success();
}
