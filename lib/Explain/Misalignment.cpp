// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Messages about training or generation of a token other than the evaluated one.
#include "Misalignment.h"
#include "sluice/Explain/OpLocation.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/Alignment.h"

using namespace mlir;
using namespace sluice;

bool sluice::trainsWhatIsEvaluated(ModuleOp module, CausalVerdict &verdict) {
  auto evaluate = module.lookupSymbol<func::FuncOp>("evaluate");
  auto train = module.lookupSymbol<func::FuncOp>("train");
  std::optional<OtherTraining> other =
      evaluate && train ? findOtherTraining(evaluate, train) : std::nullopt;
  if (!other) {
    return true;
  }
  verdict.kind = VerdictKind::Misaligned;
  verdict.refusedMode = "train";
  verdict.place = getOpLocation(other->loss);
  std::string place = spec::toString(verdict.place);
  verdict.message =
      !other->evaluated
          ? "not aligned: no loss of training has the weights that are evaluated; train "
            "what is evaluated, at " +
                place
          : "not aligned: in training, row t is scored against token t + " +
                std::to_string(other->loss.getOffset()) + ", but in evaluation against token t + " +
                std::to_string(*other->evaluated) + "; score it alike, at " + place;
  return false;
}

bool sluice::provesGeneration(ModuleOp module, CausalVerdict &verdict) {
  auto evaluate = module.lookupSymbol<func::FuncOp>("evaluate");
  auto predict = module.lookupSymbol<func::FuncOp>("predict");
  if (!evaluate || !predict) {
    return true;
  }
  Alignment alignment = checkAlignment(evaluate, predict);
  if (alignment.kind == Alignment::Aligned) {
    verdict.modes.push_back("generate");
    return true;
  }
  verdict.refusedMode = "generate";
  verdict.place = getOpLocation(alignment.op);
  if (alignment.kind == Alignment::OtherPrediction) {
    verdict.message = "not aligned: generation samples a prediction that no loss scores; let "
                      "@predict end in the last row of what a loss reads, under the loss's weights";
  } else {
    verdict.kind = VerdictKind::Misaligned;
    verdict.message = "not aligned: row t is scored against token t + " +
                      std::to_string(alignment.offset) +
                      ", but generation appends what it predicts as token t + 1; score it against "
                      "token t + 1, at " +
                      spec::toString(verdict.place);
  }
  return false;
}
