// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements sluice.contrast: a cross-entropy whose matrix is the rows of a sequence, of all texts
// of the batch, and whose targets are numbers of rows. It lowers to the kernels of the head: passes
// over rows copy the candidates to a matrix and compute a bias of -1e30 for invalid ones.
#include "../Cost.h"
#include "../Fusion/RowPass.h"
#include "../Reference/Reference.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Labels.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::lowering;
using namespace sluice::reference;
using dispatch::RowRead;

LogicalResult ContrastOp::verify() {
  SequenceType rows = getRows().getType(), type = getLosses().getType();
  auto isNumber = [&](SequenceType number) {
    return number.getScale() == rows.getScale() && number.getWidth() < 2 &&
           number.getElement().isF32();
  };
  if (rows != getCandidates().getType() || rows.getWidth() < 1 || !isNumber(type) ||
      type.getWidth() != 0 || (getValid() && !isNumber(getValid().getType()))) {
    return emitOpError("S-178: expected rows and candidates of one type, and one f32 per row on "
                       "their scale, found ")
           << rows << ", " << getCandidates().getType() << " and " << type;
  }
  int64_t parts = getParts();
  if (parts < 1 || sluice::getBatch(*this) % parts != 0) {
    return emitOpError("S-178: expected a number of parts that divides the batch of ")
           << sluice::getBatch(*this) << ", found " << parts;
  }
  return success();
}

/// A row reads itself and all candidates.
std::optional<IntegerSet> ContrastOp::getRelation(unsigned operand) {
  AffineExpr p = getAffineDimExpr(0, getContext()), q = getAffineDimExpr(1, getContext()),
             n = getAffineSymbolExpr(0, getContext());
  return operand == 0 ? IntegerSet::get(2, 1, {q - p}, {true})
                      : IntegerSet::get(2, 1, {q, n - 1 - q}, {false, false});
}
AffineExpr ContrastOp::getLatest(unsigned operand) {
  return operand == 0 ? getAffineDimExpr(0, getContext()) : AffineExpr();
}

OpRemedy ContrastOp::getRemedy() {
  return {"a contrastive loss depends on later rows and on other texts, so the objective alone may "
          "read it",
          "",
          {}};
}

/// The gradient of a row reads its row and its incoming gradient; a candidate has a share in the
/// losses of all rows.
std::optional<SmallVector<RowRead>> ContrastBackwardOp::getRowReads(unsigned result) {
  SmallVector<RowRead> reads;
  for (OpOperand &operand : getOperation()->getOpOperands()) {
    bool isOwn = result == 0 && (operand.get() == getRows() || operand.get() == getGradient());
    reads.push_back(isOwn ? RowRead::itself(operand.getOperandNumber(), getContext())
                          : RowRead::whole(operand.getOperandNumber()));
  }
  return reads;
}

/// Per row and candidate: `contractions` products of d, an exponential and its sum.
static double countFlops(Operation *op, Value rows, Value candidates, double contractions) {
  double width = static_cast<double>(cast<SequenceType>(rows.getType()).getWidth());
  double all = facts::elements(op, candidates) / width;
  return facts::elements(op, rows) / width * all * (2 * contractions * width + 2);
}

Cost ContrastOp::getCost() {
  double parts = static_cast<double>(getParts());
  return facts::cost(*this, countFlops(*this, getRows(), getCandidates(), 1) / parts,
                     {getRows(), getCandidates()});
}
Cost ContrastBackwardOp::getCost() {
  double parts = static_cast<double>(getParts());
  return facts::cost(*this, countFlops(*this, getRows(), getCandidates(), 4) / parts);
}

LogicalResult ContrastOp::buildBackward(OpBuilder &b, ArrayRef<Value> results,
                                        MutableArrayRef<Value> operands) {
  auto backward =
      ContrastBackwardOp::create(b, getLoc(), getRows().getType(), getCandidates().getType(),
                                 getRows(), getCandidates(), results[0], getValid(), getParts());
  operands[0] = backward.getRowsGradient();
  operands[1] = backward.getCandidatesGradient();
  return success();
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

LogicalResult CountedRowsOp::verify() {
  SequenceType type = getResult().getType();
  auto first = static_cast<int64_t>(getFirst()), every = static_cast<int64_t>(getEvery()),
       parts = static_cast<int64_t>(getParts());
  if (type.getWidth() != 0 || !type.getElement().isF32() || sluice::getFactor(*this, type) != 1 ||
      first < 0 || every < 1 || parts < 1 || sluice::getBatch(*this) % parts != 0) {
    return emitOpError("S-179: expected one f32 per row of factor 1, a first row of at least 0, "
                       "and parts that divide the batch of ")
           << sluice::getBatch(*this) << ", found " << type << ", row " << first << ", every "
           << every << " and " << parts << " parts";
  }
  return success();
}

/// The op has no operands.
std::optional<IntegerSet> CountedRowsOp::getRelation(unsigned) { return std::nullopt; }
AffineExpr CountedRowsOp::getLatest(unsigned) { return {}; }
Cost CountedRowsOp::getCost() { return facts::cost(*this, 0); }
LogicalResult CountedRowsOp::buildBackward(OpBuilder &, ArrayRef<Value>, MutableArrayRef<Value>) {
  return success();
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

namespace {

/// A pass over rows that may store results densely, a row for each row of the batch.
class DensePass : public RowPass {
public:
  using RowPass::RowPass;

  /// Returns row or element r = b T + p of a tensor [R, d] or [R].
  Value flat(Value tensor) {
    auto type = cast<RankedTensorType>(tensor.getType());
    return load(tensor, {AccessKind::Flat, p}, type.getRank() == 2 ? type.getDimSize(1) : 0);
  }
  /// Returns element p + `offset` of a tensor [B, T]; 0 outside.
  Value elementAt(Value tensor, int64_t offset) {
    return load(tensor, {AccessKind::Row, p + offset}, 0);
  }
  /// Finishes the dispatch; its results have zeros for rows that are not valid.
  SmallVector<Value> finishFlat(ArrayRef<Value> yielded, ArrayRef<RankedTensorType> types,
                                dispatch::DomainAttr domain) {
    SmallVector<Value> results = finish(yielded, types, domain);
    auto op = results.front().getDefiningOp<dispatch::RowsOp>();
    op.setResultAccessesAttr(b.getArrayAttr(
        SmallVector<Attribute>(results.size(), AccessAttr::get(b.getContext(), AccessKind::Flat))));
    op.setZeroInvalid(domain.getFactor() != 0 || domain.getAxis());
    return results;
  }
};

/// The operands of the head's kernels for a contrast.
struct HeadOperands {
  template <typename Op> HeadOperands(Op op, DispatchEmitter &emitter);
  /// Returns `number` where the row of the pass has a loss, else 0.
  Value selectScored(DensePass &pass, Value number) const;
  /// Returns `row` in texts that have losses, else zeros.
  Value selectQueries(DensePass &pass, Value row) const;

  dispatch::DomainAttr domain;  ///< all rows
  dispatch::DomainAttr queries; ///< rows of the texts that have losses
  Value input;
  Value weight;   ///< [B T, d]
  Value bias;     ///< [B T]
  Value ones;     ///< [B, T], 1 at valid candidates
  Value places;   ///< [B, T], the number of the row
  int64_t scored; ///< number of rows of `queries`
};

} // namespace

/// Returns the number of each row of the batch, i32 [B, T].
static Value bindPlaces(DispatchEmitter &emitter, dispatch::DomainAttr domain) {
  int64_t batch = domain.getBatch(), positions = domain.getPositions();
  return emitter.bind(
      "constant:places." + std::to_string(batch) + "." + std::to_string(positions),
      RankedTensorType::get({batch, positions}, IntegerType::get(domain.getContext(), 32)));
}

template <typename Op>
HeadOperands::HeadOperands(Op op, DispatchEmitter &emitter)
    : domain(emitter.getRowDomain(op.getRows())), input(emitter.get(op.getRows())) {
  ImplicitLocOpBuilder &b = emitter.b;
  int64_t all = domain.getBatch() * domain.getPositions();
  scored = all / static_cast<int64_t>(op.getParts());
  queries =
      dispatch::DomainAttr::get(b.getContext(), scored / domain.getPositions(),
                                domain.getPositions(), domain.getFactor(), false, domain.getAxis());
  auto numbers = RankedTensorType::get({all}, b.getF32Type());
  auto byText = RankedTensorType::get({domain.getBatch(), domain.getPositions()}, b.getF32Type());
  places = bindPlaces(emitter, domain);
  SequenceType rows = op.getRows().getType();
  DensePass copy(emitter);
  Value row = copy.row(op.getCandidates());
  Value one = op.getValid()
                  ? copy.row(op.getValid())
                  : arith::ConstantOp::create(copy.b, copy.b.getF32FloatAttr(1)).getResult();
  if (isa<RankedTensorType>(one.getType())) { // one column
    one = dispatch::ReduceOp::create(copy.b, copy.b.getF32Type(), dispatch::ReduceKind::Add, one);
  }
  SmallVector<Value> copied = copy.finishFlat(
      {row, one}, {RankedTensorType::get({all, rows.getWidth()}, rows.getElement()), numbers},
      domain);
  weight = copied[0];
  ones = plan::ViewOp::create(b, byText, copied[1]);
  DensePass exclude(emitter);
  Value excluded =
      arith::SubFOp::create(exclude.b, exclude.flat(copied[1]),
                            arith::ConstantOp::create(exclude.b, exclude.b.getF32FloatAttr(1)));
  Value least = arith::ConstantOp::create(exclude.b, exclude.b.getF32FloatAttr(1e30F));
  bias = exclude.finishFlat({arith::MulFOp::create(exclude.b, excluded, least)}, {numbers},
                            emitter.wholeDomain(1, all))[0];
}

Value HeadOperands::selectScored(DensePass &pass, Value number) const {
  ImplicitLocOpBuilder &b = pass.b;
  Value half = arith::ConstantOp::create(b, b.getF32FloatAttr(0.5));
  Value isScored =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, pass.elementAt(ones, 1), half);
  return selectQueries(pass, selectRow(b, isScored, number));
}

Value HeadOperands::selectQueries(DensePass &pass, Value row) const {
  if (queries == domain) {
    return row;
  }
  Value isQuery =
      arith::CmpIOp::create(pass.b, arith::CmpIPredicate::slt, pass.elementAt(places, 0),
                            createI32(pass.b, static_cast<int32_t>(scored)));
  return selectRow(pass.b, isQuery, row);
}

LogicalResult CountedRowsOp::emitDispatches(DispatchEmitter &emitter) {
  dispatch::DomainAttr domain = emitter.getRowDomain(getResult());
  auto all = static_cast<int32_t>(domain.getPositions()),
       texts = static_cast<int32_t>(domain.getBatch() / static_cast<int64_t>(getParts()));
  Value places = bindPlaces(emitter, domain);
  DensePass pass(emitter);
  ImplicitLocOpBuilder &b = pass.b;
  Value place = pass.elementAt(places, 0),
        row = arith::RemSIOp::create(b, place, createI32(b, all)),
        rest = arith::RemSIOp::create(b, row, createI32(b, static_cast<int32_t>(getEvery())));
  Value number = arith::ConstantOp::create(b, b.getF32FloatAttr(1));
  auto keepWhere = [&](arith::CmpIPredicate predicate, Value x, int32_t y) {
    number = selectRow(b, arith::CmpIOp::create(b, predicate, x, createI32(b, y)), number);
  };
  keepWhere(arith::CmpIPredicate::slt, place, texts * all);
  keepWhere(arith::CmpIPredicate::sge, row, static_cast<int32_t>(getFirst()));
  keepWhere(arith::CmpIPredicate::eq, rest, 0);
  if (getPadded()) {
    Value padding =
        pass.elementAt(emitter.bind(paddingInput, emitter.getTensorType(getResult())), 0);
    Value one = arith::ConstantOp::create(b, b.getF32FloatAttr(1));
    number = arith::MulFOp::create(b, number, arith::SubFOp::create(b, one, padding));
  }
  return pass.finish(number, getResult());
}

LogicalResult ContrastOp::emitDispatches(DispatchEmitter &emitter) {
  HeadOperands head(*this, emitter);
  auto rows = dispatch::CrossEntropyOp::create(
      emitter.b, emitter.getTensorType(getLosses()), Type(), Type(), head.input, head.weight,
      head.places, head.bias, Value(), head.queries, /*offset=*/1, /*first=*/0, llvm::APFloat(0.0F),
      llvm::APFloat(1.0F), StringAttr(), StringAttr());
  DensePass pass(emitter);
  return pass.finish(head.selectScored(pass, pass.elementAt(rows.getLosses(), 0)), getLosses());
}

LogicalResult ContrastBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  HeadOperands head(*this, emitter);
  ImplicitLocOpBuilder &b = emitter.b;
  RankedTensorType numbers = emitter.getTensorType(getGradient());
  DensePass incoming(emitter);
  Value gradient = incoming.finish(head.selectScored(incoming, incoming.row(getGradient())),
                                   numbers, head.domain);
  auto rows = dispatch::CrossEntropyOp::create(
      b, numbers, numbers, emitter.getTensorType(getRowsGradient()), head.input, head.weight,
      head.places, head.bias, gradient, head.queries, /*offset=*/1, /*first=*/0,
      llvm::APFloat(0.0F), llvm::APFloat(1.0F), StringAttr(), StringAttr());
  if (head.queries == head.domain) {
    emitter.set(getRowsGradient(), rows.getInputGradient());
  } else {
    DensePass clear(emitter);
    Value row = clear.row(rows.getInputGradient(), 0);
    if (failed(clear.finish(head.selectQueries(clear, row), getRowsGradient()))) {
      return failure();
    }
  }
  auto type = cast<RankedTensorType>(head.weight.getType()).clone(b.getF32Type());
  auto weights = dispatch::CrossEntropyWeightGradientOp::create(
      b, type, Type(), head.input, head.weight, head.places, rows.getLse(), head.bias, gradient,
      Value(), Value(), head.queries, /*offset=*/1, /*first=*/0, llvm::APFloat(0.0F),
      llvm::APFloat(1.0F), StringAttr(), StringAttr());
  DensePass pass(emitter);
  return pass.finish(pass.flat(weights.getWeightGradient()), getCandidatesGradient());
}

//===----------------------------------------------------------------------===//
// Reference
//===----------------------------------------------------------------------===//

namespace {
/// The candidates of a batch.
template <typename T> struct Candidates {
  template <typename Op> Candidates(Op op, Evaluator<T> &evaluator) {
    positions = evaluator.getPositions(op.getCandidates());
    for (int64_t b = 0; b < evaluator.getSetting().rows; ++b) {
      for (int64_t p = 0; p < positions; ++p) {
        rows.push_back(evaluator.rowAt(op.getCandidates(), b, p));
        valid.push_back(!op.getValid() || evaluator.at(op.getValid(), b, p, 0) > T(0.5));
      }
    }
    scored = sluice::getBatch(op) / static_cast<int64_t>(op.getParts());
  }
  /// Returns the number of the row that row (b, p) must choose, if it has a loss.
  std::optional<size_t> getTarget(int64_t b, int64_t p) const {
    auto next = static_cast<size_t>(b * positions + p + 1);
    bool isScored = b < scored && p + 1 < positions && valid[next];
    return isScored ? std::optional(next) : std::nullopt;
  }
  /// Returns the logarithms of the probabilities of all candidates for x.
  std::vector<T> computeLogs(const std::vector<T> &x) const {
    std::vector<T> logs;
    T greatest = -std::numeric_limits<T>::infinity(), sum = 0;
    for (size_t c = 0; c < rows.size(); ++c) {
      T product = valid[c] ? T(0) : -std::numeric_limits<T>::infinity();
      for (size_t i = 0; i < x.size() && valid[c]; ++i) {
        product += x[i] * rows[c][i];
      }
      logs.push_back(product);
      greatest = std::max(greatest, product);
    }
    for (T product : logs) {
      sum += std::exp(product - greatest);
    }
    for (T &product : logs) {
      product -= greatest + std::log(sum);
    }
    return logs;
  }

  int64_t positions, scored;
  std::vector<std::vector<T>> rows;
  std::vector<bool> valid;
};
} // namespace

template <typename T> static void evaluate(ContrastOp op, Evaluator<T> &evaluator) {
  Candidates<T> candidates(op, evaluator);
  evaluator.define(op.getLosses(), [&](int64_t b, int64_t p) {
    std::optional<size_t> target = candidates.getTarget(b, p);
    std::vector<T> x = evaluator.rowAt(op.getRows(), b, p);
    return std::vector<T>{target ? -candidates.computeLogs(x)[*target] : T(0)};
  });
}

template <typename T> static void evaluate(ContrastBackwardOp op, Evaluator<T> &evaluator) {
  Candidates<T> candidates(op, evaluator);
  auto width = static_cast<size_t>(op.getRows().getType().getWidth());
  std::vector<std::vector<T>> gradients(candidates.rows.size(), std::vector<T>(width));
  evaluator.define(op.getRowsGradient(), [&](int64_t b, int64_t p) {
    std::vector<T> x = evaluator.rowAt(op.getRows(), b, p), gradient(width);
    std::optional<size_t> target = candidates.getTarget(b, p);
    std::vector<T> logs = target ? candidates.computeLogs(x) : std::vector<T>();
    for (size_t c = 0; c < logs.size(); ++c) {
      T share = (std::exp(logs[c]) - (c == *target ? T(1) : T(0))) *
                evaluator.at(op.getGradient(), b, p, 0);
      for (size_t i = 0; i < width && candidates.valid[c]; ++i) {
        gradient[i] += share * candidates.rows[c][i];
        gradients[c][i] += share * x[i];
      }
    }
    return gradient;
  });
  evaluator.define(op.getCandidatesGradient(), [&](int64_t b, int64_t p) {
    return gradients[static_cast<size_t>(b * candidates.positions + p)];
  });
}

template <typename T> static void evaluate(CountedRowsOp op, Evaluator<T> &evaluator) {
  int64_t texts = sluice::getBatch(op) / static_cast<int64_t>(op.getParts());
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    bool isCounted = b < texts && p >= static_cast<int64_t>(op.getFirst()) &&
                     p % static_cast<int64_t>(op.getEvery()) == 0 &&
                     !(op.getPadded() && evaluator.getSetting().isPadding(b, p));
    return std::vector<T>{isCounted ? T(1) : T(0)};
  });
}

SLUICE_REFERENCE(CountedRowsOp)
SLUICE_REFERENCE(ContrastOp)
SLUICE_REFERENCE(ContrastBackwardOp)
