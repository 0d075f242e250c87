// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowers head and cross-entropy to dispatches: one for the rows (losses and, in training, the
// gradient of the head's input) and, in training, one for the weights. No logits are stored. The
// objective is one more dispatch: means of losses and their sum.
#include "sluice/Dialect/Plan/Names.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Fusion.h"
#include "sluice/Dialect/Sluice/Labels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;

LogicalResult CrossEntropyOp::emitDispatches(DispatchEmitter &emitter) {
  if (!getTarget().empty()) {
    return emitError("S-146: expected losses against tokens alone, found one against \"")
           << getTarget() << "\"; run sluice-expand-soft-targets before";
  }
  auto rows = dispatch::CrossEntropyOp::create(
      emitter.b, emitter.getTensorType(getLosses()), Type(), Type(), emitter.get(getInput()),
      emitter.get(getWeight()), emitter.get(getTokens()), emitter.get(getBias()), Value(),
      emitter.getRowDomain(getInput()), getOffset(), getFirst(), getSmoothing(),
      llvm::APFloat(1.0F), StringAttr(), StringAttr());
  emitter.set(getLosses(), rows.getLosses());
  return success();
}

LogicalResult CrossEntropyBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  Value input = emitter.get(getInput());
  RankedTensorType losses = emitter.getTensorType(getLosses());
  auto rows = dispatch::CrossEntropyOp::create(
      emitter.b, losses, losses, input.getType(), input, emitter.get(getWeight()),
      emitter.get(getTokens()), emitter.get(getBias()), emitter.get(getGradient()),
      emitter.getRowDomain(getInput()), getOffset(), getFirst(), getSmoothing(), getFactor(),
      StringAttr(), StringAttr());
  emitter.set(getLosses(), rows.getLosses());
  emitter.set(getInputGradient(), rows.getInputGradient());
  auto weights = dispatch::CrossEntropyWeightGradientOp::create(
      emitter.b, getWeightGradient().getType(),
      getBiasGradient() ? rows.getBias().getType() : Type(), rows.getInput(), rows.getWeight(),
      rows.getTokens(), rows.getLse(), rows.getBias(), rows.getRowGradient(),
      emitter.get(getInitWeight()), emitter.get(getInitBias()), rows.getDomain(), getOffset(),
      getFirst(), getSmoothing(), getFactor(), StringAttr(), StringAttr());
  emitter.set(getWeightGradient(), weights.getWeightGradient());
  if (getBiasGradient()) {
    emitter.set(getBiasGradient(), weights.getBiasGradient());
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Means
//===----------------------------------------------------------------------===//

/// Returns the number of scored rows as f32, at least 1: rows from `first` of all sequences of the
/// batches, without padding rows, which the host counts over all batches (null for none).
static Value countScored(ImplicitLocOpBuilder &b, Value length, Value rows, int64_t first,
                         Value padding, int64_t batches) {
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
  };
  if (first > 0) {
    length = arith::MaxSIOp::create(b, arith::SubIOp::create(b, length, number(first)), number(1));
  }
  Value count = arith::MulIOp::create(b, length, rows);
  if (batches > 1) {
    count = arith::MulIOp::create(b, count, number(batches));
  }
  if (padding) {
    count = arith::MaxSIOp::create(b, arith::SubIOp::create(b, count, padding), number(1));
  }
  return arith::SIToFPOp::create(b, b.getF32Type(), count);
}

/// Returns 1 - `padding`, for a number or several.
static Value buildWeight(ImplicitLocOpBuilder &b, Value padding) {
  FloatAttr one = b.getF32FloatAttr(1);
  auto type = dyn_cast<RankedTensorType>(padding.getType());
  TypedAttr ones = type ? TypedAttr(DenseElementsAttr::get(type, one)) : TypedAttr(one);
  return arith::SubFOp::create(b, arith::ConstantOp::create(b, ones), padding);
}

LogicalResult ObjectiveOp::verify() {
  size_t count = getLosses().size();
  if (count == 0 || getNames().size() != count || getFactors().size() != count ||
      getFirst().size() != count) {
    return emitOpError(
               "S-050: expected at least one loss, and a name, a factor and a first row for "
               "each, found ")
           << count << " losses, " << getNames().size() << " names, " << getFactors().size()
           << " factors and " << getFirst().size() << " first rows";
  }
  if (getWeights() && getWeights()->size() != count) {
    return emitOpError("S-050: expected weights, or an empty name, for each loss, found ")
           << getWeights()->size() << " of " << count << " losses";
  }
  for (Value losses : getLosses()) {
    auto type = cast<SequenceType>(losses.getType());
    if (type.getWidth() != 0 || !type.getElement().isF32()) {
      return emitOpError("S-051: expected losses of one f32 per row, found ") << type;
    }
  }
  return success();
}

namespace {
/// The dispatch of an objective: operands, their accesses and its body.
struct MeansBody {
  explicit MeansBody(DispatchEmitter &emitter)
      : emitter(emitter), b(emitter.b.getLoc(), emitter.b.getContext()) {
    b.setInsertionPointToEnd(&region.emplaceBlock());
  }
  Value operand(Value tensor, dispatch::AccessKind kind, Type type) {
    operands.push_back(tensor);
    accesses.push_back(dispatch::AccessAttr::get(b.getContext(), kind));
    return region.front().addArgument(type, b.getLoc());
  }
  Value scalar(StringRef place, Type type = {}) {
    type = type ? type : b.getI64Type();
    return operand(emitter.bind(place, RankedTensorType::get({}, type)),
                   dispatch::AccessKind::Scalar, type);
  }
  /// Returns the sum of all rows, or of the rows without padding; invalid rows are zeros.
  Value sum(Value losses, bool padded) {
    Value tensor = emitter.get(losses);
    // By default a map does not write invalid rows.
    if (auto rows = tensor.getDefiningOp<dispatch::RowsOp>()) {
      rows.setZeroInvalid(true);
    }
    int64_t count = cast<RankedTensorType>(tensor.getType()).getNumElements();
    auto all = RankedTensorType::get({count}, b.getF32Type());
    auto flat = [&](Value rows) {
      Value view = plan::ViewOp::create(emitter.b, all, rows);
      return operand(view, dispatch::AccessKind::Vector, all);
    };
    Value terms = flat(tensor);
    if (padded) {
      Value padding = flat(emitter.bind(paddingInput, tensor.getType()));
      terms = arith::MulFOp::create(b, terms, buildWeight(b, padding));
    }
    return dispatch::ReduceOp::create(b, b.getF32Type(), dispatch::ReduceKind::Add, terms);
  }

  DispatchEmitter &emitter;
  ImplicitLocOpBuilder b;
  Region region;
  SmallVector<Value> operands;
  SmallVector<Attribute> accesses;
};
} // namespace

/// Returns the name of the weights of loss i; empty if it has none.
static StringRef getWeightNames(ObjectiveOp op, size_t i) {
  return op.getWeights() ? cast<StringAttr>((*op.getWeights())[i]).getValue() : StringRef();
}

/// Returns the name of the targets of losses, which may be weighted; empty for tokens.
static StringRef getTargetToken(Value losses) {
  while (auto map = losses.getDefiningOp<MapOp>()) {
    losses = map.getInputs().front();
  }
  auto soft = losses.getDefiningOp<SoftLossOp>();
  return soft ? soft.getTarget() : StringRef();
}

/// Returns the op that sums the weights `name`; null if the host provides them.
static WeightSumOp findWeightSum(ObjectiveOp op, StringRef name) {
  for (auto sum : op->getBlock()->getOps<WeightSumOp>()) {
    if (sum.getName() == name) {
      return sum;
    }
  }
  return {};
}

/// Records name, factor and first row of each loss for the artifact.
static void recordLosses(ObjectiveOp op) {
  Builder b(op.getContext());
  SmallVector<Attribute> records;
  for (auto [i, losses, name, factor, first] :
       llvm::enumerate(op.getLosses(), op.getNames(), op.getFactors(), op.getFirst())) {
    SmallVector<NamedAttribute> facts{b.getNamedAttr("name", name),
                                      b.getNamedAttr("factor", b.getF64FloatAttr(factor)),
                                      b.getNamedAttr("first", b.getI64IntegerAttr(first))};
    if (StringRef target = getTargetToken(losses); !target.empty()) {
      facts.push_back(b.getNamedAttr("target", b.getStringAttr(target)));
    }
    if (WeightSumOp sum = findWeightSum(op, getWeightNames(op, i))) {
      facts.push_back(b.getNamedAttr("counted", sum.getNameAttr()));
    }
    records.push_back(b.getDictionaryAttr(facts));
  }
  setFact<plan::PlanDialect::LossesAttrHelper>(op->getParentOfType<ModuleOp>(),
                                               b.getArrayAttr(records));
}

/// Finishes a dispatch of scalars, f32.
static dispatch::RowsOp finishScalars(MeansBody &body, ArrayRef<Value> results, StringRef name) {
  dispatch::YieldOp::create(body.b, results);
  ImplicitLocOpBuilder &b = body.emitter.b;
  SmallVector<Type> types(results.size(), RankedTensorType::get({}, b.getF32Type()));
  SmallVector<Attribute> accesses(
      results.size(), dispatch::AccessAttr::get(b.getContext(), dispatch::AccessKind::Scalar));
  auto op = dispatch::RowsOp::create(
      b, types, body.operands, dispatch::DomainAttr::get(b.getContext(), 1, 1, 0),
      b.getArrayAttr(body.accesses), b.getArrayAttr(accesses), UnitAttr(),
      b.getDenseI64ArrayAttr(SmallVector<int64_t>(results.size(), -1)), b.getStringAttr(name),
      StringAttr(), UnitAttr());
  op.getBody().takeBody(body.region);
  return op;
}

LogicalResult WeightSumOp::verify() {
  SequenceType type = getWeights().getType();
  if (type.getWidth() != 0 || !type.getElement().isF32() || getName().empty()) {
    return emitOpError("S-180: expected weights of one f32 per row and a name, found ")
           << type << " and \"" << getName() << '"';
  }
  return success();
}

LogicalResult WeightSumOp::emitDispatches(DispatchEmitter &emitter) {
  if (getGiven()) {
    return success();
  }
  MeansBody body(emitter);
  Value sum = body.sum(getWeights(), /*padded=*/false);
  Value none = arith::ConstantOp::create(body.b, body.b.getF32FloatAttr(0)),
        one = arith::ConstantOp::create(body.b, body.b.getF32FloatAttr(1));
  Value isNone = arith::CmpFOp::create(body.b, arith::CmpFPredicate::OEQ, sum, none);
  Value divisor = arith::SelectOp::create(body.b, isNone, one, sum);
  auto op = finishScalars(body, {divisor, sum}, "sum of weights");
  plan::StoreOp::create(emitter.b, weightsScalar(getName(), getFirst()), op.getResult(0));
  plan::StoreOp::create(emitter.b, countedScalar(getName()), op.getResult(1));
  return success();
}

LogicalResult ObjectiveOp::emitDispatches(DispatchEmitter &emitter) {
  MeansBody body(emitter);
  SmallVector<Value> sums, means;
  for (Value losses : getLosses()) {
    if (sluice::getFactor(*this, cast<SequenceType>(losses.getType())) != 1) {
      return emitError("S-052: expected losses on a scale of factor 1; upsample what they read");
    }
    sums.push_back(body.sum(losses, getPadded()));
  }
  Value length = body.scalar("scalar:length"), rows = body.scalar("scalar:rows"), total;
  for (auto [i, sum, factor, first] : llvm::enumerate(sums, getFactors(), getFirst())) {
    StringRef weights = getWeightNames(*this, i);
    Value count;
    if (weights.empty()) {
      Value padding = getPadded() ? body.scalar(paddingScalar(first)) : Value();
      count = countScored(body.b, length, rows, first, padding, getBatches());
    } else {
      count = body.scalar(weightsScalar(weights, first), body.b.getF32Type());
    }
    Value mean = arith::DivFOp::create(body.b, sum, count);
    means.push_back(mean);
    Value term = mean;
    if (factor != 1) {
      Value number = arith::ConstantOp::create(body.b, body.b.getF32FloatAttr(float(factor)));
      term = arith::MulFOp::create(body.b, mean, number);
    }
    total = total ? arith::AddFOp::create(body.b, total, term).getResult() : term;
  }
  SmallVector<Value> results{total};
  if (means.size() > 1) {
    results.append(means);
  }
  ImplicitLocOpBuilder &b = emitter.b;
  auto op = finishScalars(body, results, "mean loss");
  plan::StoreOp::create(b, "scalar:loss", op.getResult(0));
  for (size_t i = 1; i < results.size(); ++i) {
    StringRef name = cast<StringAttr>(getNames()[i - 1]).getValue();
    plan::StoreOp::create(b, "scalar:" + plan::meanName(name), op.getResult(i));
  }
  recordLosses(*this);
  return success();
}

LogicalResult MeanGradientOp::emitBody(BodyBuilder &body) {
  ImplicitLocOpBuilder &b = body.builder();
  if (sluice::getFactor(*this, getResult().getType()) != 1) {
    return emitError("S-052: expected losses on a scale of factor 1; upsample what they read");
  }
  Value length = body.getScalar("scalar:length"), rows = body.getScalar("scalar:rows");
  Value padding = getPadded() ? body.getScalar(paddingScalar(getFirst())) : Value();
  Value count = getWeights().empty()
                    ? countScored(b, length, rows, getFirst(), padding, getBatches())
                    : body.getScalar(weightsScalar(getWeights(), getFirst()), b.getF32Type());
  Value gradient = arith::DivFOp::create(b, arith::ConstantOp::create(b, getFactorAttr()), count);
  if (getPadded()) {
    gradient = arith::MulFOp::create(b, gradient,
                                     buildWeight(b, body.getInput(paddingInput, getResult())));
  }
  body.set(getResult(), gradient);
  return success();
}
