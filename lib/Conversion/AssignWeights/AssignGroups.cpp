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
static bool matches(GroupOp group, StringRef name) {
  return ::fnmatch(group.getMatch().str().c_str(), name.str().c_str(), 0) == 0;
}
static bool matches(GroupOp group, WeightOp weight) { return matches(group, weight.getSymName()); }

/// Describes the tensor that a stage shares: "stages.2.weight, stored as stages.0.token.weight by
/// "share" at a.json:7:5".
static std::string describeShared(const SharedName &shared) {
  return shared.name + ", stored as " + WeightOp(shared.owner).getSymName().str() + " by " +
         quote(shared.key) + " at " + describePlace(getKeyLoc(shared.stage, shared.key));
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
static LogicalResult refuseEmpty(GroupOp group, ArrayRef<WeightOp> weights,
                                 ArrayRef<SharedName> shared) {
  InFlightDiagnostic error = emitKeyError(group, "match");
  error << "expected a pattern of the names of weights to train, found "
        << quote(group.getMatch(), mostShown);
  auto found = llvm::find_if(weights, [&](WeightOp weight) { return matches(group, weight); });
  const auto *other =
      llvm::find_if(shared, [&](const SharedName &one) { return matches(group, one.name); });
  if (found == weights.end() && other != shared.end()) {
    return error << ", which matches only names of shared weights, such as "
                 << describeShared(*other) << "; match the name that it is stored as";
  }
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

/// Fails where a group matches the name of a tensor in a later stage and is not its group.
static LogicalResult verifySharedGroups(ArrayRef<GroupOp> groups, ArrayRef<SharedName> shared) {
  auto findGroup = [&](StringRef name) {
    auto *found = llvm::find_if(groups, [&](GroupOp group) { return matches(group, name); });
    return found == groups.end() ? GroupOp() : *found;
  };
  for (const SharedName &one : shared) {
    WeightOp owner = one.owner;
    GroupOp own = findGroup(one.name), decisive = findGroup(owner.getSymName());
    if (one.key == "share" && own && own != decisive && !owner.getFrozen()) {
      InFlightDiagnostic error = emitKeyError(own, "match");
      error << "expected one group for shared weights, found this one for " << describeShared(one)
            << ", and ";
      if (decisive) {
        error << quote(decisive.getMatch(), mostShown) << " at "
              << describePlace(getKeyLoc(decisive, "match"));
      } else {
        error << "none";
      }
      return error << " for that name, which decides; match it, or no name of the tensor";
    }
  }
  return success();
}

LogicalResult spec::assignGroups(ModelOp model, ArrayRef<SharedName> shared) {
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
      return refuseEmpty(group, weights, shared);
    }
  }
  return verifySharedGroups(groups, shared);
}
