// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Proof/ProveModel.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/Losses.h"
#include "sluice/Proof/Obligations.h"
#include "sluice/Proof/QuasiAffine.h"
#include "sluice/Support/WorkBudget.h"

using namespace mlir;
using namespace sluice;

/// Finds a row p that needs tokens after p, or its target p + offset.
std::optional<BoundViolation> sluice::findViolation(func::FuncOp function,
                                                    const DenseMap<Value, Frontier> &frontiers) {
  AffineExpr p = getAffineDimExpr(0, function.getContext());
  for (CrossEntropyOp loss : getLossOps(function)) {
    const Frontier &frontier = frontiers.at(loss.getInput());
    if (frontier.unbounded || !frontier.ends.empty()) {
      return BoundViolation{loss, frontier.unbounded ? frontier.unbounded : loss, true, 0, 0};
    }
    int64_t allowed = latestAllowed(loss);
    for (AffineExpr candidate : frontier.candidates) {
      SignAnswer answer = isNeverPositive(simplifyAffineExpr(candidate - p - allowed, 1, 0));
      if (answer.kind == SignAnswer::Always) {
        continue;
      }
      int64_t token = reference::evaluateAffine(candidate, answer.at, 0, 0);
      return BoundViolation{loss, nullptr, answer.kind == SignAnswer::Fails, answer.at, token};
    }
  }
  return std::nullopt;
}

bool sluice::isCausal(func::FuncOp function) {
  return !findViolation(function, computeFrontiers(function));
}

std::optional<OpenObligation>
sluice::findOpenObligation(const ModeProof &proof, ObligationDecider &decider, int64_t &held) {
  constexpr int64_t cost = 100; // minimum cost of a decision
  for (const Obligation &obligation : proof.obligations) {
    Decision decision =
        spendWork(cost) ? decider.decide(proof, obligation) : Decision{Decision::Undecided};
    if (decision.kind != Decision::Holds) {
      return OpenObligation{&obligation, decision};
    }
    ++held;
  }
  return std::nullopt;
}
