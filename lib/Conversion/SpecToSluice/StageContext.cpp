// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "StageContext.h"
#include "sluice/Dialect/Sluice/Origin.h"

#include <functional>
#include <numeric>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec_to_sluice;

std::string spec_to_sluice::getScaleName(int64_t factor, StringRef axis) {
  return (axis.empty() ? "" : axis.str() + ".") + "s" + std::to_string(factor);
}

StringRef spec_to_sluice::getSegmentsName(spec::StreamType type) {
  return type.getAxis() == spec::AxisKind::segments ? type.getName().getValue() : StringRef();
}

spec::StreamType spec_to_sluice::getRowsType(Operation *stage) {
  auto made = stage->getNumResults() == 1
                  ? dyn_cast<spec::StreamType>(stage->getResult(0).getType())
                  : spec::StreamType();
  return made ? made : getStreamType(stage->getOperand(0));
}

static Type getElementType(Builder &b, spec::StorageType type) {
  return type == spec::StorageType::bf16 ? Type(b.getBF16Type()) : Type(b.getF32Type());
}

StageContext::StageContext(spec::ModelOp model, func::FuncOp function, Purpose purpose)
    : model(model), function(function), purpose(purpose),
      b(function.getLoc(), function.getContext()), computeType(b.getF32Type()),
      residualType(b.getF32Type()), symbols(function->getParentOfType<ModuleOp>()) {
  for (auto precision : model.getBody().getOps<spec::PrecisionOp>()) {
    computeType = getElementType(b, precision.getCompute());
    residualType = getElementType(b, precision.getResidual());
  }
  b.setInsertionPointToEnd(&function.getBody().front());
}

//===----------------------------------------------------------------------===//
// Names and types
//===----------------------------------------------------------------------===//

void StageContext::setStage(Operation *op) {
  stage = op;
  type = getRowsType(op);
}

static StringRef getPath(Operation *stage) {
  return cast<spec::StageInterface>(stage).getPathAttr().getValue();
}

std::string StageContext::getSymbol(StringRef part) const {
  DictionaryAttr shared = cast<spec::StageInterface>(stage).getSharedWeightsAttr();
  auto owned = shared ? shared.getAs<StringAttr>(part) : StringAttr();
  return owned ? owned.str() : (getPath(stage) + "." + part).str();
}

void StageContext::setName(StringRef part) { setName(part, spec::getKeyLoc(stage, "")); }

void StageContext::setName(StringRef part, Location place) {
  b.setLoc(addOrigin(getPath(stage), part, place));
}

SequenceType StageContext::getSequence(int64_t factor, int64_t width, Type element) const {
  StringRef axis = type.getName() ? type.getName().getValue() : StringRef();
  auto scale = FlatSymbolRefAttr::get(type.getContext(), getScaleName(factor, axis));
  return SequenceType::get(type.getContext(), scale, width, element);
}

SequenceType StageContext::getTokenSequence(int64_t width) const {
  auto scale = FlatSymbolRefAttr::get(type.getContext(), getScaleName(1));
  return SequenceType::get(type.getContext(), scale, width, Float32Type::get(type.getContext()));
}

Value StageContext::getTokens(StringRef input) {
  unsigned argument = 0;
  for (auto other : model.getBody().getOps<spec::InputOp>()) {
    if (other.isTokens() && !input.empty()) {
      ++argument;
      if (other.getSymName() == input) {
        return function.getArgument(argument);
      }
    }
  }
  return function.getArgument(0);
}

bool StageContext::hasLines() {
  return llvm::any_of(model.getBody().getOps<spec::InputOp>(),
                      [](spec::InputOp input) { return input.isTokens(); });
}

const Segmentation &StageContext::getSegmentation(Value segmentation) {
  StringAttr name = cast<spec::SegmentationType>(segmentation.getType()).getName();
  return segmentations.at(name.getValue());
}

//===----------------------------------------------------------------------===//
// Scalars and maps
//===----------------------------------------------------------------------===//

Value StageContext::read(StringRef symbol, Type element) {
  auto parameter = symbols.lookup<ParameterOp>(symbol);
  if (!parameter) {
    return {};
  }
  element = element ? element : b.getF32Type();
  Value &value = reads[{b.getStringAttr(symbol), element}];
  if (!value) {
    auto tensor = cast<RankedTensorType>(parameter.getType());
    value = ReadOp::create(b, tensor.clone(element), symbol);
  } else { // one read serves all parts of the parameter
    value.getDefiningOp()->setLoc(mergeOrigins(value.getLoc(), b.getLoc()));
  }
  return value;
}

Value StageContext::createMap(ValueRange inputs, ScalarBuilder code) {
  return createMap(cast<SequenceType>(inputs.front().getType()), inputs, code);
}

Value StageContext::createMap(SequenceType result, ValueRange inputs, ScalarBuilder code) {
  auto op = MapOp::create(b, result, inputs);
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&op.getBody());
  SmallVector<ScalarValue> arguments;
  for (Value input : inputs) {
    bool isInteger = cast<SequenceType>(input.getType()).getElement().isInteger();
    Type type = isInteger ? Type(b.getI32Type()) : b.getF32Type();
    arguments.push_back({b, block->addArgument(type, b.getLoc())});
  }
  YieldOp::create(b, ValueRange{code(arguments)});
  return op.getResult();
}

Value StageContext::createProduct(Value x, Value y) {
  return createMap({x, y}, [](ArrayRef<ScalarValue> v) { return v[0] * v[1]; });
}

Value StageContext::createSum(ValueRange terms) {
  return createMap(terms, [](ArrayRef<ScalarValue> v) {
    return std::accumulate(v.begin() + 1, v.end(), v[0], std::plus<ScalarValue>());
  });
}

Value StageContext::createConstants(Value like, double number) {
  return createMap(like, [&](ArrayRef<ScalarValue>) { return createNumber(number); });
}

ScalarValue StageContext::createDropout(ScalarValue x, double rate, int64_t width) {
  if (purpose != Purpose::Train || rate == 0) {
    return x;
  }
  ScalarValue draw = {b, dispatch::RandomOp::create(b, b.getF32Type(), nextRandom++, width)};
  ScalarValue isKept = isAtLeast(draw, createNumber(rate)), scale = createNumber(1 / (1 - rate));
  return x * select(isKept, scale, createNumber(0));
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

static std::string joinName(StringRef block, StringRef part) {
  return (block.empty() ? part : block + "." + part).str();
}

Value StageContext::createNorm(StringRef block, spec::NormFunction norm, double epsilon, Value x,
                               Type element) {
  std::string tensors = block.empty() ? "" : block.str() + ".norm.";
  setName(joinName(block, "norm"));
  auto own = cast<SequenceType>(x.getType());
  auto statistic = SequenceType::get(b.getContext(), own.getScale(), 0, b.getF32Type());
  auto result = SequenceType::get(b.getContext(), own.getScale(), own.getWidth(), element);
  return NormOp::create(b, result, statistic, statistic, x, readOwn(tensors + "weight"),
                        readOwn(tensors + "bias"), norm == spec::NormFunction::rms,
                        llvm::APFloat(epsilon))
      .getResult();
}

Value StageContext::createLinear(StringRef part, Value x, Type element,
                                 std::optional<StringRef> weights) {
  setName(part.empty() ? "linear" : part);
  part = weights.value_or(part);
  Value weight = readWeight(getSymbol(joinName(part, "weight")));
  int64_t width = cast<RankedTensorType>(weight.getType()).getDimSize(0);
  auto result =
      SequenceType::get(b.getContext(), cast<SequenceType>(x.getType()).getScale(), width, element);
  return LinearOp::create(b, result, x, weight, readOwn(joinName(part, "bias")));
}

Value StageContext::createShift(Value x, int64_t by) {
  return ShiftOp::create(b, x.getType(), x, by);
}

Value StageContext::createColumnSum(Value x) {
  auto scale = cast<SequenceType>(x.getType()).getScale();
  return SumColumnsOp::create(b, SequenceType::get(b.getContext(), scale, 0, b.getF32Type()), x);
}

Value StageContext::createRepeated(Value number, Value like) {
  auto own = cast<SequenceType>(like.getType());
  return RepeatColumnsOp::create(
      b, SequenceType::get(b.getContext(), own.getScale(), own.getWidth(), b.getF32Type()), number);
}

Value StageContext::clearPadding(StringRef part, Value x, float fill) {
  if (type.getAxis() != spec::AxisKind::input) {
    return x;
  }
  x = materialize((part + ".padding.rows").str(), x);
  setName((part + ".padding").str());
  x = ClearPaddingOp::create(b, x.getType(), x, b.getF32FloatAttr(fill));
  setName(part);
  return x;
}

Value StageContext::materialize(StringRef part, Value x) {
  if (!isLazy(x)) {
    return x;
  }
  setName(part);
  return createMap(x, [](ArrayRef<ScalarValue> v) { return v[0]; });
}
