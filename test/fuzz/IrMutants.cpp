// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CheckersModule.h"
#include "Mutants.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "sluice/Dialect/Sluice/Sluice.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::fuzz;

namespace {

/// Changes an op; returns false if the mutation does not apply to it.
using IrEdit = bool (*)(Operation *op);

int64_t getShiftAmount(ShiftOp shift) { return static_cast<int64_t>(shift.getBy()); }

bool setShift(Operation *op, function_ref<int64_t(int64_t)> change) {
  auto shift = dyn_cast<ShiftOp>(op);
  if (!shift || getShiftAmount(shift) <= 0) {
    return false;
  }
  shift.setBy(change(getShiftAmount(shift)));
  return true;
}

bool shiftOneLess(Operation *op) {
  return setShift(op, [](int64_t by) { return by - 1; });
}
bool shiftNegated(Operation *op) {
  return setShift(op, [](int64_t by) { return -by; });
}
bool shiftDropped(Operation *op) {
  return setShift(op, [](int64_t by) { return 0; });
}

//===----------------------------------------------------------------------===//
// The inserted op
//===----------------------------------------------------------------------===//

/// Replaces every other use of a value by `with`, computed from it.
void replaceBy(Operation *op, function_ref<Value(ImplicitLocOpBuilder &, Value)> with) {
  ImplicitLocOpBuilder b(op->getLoc(), op->getContext());
  b.setInsertionPointAfter(op);
  Value value = op->getResult(0);
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : value.getUses()) {
    uses.push_back(&use);
  }
  Value made = with(b, value);
  llvm::for_each(uses, [&](OpOperand *use) { use->set(made); });
}

bool isRows(Operation *op) {
  auto type =
      op->getNumResults() > 0 ? dyn_cast<SequenceType>(op->getResult(0).getType()) : SequenceType();
  return type && type.getElement().isF32() && type.getWidth() > 0 && getFactor(op, type) > 0;
}

Value stored(ImplicitLocOpBuilder &b, Value x) {
  auto map = MapOp::create(b, x.getType(), ValueRange{x});
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&map.getBody());
  YieldOp::create(b, ValueRange{block->addArgument(b.getF32Type(), b.getLoc())});
  return map.getResult();
}

Value shifted(ImplicitLocOpBuilder &b, Value x, int64_t by) {
  return sluice::ShiftOp::create(b, x.getType(), x, by);
}

bool shiftStored(Operation *op) {
  if (!isa<ShiftOp>(op) || !isRows(op)) {
    return false;
  }
  replaceBy(op, stored);
  return true;
}

/// Reads p + 1 instead of p.
bool upsampledOneEarly(Operation *op) {
  if (!isa<UpsampleOp, UnfoldOp>(op)) {
    return false;
  }
  replaceBy(op, [](ImplicitLocOpBuilder &b, Value x) { return shifted(b, x, -1); });
  return true;
}

bool coarseOneEarly(Operation *op) {
  if (!isa<UpsampleOp, UnfoldOp>(op)) {
    return false;
  }
  ImplicitLocOpBuilder b(op->getLoc(), op);
  op->setOperand(0, shifted(b, op->getOperand(0), -1));
  return true;
}

/// Moves a shift from before a shortening by k to after it, by `round(by, k)` groups.
bool moveAfter(Operation *op, int64_t (*round)(int64_t by, int64_t k)) {
  auto shift = dyn_cast<ShiftOp>(op);
  if (!shift || !shift->hasOneUse()) {
    return false;
  }
  Operation *user = *shift->getUsers().begin();
  auto factor = user->getAttrOfType<IntegerAttr>("factor");
  if (!isa<ShortenOp, FoldOp>(user)) {
    return false;
  }
  user->setOperand(0, shift.getInput());
  int64_t groups = round(getShiftAmount(shift), factor.getInt());
  replaceBy(user, [&](ImplicitLocOpBuilder &b, Value x) { return shifted(b, x, groups); });
  return true;
}

bool moveShiftAfterShortening(Operation *op) {
  return moveAfter(op, [](int64_t by, int64_t k) { return by / k; });
}
bool moveShiftAfterShorteningRoundedUp(Operation *op) {
  return moveAfter(op, [](int64_t by, int64_t k) { return (by + k - 1) / k; });
}

/// Replaces pairs of positions by their mean.
bool blockMeans(Operation *op) {
  if (!isa<EmbedOp, MapOp>(op) || !isRows(op)) {
    return false;
  }
  auto fine = cast<SequenceType>(op->getResult(0).getType());
  auto module = op->getParentOfType<ModuleOp>();
  auto scale = module.lookupSymbol<ScaleOp>(fine.getScale().getAttr());
  std::string name = "pairs_of_" + scale.getSymName().str();
  if (!module.lookupSymbol(name)) {
    OpBuilder b(scale);
    b.setInsertionPointAfter(scale);
    ScaleOp::create(b, scale.getLoc(), name, scale.getAxis(), 2 * scale.getFactor());
  }
  auto coarse = SequenceType::get(op->getContext(), FlatSymbolRefAttr::get(op->getContext(), name),
                                  fine.getWidth(), fine.getElement());
  replaceBy(op, [&](ImplicitLocOpBuilder &b, Value x) -> Value {
    Value means = ShortenOp::create(b, coarse, x, 2, dispatch::ReduceKind::Add, 0, /*mean=*/true);
    return UpsampleOp::create(b, fine, means, 2);
  });
  return true;
}

//===----------------------------------------------------------------------===//
// Masks and targets
//===----------------------------------------------------------------------===//

bool setMask(Operation *op, function_ref<IntegerSet(IntegerSet)> change) {
  auto attention = dyn_cast<AttentionOp>(op);
  if (!attention || attention.getTerms().count() > 0) { // their verifier rejects later keys
    return false;
  }
  IntegerSet mask = change(attention.getMask());
  if (!mask || mask == attention.getMask()) {
    return false;
  }
  attention.setMask(mask);
  return true;
}

/// Mask of the row that `row` computes for p.
IntegerSet replaceRow(IntegerSet mask, function_ref<AffineExpr(AffineExpr)> row) {
  AffineExpr p = getAffineDimExpr(0, mask.getContext()), q = getAffineDimExpr(1, mask.getContext()),
             n = getAffineSymbolExpr(0, mask.getContext());
  return mask.replaceDimsAndSymbols({row(p), q}, {n}, 2, 1);
}

bool maskOneAhead(Operation *op) {
  return setMask(
      op, [](IntegerSet mask) { return replaceRow(mask, [](AffineExpr p) { return p + 1; }); });
}
bool maskByBlocks(Operation *op) {
  return setMask(op, [](IntegerSet mask) {
    return replaceRow(mask, [](AffineExpr p) { return p.floorDiv(3) * 3 + 2; });
  });
}
bool maskBidirectional(Operation *op) {
  return setMask(op, [](IntegerSet mask) {
    return IntegerSet::get(2, 1, {getAffineDimExpr(1, mask.getContext())}, {false});
  });
}

/// Replaces constraint `i`, e >= 0, by e >= -1: an inclusive bound for an exclusive one.
template <unsigned i> bool maskRelaxed(Operation *op) {
  return setMask(op, [](IntegerSet mask) {
    if (i >= mask.getNumConstraints() || mask.isEq(i)) {
      return IntegerSet();
    }
    SmallVector<AffineExpr> constraints(mask.getConstraints());
    constraints[i] = constraints[i] + 1;
    return IntegerSet::get(2, 1, constraints, mask.getEqFlags());
  });
}

bool addOffset(Operation *op, int64_t change) {
  auto loss = dyn_cast<CrossEntropyOp>(op);
  if (!loss || static_cast<int64_t>(loss.getOffset()) + change < 0) {
    return false;
  }
  loss.setOffset(loss.getOffset() + static_cast<uint64_t>(change));
  return true;
}
bool targetOneEarly(Operation *op) { return addOffset(op, -1); }
bool targetOneLate(Operation *op) { return addOffset(op, 1); }

constexpr std::pair<const char *, IrEdit> edits[] = {
    {"shift one less", shiftOneLess},
    {"shift negated", shiftNegated},
    {"shift dropped", shiftDropped},
    {"shift stored", shiftStored},
    {"shift behind the shortening", moveShiftAfterShortening},
    {"shift behind the shortening, rounded up", moveShiftAfterShorteningRoundedUp},
    {"upsampled one early", upsampledOneEarly},
    {"coarse state one early", coarseOneEarly},
    {"block means", blockMeans},
    {"mask one ahead", maskOneAhead},
    {"mask by blocks of three", maskByBlocks},
    {"mask bidirectional", maskBidirectional},
    {"mask bound inclusive", maskRelaxed<0>},
    {"mask bound inclusive", maskRelaxed<1>},
    {"mask bound inclusive", maskRelaxed<2>},
    {"target one early", targetOneEarly},
    {"target one late", targetOneLate},
};

SmallVector<Operation *> collectOps(ModuleOp module, StringRef function) {
  SmallVector<Operation *> ops;
  if (auto found = module.lookupSymbol<func::FuncOp>(function)) {
    for (Operation &op : found.getBody().front()) {
      ops.push_back(&op);
    }
  }
  return ops;
}

/// Ops of one kind correspond across functions by their order.
SmallVector<Operation *> fitting(ModuleOp module, StringRef function, IrEdit edit) {
  SmallVector<Operation *> found;
  OwningOpRef<ModuleOp> trial = module.clone();
  SmallVector<Operation *> real = collectOps(module, function),
                           copies = collectOps(*trial, function);
  for (auto [op, copy] : llvm::zip_equal(real, copies)) {
    if (edit(copy)) {
      found.push_back(op);
    }
  }
  return found;
}

} // namespace

static void
runCheckersOnMutant(const std::string &name, ModuleOp module, bool replay,
                    const std::function<void(const Mutant &, const CheckerResults &)> &visit) {
  if (failed(verify(module))) {
    llvm::report_fatal_error(llvm::Twine("an invalid mutant: ") + name);
  }
  Mutant mutant = {name, ""};
  llvm::raw_string_ostream(mutant.text) << *module;
  visit(mutant, runCheckers(module, replay));
}

void fuzz::runCheckersOnMutants(
    const std::string &text, const std::string &file, bool replay,
    const std::function<void(const Mutant &, const CheckerResults &)> &visit,
    const std::function<bool(const std::string &mutation)> &wanted) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  OwningOpRef<ModuleOp> original = parseModel(context, text, file);
  for (auto [name, edit] : edits) {
    std::string inTraining = std::string(name) + " in training";
    size_t sites = fitting(*original, "evaluate", edit).size();
    for (size_t site = 0; site < sites && (!wanted || wanted(name)); ++site) {
      OwningOpRef<ModuleOp> mutant = original->clone();
      for (StringRef function : {"evaluate", "predict", "train"}) {
        SmallVector<Operation *> ops = fitting(*mutant, function, edit);
        if (site < ops.size()) {
          edit(ops[site]);
        }
      }
      runCheckersOnMutant(name, *mutant, replay, visit);
    }
    sites = fitting(*original, "train", edit).size();
    for (size_t site = 0; site < sites && (!wanted || wanted(inTraining)); ++site) {
      OwningOpRef<ModuleOp> mutant = original->clone();
      edit(fitting(*mutant, "train", edit)[site]);
      runCheckersOnMutant(inTraining, *mutant, replay, visit);
    }
  }
}
