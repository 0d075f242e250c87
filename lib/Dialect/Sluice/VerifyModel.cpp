// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verifies requirements of passes for a module that no op's verifier checks.
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Dialect/Sluice/TokenHashes.h"
#include "sluice/Support/Limits.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <cmath>

using namespace mlir;
using namespace sluice;

static LogicalResult verifyCapacities(ModuleOp module) {
  std::pair<StringRef, IntegerAttr> facts[] = {{SluiceDialect::BatchAttrHelper::getNameStr(),
                                                getFact<SluiceDialect::BatchAttrHelper>(module)},
                                               {SluiceDialect::ContextAttrHelper::getNameStr(),
                                                getFact<SluiceDialect::ContextAttrHelper>(module)}};
  for (auto [name, attribute] : facts) {
    if (!attribute || !attribute.getType().isSignlessInteger(64) || attribute.getInt() < 1 ||
        attribute.getInt() > mostSize) {
      return module.emitError() << "expected the module attribute " << name
                                << ", an i64 of at least 1 and below 2^31, found "
                                << (attribute ? "another value" : "none");
    }
  }
  return success();
}

/// Returns true if weights fill their parameter: a plan assigns each of them a byte range of it.
static bool isFilled(ParameterOp parameter) {
  auto type = dyn_cast<RankedTensorType>(parameter.getType());
  if (!type || !type.hasStaticShape() || type.getRank() == 0 ||
      parameter.getNames().size() != parameter.getSizes().size()) {
    return false;
  }
  int64_t rest = type.getDimSize(0);
  for (int64_t size : parameter.getSizes()) {
    if (size < 0 || size > rest) {
      return false;
    }
    rest -= size;
  }
  return rest == 0;
}

static bool hasLargeConstant(IntegerSet set) {
  bool large = false;
  for (AffineExpr constraint : set.getConstraints()) {
    constraint.walk([&](AffineExpr part) {
      auto constant = dyn_cast<AffineConstantExpr>(part);
      large |= constant && (constant.getValue() > mostSize || constant.getValue() < -mostSize);
    });
  }
  return large;
}

static LogicalResult verifySequence(Operation *op, Type type) {
  auto sequence = dyn_cast<SequenceType>(type);
  if (!sequence) {
    return success();
  }
  if (sequence.getWidth() < 0 || sequence.getWidth() > mostSize) {
    return op->emitError() << "expected a width from 0 to below 2^31, found "
                           << sequence.getWidth();
  }
  if (!SymbolTable::lookupNearestSymbolFrom<ScaleOp>(op, sequence.getScale())) {
    return op->emitError() << "expected a defined scale, found " << sequence.getScale();
  }
  return success();
}

/// Verifies that `what` is an argument of the function: its place in memory is the input's.
static LogicalResult verifyGiven(Operation *op, Value value, StringRef what, StringRef remedy) {
  if (Operation *maker = value.getDefiningOp()) {
    return op->emitError() << "expected " << what
                           << " as the function is given them, found the result of "
                           << maker->getName() << "; " << remedy;
  }
  return success();
}

static LogicalResult verifyRead(ReadOp read, SymbolTableCollection &symbols) {
  auto parameter = symbols.lookupNearestSymbolFrom<ParameterOp>(read, read.getParameterAttr());
  auto type = cast<RankedTensorType>(read.getValue().getType());
  // A trained parameter may be read as bf16.
  bool isCopy = parameter && !parameter.getFrozen() && type.getElementType().isBF16();
  Type master = isCopy ? Type(type.clone(Float32Type::get(read.getContext()))) : Type(type);
  if (!parameter || parameter.getType() != master) {
    return read.emitError() << "expected a parameter of the type that is read, found "
                            << read.getParameterAttr();
  }
  return success();
}

static std::optional<int64_t> findShift(Operation *op) {
  auto flow = dyn_cast<CausalFlowInterface>(op);
  return flow ? flow.getShift() : std::nullopt;
}

static LogicalResult verifySizes(Operation *op) {
  auto scale = dyn_cast<ScaleOp>(op);
  int64_t by = findShift(op).value_or(0);
  bool isMaskLarge = llvm::any_of(op->getAttrs(), [](NamedAttribute attribute) {
    auto mask = dyn_cast<IntegerSetAttr>(attribute.getValue());
    return mask && hasLargeConstant(mask.getValue());
  });
  if ((scale && int64_t(scale.getFactor()) > mostSize) || by > mostSize || by < -mostSize ||
      isMaskLarge) {
    return op->emitError() << "expected factors, shifts and a mask's constants below 2^31";
  }
  return success();
}

static AxisOp findSequenceAxis(Operation *op, Value sequence) {
  auto type = dyn_cast<SequenceType>(sequence.getType());
  auto scale =
      type ? SymbolTable::lookupNearestSymbolFrom<ScaleOp>(op, type.getScale()) : ScaleOp();
  return scale ? SymbolTable::lookupNearestSymbolFrom<AxisOp>(op, scale.getAxisAttr()) : AxisOp();
}

/// Verifies that segments divide the predicted tokens, their segments, or a given axis.
static LogicalResult verifySegments(AxisOp axis) {
  AxisOp root = getRootAxis(axis);
  auto scale = axis.getSegments()
                   ? SymbolTable::lookupNearestSymbolFrom<ScaleOp>(axis, axis.getSegmentsAttr())
                   : ScaleOp();
  bool isOfGivenSegments =
      scale && root && root.getCapacity() && scale.getAxis() != root.getSymName();
  if (axis.getSegments() && (!root || isOfGivenSegments)) {
    return axis.emitError()
           << "S-059: expected segments of a scale of the tokens that are predicted, of their "
              "segments, or of a given axis, found "
           << axis.getSegmentsAttr();
  }
  return success();
}

/// Verifies that an axis has only one segmentation: two would share one number of segments.
static LogicalResult verifySegmentations(func::FuncOp function) {
  llvm::SmallPtrSet<Operation *, 4> cut;
  for (auto segment : function.getBody().getOps<SegmentOp>()) {
    AxisOp axis = findSequenceAxis(segment, segment.getEnds());
    if (axis && !cut.insert(axis).second) {
      return segment.emitOpError("S-066: expected one sluice.segment for the axis @")
             << axis.getSymName() << ", found two; give each an axis of its own";
    }
  }
  return success();
}

/// Verifies that sequences of two axes meet only in cross-attention, and that given values do not
/// depend on predicted ones.
static LogicalResult verifyAxes(Operation *op) {
  if (isa<SegmentsInterface, ResampleOp>(op)) { // checked by its own verifier
    return success();
  }
  if (auto meeting = dyn_cast<AxesInterface>(op)) {
    AxisOp queries = findSequenceAxis(op, meeting.getQuery()),
           keys = findSequenceAxis(op, meeting.getKey());
    auto isOfGiven = [](AxisOp axis) {
      AxisOp root = getRootAxis(axis);
      return root && root.getCapacity();
    };
    if (queries && keys && queries != keys && isOfGiven(queries) && !isOfGiven(keys)) {
      return op->emitError() << "S-040: expected keys of a given axis where queries are of another "
                                "given axis, found queries of the given axis @"
                             << queries.getSymName() << " and keys of @" << keys.getSymName();
    }
    bool isOfSegments = queries && keys && (queries.getSegments() || keys.getSegments());
    if (isOfSegments && queries != keys && !isOfGiven(keys)) {
      return op->emitError()
             << "S-065: expected queries and keys of one axis where neither is given, as rows of "
                "segments have no place among others, found @"
             << queries.getSymName() << " and @" << keys.getSymName();
    }
    return success();
  }
  AxisOp first;
  for (Value value : llvm::concat<Value>(llvm::to_vector_of<Value>(op->getOperands()),
                                         llvm::to_vector_of<Value>(op->getResults()))) {
    AxisOp axis = findSequenceAxis(op, value);
    first = first ? first : axis;
    if (axis && axis != first) {
      return op->emitError() << "S-039: expected sequences of one axis, as axes meet in attention "
                                "alone, found @"
                             << first.getSymName() << " and @" << axis.getSymName();
    }
  }
  return success();
}

/// Verifies that no pair of positions has a distance below 0 where tables have both directions.
template <typename Op> static LogicalResult verifyCentered(Op op) {
  int64_t last = getPositions(op, op.getKey().getType()) - 1;
  dispatch::Distance distance = op.getTerms().distance;
  if (op.getCentered() && distance.offset < distance.key * last) {
    return op.emitError() << "S-046: expected a distance of at least 0 for each of " << last + 1
                          << " keys with \"centered\", found one below 0";
  }
  return success();
}

/// Verifies that a scale's axis exists and, if it is a given axis, that it has a capacity.
static LogicalResult verifyScale(ScaleOp scale) {
  auto axis = SymbolTable::lookupNearestSymbolFrom<AxisOp>(scale, scale.getAxisAttr());
  if (!axis) {
    return scale.emitError() << "expected a defined axis, found " << scale.getAxisAttr();
  }
  auto capacity = static_cast<int64_t>(axis.getCapacity().value_or(1));
  if (capacity < 1 || capacity > mostSize) {
    return axis.emitError() << "S-042: expected a capacity of at least 1 and below 2^31, found "
                            << capacity;
  }
  return success();
}

static LogicalResult verifyInModel(Operation *op, SymbolTableCollection &symbols) {
  for (Type type : op->getResultTypes()) {
    if (failed(verifySequence(op, type))) {
      return failure();
    }
  }
  auto scale = dyn_cast<ScaleOp>(op);
  auto axis = dyn_cast<AxisOp>(op);
  if ((axis && failed(verifySegments(axis))) || failed(verifySizes(op)) ||
      (scale && failed(verifyScale(scale))) || failed(verifyAxes(op))) {
    return failure();
  }
  if (auto attention = dyn_cast<AttentionOp>(op); attention && failed(verifyCentered(attention))) {
    return failure();
  }
  auto backward = dyn_cast<AttentionBackwardOp>(op);
  if (backward && failed(verifyCentered(backward))) {
    return failure();
  }
  if (auto func = dyn_cast<func::FuncOp>(op)) {
    if (!llvm::hasSingleElement(func.getBody())) {
      return op->emitError() << "expected functions of one block, found "
                             << func.getBody().getBlocks().size();
    }
    if (failed(verifySegmentations(func))) {
      return failure();
    }
    for (Type type : func.getArgumentTypes()) {
      if (failed(verifySequence(op, type))) {
        return failure();
      }
    }
  }
  if (auto parameter = dyn_cast<ParameterOp>(op); parameter && !isFilled(parameter)) {
    return op->emitError() << "expected a static shape, and names and sizes that fill its first "
                              "dimension, of parameter @"
                           << parameter.getSymName();
  }
  if (auto loss = dyn_cast<CrossEntropyOp>(op)) {
    if (int64_t(loss.getOffset()) < 0) {
      return op->emitError() << "expected a target offset of at least 0, found "
                             << int64_t(loss.getOffset());
    }
    if (int64_t(loss.getFirst()) < 0) {
      return op->emitError() << "expected a first scored row of at least 0, found "
                             << int64_t(loss.getFirst());
    }
    if (float s = loss.getSmoothing().convertToFloat(); !(s >= 0 && s < 1)) {
      return op->emitError() << "expected label smoothing of at least 0 and below 1, found " << s;
    }
    if (!loss.getTarget().empty() && !loss.getSmoothing().isZero()) {
      return op->emitError() << "expected no label smoothing of a loss against \""
                             << loss.getTarget() << "\", found "
                             << loss.getSmoothing().convertToFloat();
    }
    return verifyGiven(op, loss.getTokens(), "targets", "move targets by the offset");
  }
  if (auto embed = dyn_cast<EmbedOp>(op)) {
    auto table = cast<RankedTensorType>(embed.getTable().getType());
    Value tokens = embed.getTokens();
    if (tokens.getDefiningOp<MapOp>() && !isOfTokens(tokens, table.getDimSize(0))) {
      return op->emitError() << "S-126: expected a map of integers that ends in (x and c) mod n, "
                                "of at most the table's "
                             << table.getDimSize(0) << " rows, found another; hash into the table";
    }
    if (!isOfTokens(tokens, table.getDimSize(0))) {
      return verifyGiven(op, tokens, "tokens", "embed them first");
    }
    auto argument = dyn_cast<BlockArgument>(tokens);
    std::optional<InputTokens> given = argument ? findInputTokens(argument) : std::nullopt;
    if (given && table.getDimSize(0) < given->vocabulary) {
      return op->emitError() << "S-043: expected a row for each of the " << given->vocabulary
                             << " tokens of the given input @" << given->name << ", found "
                             << table.getDimSize(0);
    }
  }
  auto read = dyn_cast<ReadOp>(op);
  return read ? verifyRead(read, symbols) : success();
}

LogicalResult sluice::verifyModel(ModuleOp module) {
  if (failed(verifyCapacities(module))) {
    return failure();
  }
  SymbolTableCollection symbols;
  WalkResult result = module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    return succeeded(verifyInModel(op, symbols)) ? WalkResult::advance() : WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// Returns true if the number exists, fits f32, and is at least 0 there; above 0 if `isPositive`.
static bool isInF32(FloatAttr number, bool isPositive) {
  auto held = number ? static_cast<float>(number.getValueAsDouble()) : -1.0F;
  return std::isfinite(held) && (isPositive ? held > 0 : held >= 0);
}

/// Verifies the groups of weights of `sluice.training`.
static LogicalResult verifyGroups(ModuleOp module, DictionaryAttr training) {
  auto groups = dyn_cast_or_null<ArrayAttr>(training.get("groups"));
  if (training.contains("groups") && (!groups || groups.empty())) {
    return module.emitError() << "expected a list of groups in the module attribute "
                                 "sluice.training, found another value";
  }
  for (Attribute each : groups ? groups.getValue() : ArrayRef<Attribute>()) {
    auto group = dyn_cast<DictionaryAttr>(each);
    auto weights = group ? group.getAs<ArrayAttr>("weights") : ArrayAttr();
    bool isSettings = weights && llvm::all_of(weights, llvm::IsaPred<StringAttr>) &&
                      group.getAs<StringAttr>("match") &&
                      isInF32(group.getAs<FloatAttr>("factor"), /*isPositive=*/true);
    for (StringRef name : {"learning_rate", "weight_decay"}) {
      isSettings = isSettings && (!group.contains(name) ||
                                  isInF32(group.getAs<FloatAttr>(name), name == "learning_rate"));
    }
    if (!isSettings) {
      return module.emitError()
             << "expected a group of the module attribute sluice.training to have the text match, "
                "names as weights, the number factor, and learning_rate and weight_decay in f32 or "
                "neither, found "
             << each;
    }
  }
  return success();
}

LogicalResult sluice::verifyTraining(ModuleOp module) {
  auto training = getFact<SluiceDialect::TrainingAttrHelper>(module);
  auto lacks = [&](StringRef kind, StringRef name) {
    return module.emitError() << "expected the " << kind << " " << name
                              << " in the module attribute sluice.training, found none";
  };
  SmallVector<StringRef> numbers = {"learning_rate", "beta1",  "beta2", "epsilon", "weight_decay",
                                    "clip",          "warmup", "steps", "floor"};
  if (training && training.contains("then_steps")) {
    numbers.append({"then_steps", "then_from", "then_floor"});
  }
  for (StringRef name : numbers) {
    if (!training || !training.getAs<FloatAttr>(name)) {
      return lacks("number", name);
    }
  }
  for (StringRef name :
       {"learning_rate", "beta1", "beta2", "epsilon", "weight_decay", "clip", "floor"}) {
    auto held = static_cast<float>(training.getAs<FloatAttr>(name).getValueAsDouble());
    bool fits = std::isfinite(held) && held >= 0 && (!name.starts_with("beta") || held < 1) &&
                (name != "epsilon" || held > 0);
    if (!fits) {
      return module.emitError()
             << "expected the number " << name
             << " in the module attribute sluice.training to fit f32 and its range "
                "(docs/spec.md), found another";
    }
  }
  StringRef accumulate = SluiceDialect::AccumulateAttrHelper::getNameStr();
  if (Attribute found = module->getAttr(accumulate)) { // an attribute of any type
    auto batches = dyn_cast<IntegerAttr>(found);
    if (!batches || !batches.getType().isInteger(64) || batches.getInt() < 1 ||
        batches.getInt() > mostAccumulated) {
      return module.emitError() << "expected an i64 from 1 to " << mostAccumulated
                                << " in the module attribute " << accumulate << ", found " << found;
    }
  }
  for (StringRef name : {"optimizer", "schedule"}) {
    if (!training.getAs<StringAttr>(name)) {
      return lacks("text", name);
    }
  }
  StringRef schedule = training.getAs<StringAttr>("schedule").getValue();
  if (schedule != "cosine" && schedule != "constant" && schedule != "inverse_root") {
    return module.emitError() << "expected cosine, constant or inverse_root as the text schedule "
                                 "in the module attribute sluice.training, found "
                              << schedule;
  }
  return verifyGroups(module, training);
}
