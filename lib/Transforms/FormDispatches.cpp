// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups model ops into dispatches.
#include "DispatchGroups.h"
#include "StepEntries.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Sluice/TextLengths.h"
#include "sluice/Dialect/Sluice/ValueNames.h"
#include "sluice/Transforms/Levels.h"
#include "sluice/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringSet.h"

namespace sluice {
#define GEN_PASS_DEF_FORMDISPATCHES
#include "sluice/Transforms/Passes.h.inc"
} // namespace sluice

using namespace mlir;
using namespace sluice;
using dispatch::AccessAttr;
using dispatch::AccessKind;

namespace {

class Former {
public:
  /// Sums over rows are split into at most `mostParts` partial sums. `step` is set if `source` is
  /// the decode step. All rows of the axes `axesAhead` are computed. With `hasLines` each text has
  /// its own number of tokens.
  Former(func::FuncOp source, int64_t mostParts, bool keepMaps, StepEntries *step,
         ArrayRef<FlatSymbolRefAttr> axesAhead, bool hasLines)
      : source(source), mostParts(mostParts), keepMaps(keepMaps), step(step), b(source),
        axesAhead(axesAhead), hasLines(hasLines) {}

  LogicalResult run();

private:
  void findMixed();
  void measureLines();
  StringRef findSequenceAxis(const DispatchGroup &group) const;
  LogicalResult emitRows(const DispatchGroup &group);
  LogicalResult emitContraction(const DispatchGroup &group);
  LogicalResult emit(const DispatchGroup &group);
  Location locate(const DispatchGroup &group) const;
  Value lower(Value value);
  /// Returns the results of a group that other groups read.
  SmallVector<Value> collectOutputs(const DispatchGroup &group);
  void sumParts(ArrayRef<std::pair<Value, Value>> outputs, Location loc);
  void finish();

  func::FuncOp source;
  const int64_t mostParts;
  const bool keepMaps;
  StepEntries *step;
  OpBuilder b;
  DenseMap<Value, Value> tensors;
  DenseSet<Operation *> backward;
  const ArrayRef<FlatSymbolRefAttr> axesAhead;
  const bool hasLines;
  StringRef axis;                    ///< axis whose lengths the group's dispatches read
  llvm::StringSet<> measured, mixed; ///< axes with lengths by text, and axes whose rows are all
                                     ///< computed
};

/// Returns the keys of an attention if their axis is given, so that they end at their own counts;
/// null for any other op.
static Value findGivenKeys(Operation *op) {
  Value key;
  if (auto attention = dyn_cast<AttentionOp>(op)) {
    key = attention.getKey();
  } else if (auto backward = dyn_cast<AttentionBackwardOp>(op)) {
    key = backward.getKey();
  }
  return key && isGiven(op, cast<SequenceType>(key.getType())) ? key : Value();
}

/// Returns the axes of the sequences that an op reads or defines, without a given axis that only
/// has its keys.
static llvm::StringSet<> getAxisNames(Operation *op) {
  llvm::StringSet<> axes;
  for (Value value : llvm::concat<Value>(llvm::to_vector_of<Value>(op->getOperands()),
                                         llvm::to_vector_of<Value>(op->getResults()))) {
    if (auto type = dyn_cast<SequenceType>(value.getType())) {
      axes.insert(getAxisName(op, type));
    }
  }
  if (Value keys = findGivenKeys(op); keys && axes.size() > 1) {
    axes.erase(getAxisName(op, cast<SequenceType>(keys.getType())));
  }
  return axes;
}

/// Returns the counts of an op between a scale and its segments; null for any other op.
static Value getSegmentCounts(Operation *op) {
  auto segments = dyn_cast<SegmentsInterface>(op);
  return segments ? segments.getCounts() : Value();
}

/// Returns true for an op that selects rows among all rows by their numbers, as LSH attention does.
static bool selectsAmongRows(Operation *op) {
  auto flow = dyn_cast<CausalFlowInterface>(op);
  return flow && !flow.getBurstRefusal().empty();
}

/// Ops on a single axis read no row after a text's last one. An op that also reads rows of another
/// axis, or selects among all rows, may, so all rows are computed for it. Domains of a step are
/// scheduled, and @prefill may commit rows that are ahead of the closed segments.
void Former::findMixed() {
  for (FlatSymbolRefAttr ahead : axesAhead) {
    mixed.insert(ahead.getValue());
  }
  for (Operation &op : source.getBody().front()) {
    llvm::StringSet<> axes = getAxisNames(&op);
    if (isa<SluiceDialect>(op.getDialect()) && !getSegmentCounts(&op) &&
        (axes.size() > 1 || step || selectsAmongRows(&op))) {
      mixed.insert_range(axes.keys());
    }
  }
}

/// Stores the numbers of rows of each text on given axes and, where lines of a batch have different
/// numbers of tokens, on the tokens' axis. @prefill has one text.
void Former::measureLines() {
  if (step) {
    return;
  }
  b.setInsertionPoint(source.getBody().front().getTerminator());
  DispatchEmitter emitter(source, b, tensors);
  for (BlockArgument argument : source.getArguments()) {
    auto type = cast<SequenceType>(argument.getType());
    std::string name = getAxisName(source, type);
    bool isCounted = !argument.use_empty() &&
                     (isGiven(source, type) || (hasLines && source.getSymName() != "prefill"));
    if (isCounted && !mixed.contains(name) && measured.insert(name).second) {
      emitter.b.setLoc((*argument.user_begin())->getLoc());
      storeTextLengths(name, type, emitter);
    }
  }
}

/// Returns the axis that gives the number of rows per text. For an op between a scale and its
/// segments, it is the axis of the scale. Empty if lengths are counted in tokens.
StringRef Former::findSequenceAxis(const DispatchGroup &group) const {
  Operation *first = group.ops.front();
  Value counts = getSegmentCounts(first);
  auto isMeasured = [&](StringRef name) {
    return measured.contains(name) && !mixed.contains(name);
  };
  std::string name = counts ? getAxisName(first, cast<SequenceType>(counts.getType())) : "";
  if (!counts) {
    llvm::StringSet<> axes = getAxisNames(first);
    name = axes.size() == 1 ? axes.begin()->first().str() : "";
  }
  return isMeasured(name) ? measured.find(name)->first() : StringRef();
}

/// Returns the tensor of a value that a dispatch reads. It must be stored already, except for a
/// parameter, which is bound at its first read.
Value Former::lower(Value value) {
  if (Value known = tensors.lookup(value)) {
    return known;
  }
  if (auto read = value.getDefiningOp<ReadOp>()) {
    auto parameter =
        SymbolTable::lookupNearestSymbolFrom<ParameterOp>(source, read.getParameterAttr());
    StringRef master = parameter.getFrozen() ? "constant:" : "parameter:";
    StringRef kind = getComputeType(value).isBF16() ? "compute:" : master;
    return tensors[value] = plan::BindOp::create(b, value.getLoc(), value.getType(),
                                                 (kind + read.getParameter()).str());
  }
  mlir::emitError(value.getLoc())
      << "internal error: a dispatch reads a value that no earlier dispatch stores";
  return {};
}

SmallVector<Value> Former::collectOutputs(const DispatchGroup &group) {
  DenseSet<Operation *> inside(group.ops.begin(), group.ops.end());
  SmallVector<Value> outputs;
  for (Operation *op : group.ops) {
    for (Value result : op->getResults()) {
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !inside.contains(user); })) {
        outputs.push_back(result);
      }
    }
  }
  return outputs;
}

/// Emits the second stage of sums over rows, one launch for all sums of a dispatch: adds the
/// partial sums in order. Sets `tensors`.
void Former::sumParts(ArrayRef<std::pair<Value, Value>> outputs, Location loc) {
  MLIRContext *context = b.getContext();
  SmallVector<Value> parts;
  SmallVector<Type> types;
  SmallVector<Attribute> accesses;
  for (auto [output, part] : outputs) {
    parts.push_back(part);
    types.push_back(output.getType());
    int64_t count = cast<RankedTensorType>(part.getType()).getDimSize(0);
    accesses.push_back(AccessAttr::get(context, AccessKind::Table,
                                       AffineMap::get(2, 1, b.getAffineDimExpr(1)), count, 0));
  }
  SmallVector<Attribute> resultAccesses(parts.size(), AccessAttr::get(context, AccessKind::Vector));
  auto op = dispatch::RowsOp::create(
      b, loc, types, parts, dispatch::DomainAttr::get(context, 1, 1, 0), b.getArrayAttr(accesses),
      b.getArrayAttr(resultAccesses), UnitAttr(), DenseI64ArrayAttr(), b.getStringAttr("sum parts"),
      StringAttr(), UnitAttr());
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&op.getBody());
  SmallVector<Value> sums;
  for (auto [part, type] : llvm::zip_equal(parts, types)) {
    sums.push_back(dispatch::ReduceGroupOp::create(b, loc, type, dispatch::ReduceKind::Add,
                                                   block->addArgument(part.getType(), loc)));
  }
  dispatch::YieldOp::create(b, loc, sums);
  for (auto [output, result] : llvm::zip_equal(outputs, op.getResults())) {
    tensors[output.first] = result;
  }
}

LogicalResult Former::emitRows(const DispatchGroup &group) {
  Operation *first = group.ops.front();
  MLIRContext *context = b.getContext();
  DispatchEmitter emitter(source, b, tensors, axis, step ? &step->getValues() : nullptr);
  Region region;
  Block &block = region.emplaceBlock();
  BodyBuilder body(
      first, block, /*elementwise=*/false, [&](Value value) { return lower(value); }, axis);
  for (Operation *op : group.ops) {
    auto fusion = cast<FusionInterface>(op);
    if (fusion.getFusionRole() == FusionRole::Access) {
      if (!body.get(op->getResult(0))) {
        return failure();
      }
    } else if (failed(fusion.emitBody(body))) {
      return failure();
    }
  }
  Value domainValue;
  SmallVector<Value> outputs = collectOutputs(group);
  SmallVector<Value> yields;
  SmallVector<Type> types;
  SmallVector<Attribute> accesses;
  for (Operation *op : group.ops) {
    if (!domainValue && isa<SequenceType>(op->getResult(0).getType())) {
      domainValue = op->getResult(0);
    }
  }
  domainValue = domainValue ? domainValue : first->getOperand(0); // it only computes a sum over
                                                                  // rows
  dispatch::DomainAttr domain = emitter.getRowDomain(domainValue);
  int64_t parts = std::min(mostParts, domain.getLaunchRows());
  for (Value output : outputs) {
    yields.push_back(body.lookup(output));
    bool isSequence = isa<SequenceType>(output.getType());
    accesses.push_back(
        AccessAttr::get(context, isSequence ? AccessKind::Row : AccessKind::Columns));
    types.push_back(
        isSequence
            ? emitter.getTensorType(output)
            : RankedTensorType::get({parts, cast<RankedTensorType>(output.getType()).getDimSize(0)},
                                    b.getF32Type()));
  }
  dispatch::YieldOp::create(body.builder(), yields);
  auto op = dispatch::RowsOp::create(b, first->getLoc(), types, body.operands(), domain,
                                     b.getArrayAttr(body.accesses()), b.getArrayAttr(accesses),
                                     UnitAttr(), DenseI64ArrayAttr(), StringAttr(), StringAttr(),
                                     UnitAttr());
  op.getBody().takeBody(region);
  SmallVector<std::pair<Value, Value>> partial;
  for (auto [output, result] : llvm::zip_equal(outputs, op.getResults())) {
    if (isa<SequenceType>(output.getType())) {
      tensors[output] = result;
    } else {
      partial.push_back({output, result});
    }
  }
  if (!partial.empty()) {
    sumParts(partial, first->getLoc());
  }
  return success();
}

LogicalResult Former::emitContraction(const DispatchGroup &group) {
  Operation *first = group.ops.front();
  MLIRContext *context = b.getContext();
  bool byInput = cast<FusionInterface>(first).multipliesByInput();
  Value input = lower(first->getOperand(0));
  Value weight = lower(first->getOperand(1));
  if (!input || !weight) {
    return failure();
  }
  Region region;
  Block &block = region.emplaceBlock();
  BodyBuilder body(
      first, block, /*elementwise=*/true, [&](Value value) { return lower(value); }, axis);
  body.set(first->getResult(0), block.addArgument(b.getF32Type(), first->getLoc()));
  for (Operation *op : group.ops) {
    if (failed(cast<FusionInterface>(op).emitBody(body))) {
      return failure();
    }
  }
  DispatchEmitter emitter(source, b, tensors, axis, step ? &step->getValues() : nullptr);
  SmallVector<Value> outputs = collectOutputs(group);
  SmallVector<Value> yields;
  SmallVector<Type> types;
  for (Value output : outputs) {
    yields.push_back(body.lookup(output));
    types.push_back(emitter.getTensorType(output));
  }
  dispatch::YieldOp::create(body.builder(), yields);
  SmallVector<Value> extras(body.operands());
  SmallVector<Attribute> accesses(body.accesses());
  IntegerAttr rotatedColumns;
  if (AttentionOp attention = findRotation(first->getResult(0))) {
    // Queries and keys are rotated as they are stored, once for all readers: the table is the last
    // extra.
    extras.push_back(lower(attention.getRotary()));
    accesses.push_back(AccessAttr::get(context, AccessKind::Table,
                                       AffineMap::get(2, 1, b.getAffineDimExpr(0)), 1, 0));
    rotatedColumns = b.getI64IntegerAttr(endOfKeys(attention));
  }
  SmallVector<Attribute> resultAccesses(outputs.size(), AccessAttr::get(context, AccessKind::Row));
  auto op = dispatch::ContractOp::create(
      b, first->getLoc(), types, input, weight, extras, emitter.getRowDomain(first->getOperand(0)),
      byInput ? b.getUnitAttr() : UnitAttr(), b.getArrayAttr(accesses),
      b.getArrayAttr(resultAccesses), rotatedColumns, UnitAttr(), StringAttr(), StringAttr(),
      UnitAttr());
  op.getEpilogue().takeBody(region);
  for (auto [output, result] : llvm::zip_equal(outputs, op.getResults())) {
    tensors[output] = result;
  }
  return success();
}

/// Returns the location of a group's first op, with the origins of its other ops and of the maps
/// through which they read.
Location Former::locate(const DispatchGroup &group) const {
  Location location = group.ops.front()->getLoc();
  for (Operation *op : group.ops) {
    location = mergeOrigins(location, op->getLoc());
    for (Value read : op->getOperands()) {
      for (Operation *map = read.getDefiningOp(); isLazy(map) && !tensors.contains(read);
           read = map->getOperand(0), map = read.getDefiningOp()) {
        location = mergeOrigins(location, map->getLoc());
      }
    }
  }
  return location;
}

LogicalResult Former::emit(const DispatchGroup &group) {
  // Each dispatch starts with the location of the op that it formed around, so that messages refer
  // to the line of the spec.
  Location origins = locate(group);
  b.setInsertionPoint(source.getBody().front().getTerminator());
  Operation *before = b.getInsertionPoint()->getPrevNode();
  LogicalResult result = success();
  if (auto cut = dyn_cast<SegmentOp>(group.ops.front()); cut && step) {
    step->cut(cut, tensors);
    return success();
  }
  axis = findSequenceAxis(group);
  if (group.kind == DispatchGroup::Kind::Contraction) {
    result = emitContraction(group);
  } else if (group.kind == DispatchGroup::Kind::Rows) {
    result = emitRows(group);
  } else {
    for (Value operand : group.ops.front()->getOperands()) {
      if (!lower(operand)) {
        return failure();
      }
    }
    DispatchEmitter emitter(group.ops.front(), b, tensors, axis,
                            step ? &step->getValues() : nullptr);
    result = cast<FusionInterface>(group.ops.front()).emitDispatches(emitter);
  }
  if (auto segment = dyn_cast<SegmentOp>(group.ops.front());
      segment && (!axis.empty() || !isGiven(segment, segment.getEnds().getType()))) {
    measured.insert(getAxisName(segment, cast<SequenceType>(segment.getEnds().getType())));
  }
  bool isBackward = backward.contains(group.ops.front());
  for (Operation *op = before->getNextNode(); op && !op->hasTrait<OpTrait::IsTerminator>();
       op = op->getNextNode()) {
    auto kernel = dyn_cast<dispatch::KernelInterface>(op);
    if (!kernel) {
      continue;
    }
    kernel.setBackward(isBackward);
    op->setLoc(mergeOrigins(op->getLoc(), origins));
    if (step) {
      step->schedule(kernel, group.ops);
    }
  }
  return result;
}

/// Erases the model ops; the emitted ops take over their names.
void Former::finish() {
  for (auto [value, tensor] : tensors) {
    setName(tensor, getDisplayName(value));
  }
  Block &block = source.getBody().front();
  Operation *terminator = block.getTerminator();
  for (OpOperand &operand : terminator->getOpOperands()) {
    operand.set(tensors.lookup(operand.get()));
  }
  for (auto store : llvm::to_vector(source.getOps<StoreGradientOp>())) {
    b.setInsertionPoint(terminator);
    plan::StoreOp::create(b, store.getLoc(), "gradient:" + store.getParameter().str(),
                          tensors.lookup(store.getGradient()));
    store.erase();
  }
  SmallVector<Operation *> all(llvm::make_pointer_range(block));
  for (Operation *op : llvm::reverse(all)) {
    if (isa_and_nonnull<SluiceDialect>(op->getDialect())) {
      op->erase();
    }
  }
}

/// Returns the place of tokens. Generation has separate texts: a prompt, and the tokens that each
/// row has read. The place of a named input has its name.
static std::string describePredictPlace(func::FuncOp source, BlockArgument tokens) {
  if (std::optional<InputTokens> given = findInputTokens(tokens)) {
    return givenPlace(source, given->name);
  }
  StringRef name = source.getSymName();
  return name == "prefill" ? "input:prompt" : name == "step" ? "input:text" : "input:tokens";
}

LogicalResult Former::run() {
  Block &block = source.getBody().front();
  RepeatedMaps repeated = keepMaps ? RepeatedMaps() : repeatMaps(source);
  backward = findBackward(source);
  std::vector<DispatchGroup> groups =
      formDispatchGroups(source, repeated, step ? &step->getValues() : nullptr);
  for (Type type : source.getArgumentTypes()) {
    if (!isa<SequenceType>(type)) {
      return source.emitError() << "expected sequences as arguments, found " << type
                                << "; read a parameter";
    }
  }
  for (BlockArgument argument : block.getArguments()) {
    auto tokens = cast<SequenceType>(argument.getType());
    b.setInsertionPointToStart(&block);
    if (StringRef state = step ? step->getStateName(argument) : ""; !state.empty()) {
      tensors[argument] =
          plan::BindOp::create(b, source.getLoc(), getStoredType(source, tokens), state);
      continue;
    }
    int64_t target = isGiven(source, tokens) ? 0 : 1; // the target of the last row
    auto type = RankedTensorType::get({getBatch(source), getPositions(source, tokens) + target},
                                      tokens.getElement());
    tensors[argument] =
        plan::BindOp::create(b, source.getLoc(), type, describePredictPlace(source, argument));
  }
  findMixed();
  measureLines();
  if (step) {
    step->beginStep(source);
  }
  for (const DispatchGroup &group : groups) {
    if (failed(emit(group))) {
      return failure();
    }
  }
  if (step) {
    step->endStep(source, tensors);
  }
  finish();
  block.eraseArguments([](BlockArgument) { return true; });
  source.setType(FunctionType::get(b.getContext(), {}, block.getTerminator()->getOperandTypes()));
  return success();
}

struct FormDispatchesPass : sluice::impl::FormDispatchesBase<FormDispatchesPass> {
  using FormDispatchesBase::FormDispatchesBase;

  void runOnOperation() override {
    if (sumParts < 1) {
      getOperation().emitError() << "expected sum-parts of at least 1, found " << int64_t(sumParts);
      return signalPassFailure();
    }
    if (failed(verifyModel(getOperation())) ||
        failed(verifyLevel(getOperation(), ModuleLevel::Model))) {
      return signalPassFailure();
    }
    StepEntries entries(getOperation(), generationRows, keysApart);
    entries.split();
    // Losses leave padding out where lines of a batch have different lengths.
    bool hasLines = getOperation()
                        .walk([](ObjectiveOp op) {
                          return op.getPadded() ? WalkResult::interrupt() : WalkResult::advance();
                        })
                        .wasInterrupted();
    for (auto func : llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      bool isStep = func.getSymName() == "step", isPrefill = func.getSymName() == "prefill";
      Former former(func, sumParts, keepMaps, isStep ? &entries : nullptr,
                    isPrefill ? entries.getAxesAhead() : ArrayRef<FlatSymbolRefAttr>(), hasLines);
      if (failed(former.run())) {
        return signalPassFailure();
      }
      if (isPrefill) {
        entries.endPrefill(func);
      }
    }
    entries.buildReset();
  }
};

} // namespace
