// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Remedy.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Proof/QuasiAffine.h"

using namespace mlir;
using namespace sluice;

OpRemedy sluice::findOpRemedy(Operation *op) {
  auto flow = dyn_cast<CausalFlowInterface>(op);
  return flow ? flow.getRemedy() : OpRemedy();
}

/// Returns the group size of an op that reads groups; 1 for any other op.
static int64_t getGroupSize(Operation *op) {
  auto fusion = dyn_cast<FusionInterface>(op);
  return fusion ? fusion.getRowGroup().factor : 1;
}

namespace {
/// The shifts immediately before a shortening.
struct ShiftChain {
  explicit ShiftChain(Operation *shorten) {
    for (Operation *op = shorten->getOperand(0).getDefiningOp(); isa_and_nonnull<ShiftOp>(op);
         op = op->getOperand(0).getDefiningOp()) {
      nearest = nearest ? nearest : op;
      total += static_cast<int64_t>(cast<ShiftOp>(op).getBy());
      ++count;
    }
  }
  Operation *nearest = nullptr;
  int64_t total = 0;
  int count = 0;
};
} // namespace

/// Returns true if a stage maps rows before it concatenates them ("concatenate"), so that no shift
/// immediately precedes the concatenation.
static bool isOfParts(Operation *fold) {
  auto linear = fold->getOperand(0).getDefiningOp<LinearOp>();
  return linear && getOriginStage(linear) == getOriginStage(fold);
}

/// Returns true if some row of an attention may read a later row.
static bool looksAhead(AttentionOp op) {
  AffineExpr latest = op.getLatest(1),
             own = solveMask(causalMask(op.getContext(), getScaleRatio(op))).upper.front();
  return !latest ||
         isNeverPositive(simplifyAffineExpr(latest - own, 1, 0)).kind != SignAnswer::Always;
}

/// Returns a change to an op that may repair the leak. Returns none for an op whose repair is a
/// change of another op. A stage inside another stage has no key of its own.
static std::optional<Change> findChange(Operation *op) {
  spec::SourceLocation place = getOpLocation(op);
  std::string at = ", at " + spec::toString(place);
  if (auto attention = dyn_cast<AttentionOp>(op); attention && looksAhead(attention)) {
    return Change{findOpRemedy(op).words + at, place,
                  [op](Mending &mending) { mending.remedy(op); }};
  }
  auto spread = dyn_cast<SpreadSegmentsOp>(op);
  OriginAttr origin = getOrigin(op);
  if (!spread || (origin && origin.getDepth() > 0)) {
    return std::nullopt;
  }
  auto by = static_cast<int64_t>(spread.getBy());
  Attribute more = Builder(op->getContext()).getI64IntegerAttr(by + 1);
  return Change{"read an earlier segment, with \"by\" " + std::to_string(by + 1) + ", not " +
                    std::to_string(by) + at,
                place, [op, more](Mending &mending) { mending.setAttribute(op, "by", more); }};
}

std::vector<Change> sluice::changesAmongSegments(const FoundLeak &leak) {
  constexpr size_t most = 8;
  std::vector<Change> changes;
  auto add = [&](Operation *op) {
    std::optional<Change> change = op ? findChange(op) : std::nullopt;
    bool isKnown = change && llvm::any_of(changes, [&](const Change &other) {
                     return other.words == change->words;
                   });
    if (change && !isKnown && changes.size() < most) {
      changes.push_back(std::move(*change));
    }
  };
  for (const auto &step : leak.path) {
    add(step.first.getDefiningOp());
  }
  CrossEntropyOp loss = leak.loss;
  for (Operation &op : llvm::reverse(*loss->getBlock())) {
    add(&op);
  }
  return changes;
}

Operation *sluice::opAtFault(FoundLeak &leak) {
  for (size_t i = leak.path.size() - 1; i-- > 0;) { // the last value is only read
    auto [value, position] = leak.path[i];
    Operation *op = value.getDefiningOp();
    int64_t factor = getFactor(op, cast<SequenceType>(value.getType()));
    if (!isLazy(op) && leak.witness.token > factor * position) {
      return op;
    }
  }
  return leak.loss;
}

std::string sluice::remedyFor(Operation *fault, spec::SourceLocation &place, Mending &mending) {
  place = getOpLocation(fault);
  if (int64_t k = getGroupSize(fault); k > 1) {
    ShiftChain shifts(fault);
    std::string least = std::to_string(k - 1);
    if (isOfParts(fault)) {
      mending.insertShiftBehind(fault, 1);
      return "parts of a group's rows are side by side here, from its first to its last, whatever "
             "is shifted before; shift by 1 directly after this shortening by " +
             std::to_string(k);
    }
    if (!shifts.nearest) {
      bool isStarted = fault->getOperand(0).getDefiningOp<StartOp>() != nullptr;
      mending.insertShift(fault, k - 1);
      std::string here = " this shortening by " + std::to_string(k);
      return (isStarted
                  ? "the shift before" + here + " has a learned start, so it ends with its scale"
                  : "no shift is right before" + here) +
             "; shift by " + least + " directly before it";
    }
    auto nearest = cast<ShiftOp>(shifts.nearest);
    int64_t by = static_cast<int64_t>(nearest.getBy()), enough = by + k - 1 - shifts.total;
    place = getOpLocation(nearest);
    mending.setShift(nearest, enough);
    return "a group of " + std::to_string(k) + " shifted by " + std::to_string(shifts.total) +
           " holds later tokens than its first row may read; shift by " + std::to_string(enough) +
           ", not " + std::to_string(by) + ", at " + spec::toString(place);
  }
  if (OpRemedy own = findOpRemedy(fault); !own.words.empty()) {
    mending.remedy(fault);
    return own.words + ", at " + spec::toString(place);
  }
  return "this stage reads a position of its input that does not exist yet";
}
