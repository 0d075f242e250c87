// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks the scope of the theorem. Model IR is more general than specs: a graph that hides reads
// from the relations is rejected before anything is concluded about it.
#include "sluice/Proof/Theorem.h"
#include "sluice/Dialect/Sluice/TokenHashes.h"
#include "sluice/Proof/Obligations.h"
#include "sluice/Proof/Scales.h"
#include "sluice/Proof/SegmentBounds.h"

using namespace mlir;
using namespace sluice;

/// Returns true for ops whose result is on the scale of their first operand, which they read at a
/// distance.
static bool keepsScale(OpResult result) {
  Operation *op = result.getOwner();
  auto flow = dyn_cast<CausalFlowInterface>(op);
  if (!flow || op->getNumOperands() == 0 || !isa<SequenceType>(op->getOperand(0).getType())) {
    return false;
  }
  AffineExpr p = getAffineDimExpr(0, op->getContext());
  AffineExpr latest = flow.getReads(result.getResultNumber(), 0).latest;
  return latest && isa<AffineConstantExpr>(simplifyAffineExpr(latest - p, 1, 0));
}

static std::string findScaleMistake(Operation *op) {
  auto findScale = [](Value value) { return cast<SequenceType>(value.getType()).getScale(); };
  for (OpResult result : op->getResults()) {
    if (!keepsScale(result)) {
      continue;
    }
    FlatSymbolRefAttr scale = findScale(op->getOperand(0));
    if (findScale(result) != scale) {
      return "its result is on the scale @" + findScale(result).getValue().str() +
             ", its operand on @" + scale.getValue().str() + "; write one scale for both";
    }
  }
  return "";
}

static bool readsComputedTensor(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value operand) {
    return !isa<SequenceType>(operand.getType()) && !operand.getDefiningOp<ReadOp>();
  });
}

/// Returns an error if data determines reads of an op other than through counts and ends of
/// sluice.segment; empty if there is none.
static std::string findHiddenCut(CausalFlowInterface op) {
  for (OpResult result : op->getResults()) {
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isa<SequenceType>(operand.get().getType())) {
        continue;
      }
      for (const SegmentTerm &term :
           op.getReads(result.getResultNumber(), operand.getOperandNumber()).terms) {
        if (!resolveTerm(term)) {
          return "its counts and ends of segments are not results of sluice.segment; take both "
                 "from one, moved by sluice.shift at most";
        }
      }
    }
  }
  return "";
}

static std::string findHiddenRead(Operation *op) {
  if (!isa<CausalFlowInterface>(op)) {
    return "the positions that it reads are unknown; build the prediction from ops of the model "
           "dialect";
  }
  if (readsComputedTensor(op)) {
    return "it reads a tensor that is not a parameter, and that may have been computed from "
           "tokens; read a parameter";
  }
  auto embed = dyn_cast<EmbedOp>(op);
  auto table = embed ? cast<RankedTensorType>(embed.getTable().getType()) : RankedTensorType();
  if (embed && !isOfTokens(embed.getTokens(), table.getDimSize(0))) {
    return "it embeds tokens that were computed; embed the tokens as the function is given them";
  }
  std::string hidden = findHiddenCut(cast<CausalFlowInterface>(op));
  return hidden.empty() ? findScaleMistake(op) : hidden;
}

static std::string findTargetMistake(CrossEntropyOp loss, const Scales &scales,
                                     const DenseSet<Value> &live) {
  if (!isa<BlockArgument>(loss.getTokens()) || !scales.isOnTargetAxis(loss.getTokens())) {
    return "the targets of every loss of a function must be tokens of one axis, as the function is "
           "given them; move targets by the offset, and give another axis's loss a function of its "
           "own";
  }
  if (readsComputedTensor(loss)) {
    return "its weights are not parameters, and may have been computed from tokens; read "
           "parameters";
  }
  if (live.contains(loss.getLosses())) {
    return "a prediction reads this loss, and so its targets; let losses be results alone";
  }
  return findScaleMistake(loss);
}

std::optional<BeyondTheorem> sluice::findBeyondTheorem(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments()) {
    if (!isa<SequenceType>(argument.getType())) {
      return BeyondTheorem{function,
                           "an argument is not a sequence; give the function tokens alone"};
    }
  }
  Scales scales(function);
  for (BlockArgument argument : function.getArguments()) {
    if (scales.isOnTargetAxis(argument) && scales.getScaleFactor(argument) != 1) {
      return BeyondTheorem{function, "tokens of the target's axis are on a scale of factor " +
                                         std::to_string(scales.getScaleFactor(argument)) +
                                         "; give them on a scale of factor 1"};
    }
  }
  DenseSet<Value> live = collectLive(function);
  for (Operation &op : function.getBody().front()) {
    std::string mistake;
    if (auto loss = dyn_cast<CrossEntropyOp>(op)) {
      mistake = findTargetMistake(loss, scales, live);
    } else if (!isa<ReadOp>(op) &&
               llvm::any_of(op.getResults(), [&](Value value) { return live.contains(value); })) {
      mistake = findHiddenRead(&op);
    }
    if (!mistake.empty()) {
      return BeyondTheorem{&op, mistake};
    }
  }
  return std::nullopt;
}
