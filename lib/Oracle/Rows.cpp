// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Row passes: reads each row's operands through their accesses, then evaluates the body.
#include "Rows.h"

#include "sluice/Dialect/Sluice/Reference.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::oracle;

namespace {

class RowPass {
public:
  RowPass(dispatch::RowsOp op, const OracleLaunch &launch, Judgement &judgement);
  LogicalResult run();

private:
  Numbers read(unsigned operand, int64_t row, const Body &body);
  Numbers readRow(const TensorRows &stored, Value argument, dispatch::AccessAttr access,
                  int64_t row);
  Numbers getRowLine(const TensorRows &stored, Value argument, int64_t line,
                     int64_t first = 0) const;
  Numbers readGroup(const TensorRows &stored, Value argument, dispatch::AccessAttr access,
                    int64_t row) const;
  Numbers rowAt(const TensorRows &stored, Value argument, dispatch::AccessAttr access, int64_t row,
                int64_t q, int64_t first);
  Number computeWeight(dispatch::AccessAttr access, Value argument, int64_t row, int64_t q) const;
  Numbers sumOver(const TensorRows &stored, Value argument, dispatch::AccessAttr access,
                  int64_t row, const Body &body);
  /// Returns the end of the operand's sequence. Rows of segments that a decode step reads are in
  /// its rings, and no length bounds their number.
  int64_t getRowLimit(Value argument, dispatch::AccessAttr access, int64_t row) {
    auto type = getOperandType(argument);
    if (op.getDomain().getScheduled() && access.getSourceFactor() == 0) {
      return std::numeric_limits<int64_t>::max();
    }
    return rows.length(row, access.getSourceFactor(), type.getDimSize(1));
  }
  RankedTensorType getOperandType(Value argument) const {
    unsigned number = cast<BlockArgument>(argument).getArgNumber();
    return cast<RankedTensorType>(op->getOperand(number).getType());
  }
  void judgeRow(unsigned result, int64_t row, const Numbers &yielded, bool valid);
  void judgeColumns(unsigned result);
  dispatch::AccessAttr getTensorAccess(ArrayAttr accesses, unsigned i) const {
    return cast<dispatch::AccessAttr>(accesses[i]);
  }

  dispatch::RowsOp op;
  const OracleLaunch &launch;
  DomainRows rows;
  std::vector<TensorRows> operands;
  std::vector<std::unique_ptr<ValueComparison>> results;
  std::vector<std::vector<ProductSum>> columnSums; ///< sums of results with access `columns`
};

} // namespace

RowPass::RowPass(dispatch::RowsOp op, const OracleLaunch &launch, Judgement &judgement)
    : op(op), launch(launch), rows(op, launch), columnSums(op->getNumResults()) {
  for (auto [operand, data] : llvm::zip(op.getInputs(), launch.operands)) {
    operands.emplace_back(operand, data);
  }
  for (unsigned i = 0; i < op->getNumResults(); ++i) {
    results.push_back(std::make_unique<ValueComparison>(op, launch, i, judgement));
  }
}

static int64_t countBufferElements(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor ? tensor.getNumElements() : 1;
}

/// Reads a line from column `first`, with the size of the argument; a line with one number per
/// position is in a row of positions.
Numbers RowPass::getRowLine(const TensorRows &stored, Value argument, int64_t line,
                            int64_t first) const {
  Numbers numbers;
  for (int64_t i = 0; i < countBufferElements(argument); ++i) {
    numbers.push_back(stored.at(line, first + i));
  }
  return numbers;
}

/// Reads the lines map(p, i) of a group, zeros outside of the tensor.
Numbers RowPass::readGroup(const TensorRows &stored, Value argument, dispatch::AccessAttr access,
                           int64_t row) const {
  Numbers numbers;
  for (int64_t i = 0; i < access.getGroup(); ++i) {
    int64_t line = reference::evaluateAffine(access.getMap().getValue().getResult(0),
                                             rows.position(row), i, 0);
    for (int64_t column = 0; column < stored.width(); ++column) {
      bool inside = line >= 0 && line < stored.rows();
      numbers.push_back(inside ? stored.at(line, column) : Number{});
    }
  }
  return numbers;
}

/// Reads row q of the row's own sequence, from column `first`; outside [0, N') the value that the
/// access specifies.
Numbers RowPass::rowAt(const TensorRows &stored, Value argument, dispatch::AccessAttr access,
                       int64_t row, int64_t q, int64_t first) {
  RankedTensorType type = getOperandType(argument);
  int64_t sources = type.getDimSize(1), limit = getRowLimit(argument, access, row);
  int64_t batch = type.getDimSize(0) == 1 ? 0 : rows.batch(row); // one sequence for all
  double goesOn = q < 0 ? double(q) : double(INT32_MAX);
  FloatAttr identity = access.getOutside();
  Number outside{access.getExtended() ? goesOn : identity ? identity.getValueAsDouble() : 0, 0};
  bool isPadded = access.getOutside() && access.getGroup() == 1; // columns may be outside too
  bool inside = q >= 0 && q < limit && (first >= 0 || isPadded);
  Numbers numbers;
  for (int64_t column = 0; column < countBufferElements(argument) / access.getGroup(); ++column) {
    bool hasColumn = !isPadded || type.getRank() == 2 ||
                     (first + column >= 0 && first + column < type.getDimSize(2));
    numbers.push_back(!inside || !hasColumn ? outside
                      : type.getRank() == 2
                          ? stored.at(batch, q % sources)
                          : stored.at(batch * sources + q % sources, first + column));
  }
  return numbers;
}

/// Reads rows map(p, i).
Numbers RowPass::readRow(const TensorRows &stored, Value argument, dispatch::AccessAttr access,
                         int64_t row) {
  int64_t p = rows.position(row), limit = getRowLimit(argument, access, row);
  Numbers numbers;
  for (int64_t i = 0; i < access.getGroup(); ++i) {
    int64_t q = reference::evaluateAffine(access.getMap().getValue().getResult(0), p, i, limit);
    int64_t first =
        reference::evaluateAffine(access.getColumn().getValue().getResult(0), p, i, limit);
    llvm::append_range(numbers, rowAt(stored, argument, access, row, q, first));
  }
  return numbers;
}

/// Returns the weight of row q of a range: 1, a number of the row, or an entry of a softmax map.
Number RowPass::computeWeight(dispatch::AccessAttr access, Value argument, int64_t row,
                              int64_t q) const {
  dispatch::SoftmaxAttr softmax = access.getSoftmax();
  int64_t batch = rows.batch(row), p = rows.position(row);
  if ((access.getWeight() < 0 && !softmax) || q < 0 ||
      q >= getOperandType(argument).getDimSize(1)) {
    return {1, 0};
  }
  if (!softmax) {
    return operands[unsigned(access.getWeight())].at(batch, q);
  }
  auto [at, from] = softmax.getTransposed() ? std::pair(q, p) : std::pair(p, q);
  Number sum = add(operands[unsigned(softmax.getSource())].at(batch, at),
                   operands[unsigned(softmax.getTarget())].at(batch, from));
  Number slope = {sum.value > 0 ? 1 : softmax.getLeak().getValueAsDouble(), 0};
  Number score = sum.value > 0 ? sum : multiply(sum, slope);
  Number weight =
      monotone(subtract(score, operands[unsigned(softmax.getNorm())].at(batch, at)), std::exp);
  return softmax.getSlope() ? multiply(weight, slope) : weight;
}

/// Returns the sum, or the maximum per column, of rows map(v, 0) to map(w, 1) - 1, or of the rows
/// at these entries of a list, times their weights.
Numbers RowPass::sumOver(const TensorRows &stored, Value argument, dispatch::AccessAttr access,
                         int64_t row, const Body &body) {
  int64_t batch = rows.batch(row);
  int64_t limit =
      access.isListed()
          ? getOperandType(op.getBody().getArgument(unsigned(access.getList()))).getDimSize(1)
          : getRowLimit(argument, access, row);
  auto bound = [&](int64_t index, int64_t member) {
    int64_t v =
        index < 0 ? rows.position(row) : int64_t(body.getArgument(unsigned(index))[0].value);
    return reference::evaluateAffine(access.getMap().getValue().getResult(0), v, member, limit);
  };
  int64_t end = std::min(bound(access.getLast(), 1), limit);
  auto isDrawn = [&](int64_t q) {
    auto number = [&](int64_t p) {
      return int64_t(operands[unsigned(access.getDrawn())].at(batch, p).value);
    };
    int64_t p = rows.position(row);
    return number(p) == number(q) && reference::isDrawnPair(uint32_t(number(p)), p, q);
  };
  int64_t drawn = 0;
  std::vector<ProductSum> sums(static_cast<size_t>(countBufferElements(argument)));
  Numbers greatest(sums.size(), {-INFINITY, 0});
  for (int64_t i = std::max<int64_t>(bound(access.getIndex(), 0), 0); i < end; ++i) {
    int64_t q =
        access.isListed() ? int64_t(operands[unsigned(access.getList())].at(batch, i).value) : i;
    if (access.isDrawn() && !isDrawn(q)) {
      continue;
    }
    ++drawn;
    Numbers numbers = rowAt(stored, argument, access, row, q, 0);
    Number weight = computeWeight(access, argument, row, q);
    for (auto [sum, most, number] : llvm::zip_equal(sums, greatest, numbers)) {
      sum.add(number, weight);
      most = number.value > most.value ? number : most;
    }
  }
  if (argument.getType().isInteger()) {
    return {{double(drawn), 0}};
  }
  if (access.getRangeKind() == dispatch::ReduceKind::Max) {
    return greatest; // maximum of stored numbers, which are exact
  }
  Numbers totals;
  for (const ProductSum &sum : sums) {
    totals.push_back(sum.total());
  }
  return totals;
}

Numbers RowPass::read(unsigned operand, int64_t row, const Body &body) {
  using dispatch::AccessKind;
  const TensorRows &stored = operands[operand];
  dispatch::AccessAttr access = getTensorAccess(op.getAccesses(), operand);
  Value argument = op.getBody().getArgument(operand);
  int64_t p = rows.position(row);
  switch (access.getKind()) {
  case AccessKind::Row:
    return readRow(stored, argument, access, row);
  case AccessKind::Table:
    return getRowLine(
        stored, argument,
        reference::evaluateAffine(access.getMap().getValue().getResult(0), p, 0, 0),
        reference::evaluateAffine(access.getColumn().getValue().getResult(0), p, 0, 0));
  case AccessKind::Gather: {
    auto line = int64_t(body.getArgument(unsigned(access.getIndex()))[0].value);
    bool isTable =
        getOperandType(argument).getRank() == 2 && isa<RankedTensorType>(argument.getType());
    if (!isTable) {
      AffineMap map = access.getMap().getValue();
      int64_t limit = getRowLimit(argument, access, row);
      return rowAt(stored, argument, access, row,
                   reference::evaluateAffine(map.getResult(0), line, 0, limit), 0);
    }
    bool inside = line >= 0 && line < stored.rows();
    return inside ? getRowLine(stored, argument, line) : Numbers(countBufferElements(argument));
  }
  case AccessKind::Range:
    return sumOver(stored, argument, access, row, body);
  case AccessKind::Flat: {
    if (access.getGroup() > 1) {
      return readGroup(stored, argument, access, row);
    }
    bool isRank1 = cast<RankedTensorType>(op.getInputs()[operand].getType()).getRank() == 1;
    return isRank1 ? Numbers{stored.at(0, row)} : getRowLine(stored, argument, row);
  }
  default:
    return getRowLine(stored, argument, 0);
  }
}

void RowPass::judgeRow(unsigned result, int64_t row, const Numbers &yielded, bool valid) {
  using dispatch::AccessKind;
  ValueComparison &comparison = *results[result];
  auto type = cast<RankedTensorType>(op->getResult(result).getType());
  AccessKind kind = getTensorAccess(op.getResultAccesses(), result).getKind();
  int64_t line = kind == AccessKind::Row ? rows.inMemory(type.getDimSize(1), row) : row;
  bool isNumberARow = (kind == AccessKind::Row && type.getRank() == 2) ||
                      (kind == AccessKind::Flat && type.getRank() == 1);
  for (size_t i = 0; i < yielded.size(); ++i) {
    Number expected = valid ? yielded[i] : Number{};
    if (kind == AccessKind::Columns) {
      columnSums[result].resize(yielded.size());
      columnSums[result][i].add(expected);
    } else if (isNumberARow) {
      bool isFlat = kind == AccessKind::Flat;
      comparison.check(isFlat ? 0 : rows.batch(row), isFlat ? row : line % type.getDimSize(1),
                       expected);
    } else {
      bool isOne = kind == AccessKind::Vector || kind == AccessKind::Scalar;
      comparison.check(isOne ? 0 : line, int64_t(i), expected);
    }
  }
}

/// Checks the total of the partial sums, and that none is larger than its terms allow; the target
/// chooses the rows of each partial sum.
void RowPass::judgeColumns(unsigned result) {
  const TensorRows &stored = results[result]->stored();
  for (size_t column = 0; column < columnSums[result].size(); ++column) {
    const ProductSum &sum = columnSums[result][column];
    Number expected = sum.total(stored.rows());
    for (int64_t part = 0; part < stored.rows(); ++part) {
      results[result]->check(part, int64_t(column), {0, sum.most()});
    }
    results[result]->checkSum(int64_t(column), expected);
  }
}

LogicalResult RowPass::run() {
  Body body(op.getBody().front(), launch);
  for (int64_t row = 0; row < rows.count(); ++row) {
    bool valid = rows.isValid(row);
    if (!valid && !op.getZeroInvalid()) {
      continue;
    }
    body.start({row, rows.position(row)});
    for (unsigned level : {0, 1, 2}) { // a gathered operand reads other arguments
      for (unsigned i = 0; i < operands.size(); ++i) {
        if (getTensorAccess(op.getAccesses(), i).getLevel() == level) {
          body.setArgument(i, read(i, row, body));
        }
      }
    }
    if (failed(body.run())) {
      return failure();
    }
    for (unsigned i = 0; i < results.size(); ++i) {
      judgeRow(i, row, body.yielded(i), valid);
    }
  }
  for (unsigned i = 0; i < results.size(); ++i) {
    judgeColumns(i);
  }
  return success();
}

LogicalResult sluice::oracle::judgeRows(dispatch::RowsOp op, const OracleLaunch &launch,
                                        Judgement &judgement) {
  return RowPass(op, launch, judgement).run();
}
