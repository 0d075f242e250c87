// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds shifts with an unnecessary delay: lowers them, checks the result as a whole, then reports
// them.
#include "AdviceShifts.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Sluice/Labels.h"
#include "sluice/Explain/Advice.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Proof/ProveModel.h"
#include "sluice/Proof/Scales.h"
#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::advice;

std::string advice::count(int64_t n, const std::string &what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

void advice::noteUnfinished(Operation *place, const AdviceBudget &clock, const std::string &what,
                            CausalVerdict &verdict) {
  verdict.notes.push_back({WarningKind::Unfinished, getOpLocation(place),
                           "advice stopped after " + clock.describe() + ": " + what});
}

llvm::DenseSet<Operation *> advice::liveOps(func::FuncOp function) {
  llvm::DenseSet<Operation *> live;
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    if (isa<CrossEntropyOp>(op) ||
        llvm::any_of(op.getUsers(), [&](Operation *user) { return live.contains(user); })) {
      live.insert(&op);
    }
  }
  return live;
}

/// Returns true for the shift of a contrast's losses, which follows from the rows that they score.
static bool shiftsLosses(ShiftOp shift) {
  Operation *op = shift.getInput().getDefiningOp();
  while (op && !isa<ContrastOp>(op) && op->getNumOperands() == 1) {
    op = op->getOperand(0).getDefiningOp();
  }
  return isa_and_present<ContrastOp>(op);
}

Shifts::Shifts(ModuleOp module) {
  llvm::MapVector<Attribute, ShiftKey> byPlace;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (getLossOps(function).empty()) {
      continue;
    }
    modes.push_back(function);
    size_t number = 0;
    llvm::DenseSet<Operation *> live = liveOps(function);
    for (auto op : function.getOps<ShiftOp>()) {
      if (!live.contains(op) || shiftsLosses(op)) { // the first is reported as a dead stage
        continue;
      }
      auto place = op->getLoc()->findInstanceOf<FileLineColLoc>();
      // Identifies a shift of IR without locations by its number in its function.
      Attribute name = place ? Attribute(place)
                             : Attribute(IntegerAttr::get(IndexType::get(op.getContext()),
                                                          static_cast<int64_t>(number)));
      ShiftKey &key = byPlace[name];
      key.ops.push_back(op);
      key.by.push_back(static_cast<int64_t>(op.getBy()));
      key.levels += modes.size() == 1;
      ++number;
    }
  }
  for (auto &[place, key] : byPlace) {
    key.least = key.by.front();
    keys.push_back(std::move(key));
  }
}

/// Searches by bisection: lower values read later tokens, so the causal values of one shift are all
/// values from a minimum on. Most shifts are minimal, so the next lower value is tried first.
size_t Shifts::lower(const AdviceBudget &clock) {
  size_t tried = 0;
  for (ShiftKey &key : llvm::reverse(keys)) {
    if (clock.isOver()) {
      return tried;
    }
    ++tried;
    if (!key.isOneValue()) {
      continue;
    }
    // -1 is never tried: a negative shift reads later tokens.
    int64_t low = -1, high = key.by.front();
    for (int64_t middle = high - 1; high - low > 1; middle = low + (high - low) / 2) {
      key.set(middle);
      (isCausal() ? high : low) = middle;
      if (high < key.by.front() && clock.isOver()) {
        break; // causal, but possibly not the minimum
      }
    }
    key.least = high;
    key.set(high);
    if (high == key.by.front()) {
      key.restore();
    }
  }
  return tried;
}

static bool provesWith(ModuleOp module, const ParsedSpec *spec, ArrayRef<ShiftKey *> changes) {
  if (!spec) { // the other shifts of the module are unchanged
    for (ShiftKey *key : changes) {
      key->set(key->least);
    }
    bool proved = checkCausality(module, /*replay=*/false).isProved();
    for (ShiftKey *key : changes) {
      key->restore();
    }
    return proved;
  }
  Revision revision(*spec);
  return llvm::all_of(changes,
                      [&](ShiftKey *key) {
                        return revision.setShift(getOpLocation(key->ops.front()), key->least);
                      }) &&
         revision.isProved();
}

size_t Shifts::confirm(ModuleOp module, const ParsedSpec *spec, const AdviceBudget &clock) {
  restore();
  size_t judged = 0;
  SmallVector<ShiftKey *> accepted;
  for (ShiftKey &key : llvm::reverse(keys)) {
    if (key.least == key.by.front()) {
      continue;
    }
    bool inTime = !clock.isOver();
    judged += inTime;
    SmallVector<ShiftKey *> all = accepted;
    all.push_back(&key);
    if (inTime && provesWith(module, spec, {&key}) &&
        (accepted.empty() || provesWith(module, spec, all))) {
      accepted = all;
    } else {
      key.least = key.by.front();
    }
  }
  for (ShiftKey *key : accepted) {
    key->set(key->least);
  }
  return judged;
}

/// Returns the delay of reads through all levels of a key, in tokens or, on segments, in segments:
/// a position of a level counts as many tokens as its factor.
static int64_t getDelay(const ShiftKey &key) {
  int64_t tokens = 0;
  for (ShiftOp op : ArrayRef(key.ops).take_front(key.levels)) { // shifts of the first mode
    tokens += getFactor(op, cast<SequenceType>(op.getResult().getType()));
  }
  return tokens * (key.by.front() - key.least);
}

/// Returns the location of the number: the key `shift` of a head or loss, else the location of the
/// op.
static spec::SourceLocation findNumber(Operation *op, const ParsedSpec *spec) {
  spec::SourceLocation place = getOpLocation(op);
  if (spec) {
    for (Operation &stage : spec->getModel().getBody().getOps()) {
      if (isa<spec::HeadOp, spec::LossOp, spec::ContrastOp>(stage) && isAt(&stage, "", place)) {
        return getKeyPlace(&stage, "shift");
      }
    }
  }
  return place;
}

/// Returns true if a map uses only some rows of a value, as `replace` does: a smaller shift may
/// then leave every used row unchanged.
static bool isTakenInPart(Value value, llvm::DenseSet<Operation *> &visited) {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    auto map = dyn_cast<MapOp>(user);
    std::optional<IntegerSet> relation =
        map ? map.getRelation(use.getOperandNumber()) : std::nullopt;
    if (relation && relation->getNumConstraints() > 1) {
      return true;
    }
    return isa<MapOp, LinearOp, NormOp>(user) && visited.insert(user).second &&
           isTakenInPart(user->getResult(0), visited);
  });
}

/// The smallest values are only proved together, so a warning mentions other shifts that are
/// lowered, too.
static void warnOfWaste(const Shifts &shifts, const ParsedSpec *spec, CausalVerdict &verdict) {
  bool areSeveral = llvm::count_if(shifts.keys, [](const ShiftKey &key) {
                      return key.least < key.by.front();
                    }) > 1;
  std::string together = areSeveral ? ", with the other shifts at their smallest values" : "";
  for (const ShiftKey &key : shifts.keys) {
    int64_t by = key.by.front();
    if (key.least >= by) {
      continue;
    }
    ShiftOp op = key.ops.front();
    llvm::DenseSet<Operation *> visited;
    if (isTakenInPart(op.getResult(), visited)) {
      continue;
    }
    bool isOnSegments = Scales(op->getParentOfType<func::FuncOp>()).isSegmented(op.getResult());
    std::string least = key.least == 0 ? "none is needed to be causal"
                                       : std::to_string(key.least) + " is enough to be causal";
    std::string all =
        key.levels > 1
            ? " (it is set for " + count(static_cast<int64_t>(key.levels), "level") + " at once)"
            : "";
    verdict.warnings.push_back({WarningKind::Waste, findNumber(op, spec),
                                "a shift by " + std::to_string(by) + " where " + least + together +
                                    all + "; with the smallest one, all that is read through " +
                                    (key.levels > 1 ? "all of them" : "it") + " is " +
                                    count(getDelay(key), isOnSegments ? "segment" : "token") +
                                    " newer"});
  }
}

bool advice::lowerShifts(Shifts &shifts, ModuleOp module, const AdviceRequest &request,
                         const AdviceBudget &clock, CausalVerdict &verdict) {
  auto all = static_cast<int64_t>(shifts.keys.size());
  auto tried = static_cast<int64_t>(shifts.lower(clock));
  int64_t lowered =
      llvm::count_if(shifts.keys, [](const ShiftKey &key) { return key.least < key.by.front(); });
  auto judged = static_cast<int64_t>(shifts.confirm(module, request.spec, clock));
  warnOfWaste(shifts, request.spec, verdict);
  if (tried < all || judged < lowered) {
    Operation *place = ShiftOp(shifts.keys.front().ops.front());
    noteUnfinished(place, clock,
                   "of " + count(all, "shift") + " the last " + std::to_string(tried) +
                       (tried == 1 ? " was" : " were") + " tried with smaller values" +
                       (judged < lowered ? ", and of " + std::to_string(lowered) +
                                               " that could be smaller " + std::to_string(judged) +
                                               (judged == 1 ? " was proved so" : " were proved so")
                                         : ""),
                   verdict);
  }
  return llvm::any_of(shifts.keys, [](const ShiftKey &key) { return key.least < key.by.front(); });
}
