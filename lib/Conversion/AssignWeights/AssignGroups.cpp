// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns each weight to the first group of the training whose pattern its name matches.
#include "AssignGroups.h"

#include "sluice/Dialect/Spec/Keys.h"
#include "sluice/Dialect/Spec/VerifyModel.h"
#include "sluice/Support/EditDistance.h"
#include "sluice/Support/Text.h"

#include <fnmatch.h>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

/// Bytes of a name that messages show.
constexpr static size_t mostShown = 120;

/// Returns true if the pattern names the weight, by the rules of `sluice train --match`.
static bool matches(GroupOp group, WeightOp weight) {
  return ::fnmatch(group.getMatch().str().c_str(), weight.getSymName().str().c_str(), 0) == 0;
}

/// Returns the name of a weight that is nearest to the pattern.
static StringRef findNearest(ArrayRef<WeightOp> weights, StringRef pattern) {
  auto distance = [&](WeightOp weight) {
    return computeEditDistance(std::string_view(pattern), std::string_view(weight.getSymName()));
  };
  WeightOp nearest = *llvm::min_element(
      weights, [&](WeightOp a, WeightOp b) { return distance(a) < distance(b); });
  return nearest.getSymName();
}

/// Fails for a group that no weight belongs to.
static LogicalResult refuseEmpty(GroupOp group, ArrayRef<WeightOp> weights) {
  InFlightDiagnostic error = emitKeyError(group, "match");
  error << "expected a pattern of the names of weights to train, found "
        << quote(group.getMatch(), mostShown);
  auto found = llvm::find_if(weights, [&](WeightOp weight) { return matches(group, weight); });
  if (found == weights.end()) {
    return error << ", which no name matches; one of the " << weights.size() << " names is "
                 << quote(findNearest(weights, group.getMatch()), mostShown)
                 << ", and sluice inspect --json lists all of an artifact";
  }
  if (llvm::all_of(weights, [&](WeightOp weight) {
        return !matches(group, weight) || weight.getFrozen();
      })) {
    return error << ", which matches names of frozen weights alone; leave the group out, or "
                    "\"frozen\" of their stages";
  }
  return error << ", whose weights belong to earlier groups, such as "
               << quote(WeightOp(*found).getSymName(), mostShown)
               << "; the first group that matches a name holds: move this one up";
}

LogicalResult spec::assignGroups(ModelOp model) {
  SmallVector<GroupOp> groups = llvm::to_vector(model.getBody().getOps<GroupOp>());
  SmallVector<WeightOp> weights = llvm::to_vector(model.getBody().getOps<WeightOp>());
  Builder b(model.getContext());
  SmallVector<bool> hasWeights(groups.size());
  for (WeightOp weight : weights) {
    auto *first = llvm::find_if(groups, [&](GroupOp group) { return matches(group, weight); });
    if (first != groups.end() && !weight.getFrozen()) {
      int64_t number = first - groups.begin();
      weight.setGroupAttr(b.getI64IntegerAttr(number));
      hasWeights[number] = true;
    }
  }
  for (auto [group, isUsed] : llvm::zip_equal(groups, hasWeights)) {
    if (!isUsed) {
      return refuseEmpty(group, weights);
    }
  }
  return success();
}
