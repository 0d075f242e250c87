// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ShareWeights.h"

#include "sluice/Support/Format.h"
#include "sluice/Support/Text.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <map>

using namespace mlir;
using namespace sluice;
using namespace sluice::spec;

/// Returns the name of a tensor after the path of its stage, for example "attention.norm.weight".
static StringRef getPart(WeightOp weight) {
  return weight.getSymName().drop_front(weight.getPath().size() + 1);
}

/// Returns the part of the parameter that a tensor is stored in; empty if it is stored by itself.
static StringRef getParameterPart(WeightOp weight) {
  return weight.getParameter() ? weight.getParameter()->drop_front(weight.getPath().size() + 1)
                               : StringRef();
}

//===----------------------------------------------------------------------===//
// Users of a name
//===----------------------------------------------------------------------===//

namespace {

/// A stage of the spec with the key "share". A composite stage is the stages that replaced it.
struct ShareUser {
  StageInterface stage;                         ///< the first of them
  llvm::MapVector<StringRef, WeightOp> weights; ///< by role
};

/// Users by the path of the stage in the spec, in the order of the stages.
using ShareUsers = llvm::MapVector<StringRef, ShareUser>;

} // namespace

constexpr static llvm::StringLiteral tableRole = "table";

/// Returns the path of the user that a stage with a name belongs to: of the stage in the spec, or
/// its own where a composite stage shares weights among the stages that replace it. Such names
/// begin with the path of the composite stage.
static StringRef getUserPath(StageInterface stage) {
  StringRef path = stage.getPathAttr().getValue(), written = getWrittenPath(path);
  StringRef name = stage.getShareAttr().getValue();
  return name.consume_front(written) && name.starts_with(".") ? path : written;
}

/// Returns the role of a tensor: tensors of one role are shared. It is the name of the tensor after
/// the path of the user. Embeddings of tokens, heads and losses have one role, the
/// table. Empty for a tensor that the stage has for itself.
static StringRef getRole(StageInterface stage, WeightOp weight) {
  StringRef path = weight.getPath(), written = getUserPath(stage), part = getPart(weight);
  bool isWhole = path == written;
  if (isWhole && isa<EmbeddingOp>(stage) && part != "weight") {
    return part == "token.weight" ? StringRef(tableRole) : StringRef();
  }
  if (isWhole && isa<HeadOp, LossOp>(stage)) {
    return part == "weight" ? StringRef(tableRole) : StringRef();
  }
  return weight.getSymName().drop_front(written.size() + 1);
}

static llvm::MapVector<StringAttr, ShareUsers> collectUsers(ModelOp model) {
  llvm::MapVector<StringAttr, ShareUsers> users;
  llvm::StringMap<StageInterface> stages;
  for (auto stage : model.getBody().getOps<StageInterface>()) {
    StringRef path = stage.getPathAttr().getValue();
    stages[path] = stage;
    if (StringAttr name = stage.getShareAttr()) {
      users[name].try_emplace(getUserPath(stage), ShareUser{stage, {}});
    }
  }
  for (auto weight : model.getBody().getOps<WeightOp>()) {
    StageInterface stage = stages.lookup(weight.getPath());
    StringRef role = stage.getShareAttr() ? getRole(stage, weight) : StringRef();
    if (!role.empty()) {
      users[stage.getShareAttr()][getUserPath(stage)].weights[role] = weight;
    }
  }
  return users;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Describes a tensor, for example "stages.1.weight of [4, 8]".
static std::string describeWeight(WeightOp weight) {
  std::string text = weight.getSymName().str() + " of [";
  llvm::raw_string_ostream out(text);
  llvm::interleaveComma(weight.getShape(), out);
  return text + "]";
}

static std::string describePlaceOfShare(ShareUser &user) {
  return describePlace(getKeyLoc(user.stage, "share"));
}

/// Begins the error of a user: `expected` of stages with its name.
static InFlightDiagnostic emitShareError(ShareUser &user, StringRef expected) {
  return emitKeyError(user.stage, "share")
         << "expected " << expected
         << " in stages with \"share\": " << quote(user.stage.getShareAttr().getValue())
         << ", found ";
}

constexpr static llvm::StringLiteral anotherName =
    "; give them the same settings, or choose another name";

/// Verifies that a tensor has the shape, the initial values and the place in a parameter of the
/// tensor of the first user.
static LogicalResult verifySameTensor(ShareUser &user, WeightOp weight, ShareUser &first,
                                      WeightOp owner) {
  if (weight.getShape() != owner.getShape()) {
    return emitShareError(user, "weights of one shape")
           << describeWeight(weight) << ", and " << describeWeight(owner) << " at "
           << describePlaceOfShare(first) << anotherName;
  }
  if (weight.getInitial() != owner.getInitial()) {
    return emitShareError(user, "weights that begin alike")
           << weight.getSymName() << " with " << stringifyInitialValues(weight.getInitial())
           << ", and " << owner.getSymName() << " with "
           << stringifyInitialValues(owner.getInitial()) << " at " << describePlaceOfShare(first)
           << anotherName;
  }
  if (isWritten(user.stage, "deviation") && weight.getDeviation() != owner.getDeviation()) {
    return emitShareError(user, "weights that begin alike")
           << weight.getSymName() << " with the deviation " << format("%g", weight.getDeviation())
           << ", and " << owner.getSymName() << " with " << format("%g", owner.getDeviation())
           << " at " << describePlaceOfShare(first) << anotherName;
  }
  if (getParameterPart(weight) != getParameterPart(owner)) {
    return emitShareError(user, "keys and values of one kind of stream")
           << "a layer that reads "
           << (getParameterPart(weight).contains("qkv") ? "its own" : "another")
           << " stream, and one that does not at " << describePlaceOfShare(first) << anotherName;
  }
  return success();
}

/// Verifies that two users have the same tensors, and are both frozen or both not.
static LogicalResult verifySameUse(ShareUser &user, ShareUser &first) {
  auto describeFrozen = [](ShareUser &one) { return one.stage.getFrozen() ? "true" : "false"; };
  if (user.stage.getFrozen() != first.stage.getFrozen()) {
    return emitShareError(user, "one value of \"frozen\"")
           << describeFrozen(user) << ", and " << describeFrozen(first) << " at "
           << describePlaceOfShare(first) << "; write the same in both, or choose another name";
  }
  for (auto [role, weight] : user.weights) {
    WeightOp owner = first.weights.lookup(role);
    if (!owner) {
      return emitShareError(user, "the same weights")
             << weight.getSymName() << ", for which the stage at " << describePlaceOfShare(first)
             << " has none" << anotherName;
    }
    if (failed(verifySameTensor(user, weight, first, owner))) {
      return failure();
    }
  }
  for (auto [role, owner] : first.weights) {
    if (!user.weights.contains(role)) {
      return emitShareError(user, "the same weights")
             << "none for " << owner.getSymName() << " of the stage at "
             << describePlaceOfShare(first) << anotherName;
    }
  }
  return success();
}

static LogicalResult verifyUsers(ShareUsers &users) {
  ShareUser &first = users.front().second;
  for (auto &[path, user] : users) {
    if (user.weights.empty()) {
      return emitKeyError(user.stage, "share")
             << "expected \"share\" only on a stage that has weights, found it on one that has "
                "none; leave it out";
    }
    if (failed(verifySameUse(user, first))) {
      return failure();
    }
  }
  if (users.size() == 1) {
    return emitKeyError(first.stage, "share")
           << "expected at least two stages with \"share\": "
           << quote(first.stage.getShareAttr().getValue())
           << ", found this one alone; give another stage that name, or leave it out";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Owners
//===----------------------------------------------------------------------===//

namespace {

/// A reason for which a tensor is shared: tensors of one reason are one.
struct ShareReason {
  StringRef key;    ///< key of the stage: "share", "tied" or "relative"
  std::string name; ///< equal for tensors that the key shares
};

/// Replaces tensors by the first one that shares a reason with them.
class WeightOwners {
public:
  explicit WeightOwners(ModelOp model) : model(model) {}
  FailureOr<SmallVector<SharedName>> run();

private:
  SmallVector<ShareReason> listReasons(StageInterface stage, WeightOp weight) const;
  FailureOr<WeightOp> findOwner(StageInterface stage, WeightOp weight);
  LogicalResult verifyBiases(StageInterface stage, WeightOp weight, WeightOp owner) const;

  ModelOp model;
  StringRef table;                        ///< name of the table of the last embedding of the tokens
  std::map<std::string, WeightOp> owners; ///< by the name of a reason
};

} // namespace

static bool isTied(Operation *stage) {
  auto head = dyn_cast<HeadOp>(stage);
  auto loss = dyn_cast<LossOp>(stage);
  return (head && head.getTied()) || (loss && loss.getTied());
}

static bool sharesBiases(Operation *stage) {
  auto layer = dyn_cast<LayerOp>(stage);
  RelativeAttr relative = layer ? layer.getRelative().value_or(RelativeAttr()) : RelativeAttr();
  return relative && relative.getTerms() == RelativeTerms::xl_shared;
}

/// Lists the reasons of a tensor. A table that a tied head reads has a reason of its own.
SmallVector<ShareReason> WeightOwners::listReasons(StageInterface stage, WeightOp weight) const {
  SmallVector<ShareReason> reasons;
  StringRef part = getPart(weight);
  StringAttr share = stage.getShareAttr();
  StringRef role = share ? getRole(stage, weight) : StringRef();
  if (!role.empty()) {
    reasons.push_back({"share", ("share " + role + " " + share.getValue()).str()});
  }
  if (weight.getSymName() == table || (isTied(stage) && part == "weight")) {
    reasons.push_back({"tied", ("table " + table).str()});
  }
  if (sharesBiases(stage) &&
      (part == "attention.relative.content.bias" || part == "attention.relative.position.bias")) {
    reasons.push_back({"relative", part.str()});
  }
  return reasons;
}

/// Returns the first tensor that shares a reason with `weight`, or `weight` itself.
FailureOr<WeightOp> WeightOwners::findOwner(StageInterface stage, WeightOp weight) {
  SmallVector<ShareReason> reasons = listReasons(stage, weight);
  const ShareReason *decisive = nullptr;
  WeightOp owner;
  for (const ShareReason &reason : reasons) {
    auto found = owners.find(reason.name);
    if (found == owners.end()) {
      continue;
    }
    if (owner && owner != found->second) {
      emitKeyError(stage, reason.key)
          << "expected one tensor for " << weight.getSymName() << " by the keys \"" << decisive->key
          << "\" and \"" << reason.key << "\", found " << owner.getSymName() << " and "
          << found->second.getSymName() << "; leave one of the keys out";
      return failure();
    }
    owner = found->second;
    decisive = &reason;
  }
  owner = owner ? owner : weight;
  for (const ShareReason &reason : reasons) {
    owners.try_emplace(reason.name, owner);
  }
  return owner;
}

/// Verifies that layers whose biases are shared have the same number of columns of queries.
LogicalResult WeightOwners::verifyBiases(StageInterface stage, WeightOp weight,
                                         WeightOp owner) const {
  if (weight.getShape() == owner.getShape()) {
    return success();
  }
  return emitKeyError(stage, "relative")
         << "expected layers with \"relative\": \"xl_shared\" to have heads * head_size equal, "
            "found "
         << owner.getShape().front() << " and " << weight.getShape().front()
         << "; make them equal, or use \"xl\"";
}

FailureOr<SmallVector<SharedName>> WeightOwners::run() {
  SmallVector<SharedName> names;
  llvm::StringMap<SmallVector<WeightOp>> weights;
  for (auto weight : model.getBody().getOps<WeightOp>()) {
    weights[weight.getPath()].push_back(weight);
  }
  for (auto stage : model.getBody().getOps<StageInterface>()) {
    NamedAttrList shared;
    for (WeightOp weight : weights.lookup(stage.getPathAttr().getValue())) {
      auto embedding = dyn_cast<EmbeddingOp>(stage.getOperation());
      if (embedding && !embedding.getInput() && getPart(weight) == "token.weight") {
        table = weight.getSymName();
      }
      FailureOr<WeightOp> owner = findOwner(stage, weight);
      if (failed(owner) || failed(verifyBiases(stage, weight, *owner))) {
        return failure();
      }
      if (*owner == weight) {
        continue;
      }
      shared.set(getPart(weight), owner->getSymNameAttr());
      if (weight.getParameter()) {
        shared.set(getParameterPart(weight), owner->getParameterAttr());
      }
      names.push_back(
          {weight.getSymName().str(), stage, listReasons(stage, weight).front().key, *owner});
      weight.erase();
    }
    stage.setSharedWeightsAttr(shared.empty() ? DictionaryAttr()
                                              : shared.getDictionary(model.getContext()));
  }
  return names;
}

FailureOr<SmallVector<SharedName>> sluice::shareWeights(ModelOp model) {
  llvm::MapVector<StringAttr, ShareUsers> all = collectUsers(model);
  for (auto &[name, users] : all) {
    if (failed(verifyUsers(users))) {
      return failure();
    }
  }
  return WeightOwners(model).run();
}
