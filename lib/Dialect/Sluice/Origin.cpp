// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Dialect/Sluice/Origin.h"

#include "mlir/IR/Value.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace sluice;

using OriginLoc = FusedLocWith<OriginAttr>;

std::string OriginAttr::getName() const { return (getStage() + "." + getPart()).str(); }

bool OriginAttr::isWithin(StringRef path) const {
  std::string name = getName();
  StringRef rest = name;
  return rest.consume_front(path) && (rest.empty() || rest.starts_with("."));
}

int64_t OriginAttr::getDepth() const { return static_cast<int64_t>(getStage().count(".inside.")); }

Location sluice::addOrigin(StringRef stage, StringRef part, Location place) {
  MLIRContext *context = place.getContext();
  return FusedLoc::get(place, OriginAttr::get(context, stage, part), context);
}

/// Calls `visit` with each location that has an origin, in the order of the origins.
static void walkOrigins(Location location, function_ref<void(OriginLoc)> visit) {
  location->walk([&](Location inner) {
    if (auto origin = dyn_cast<OriginLoc>(inner)) {
      visit(origin);
    }
    return WalkResult::advance();
  });
}

SmallVector<OriginAttr> sluice::getOrigins(Location location) {
  SmallVector<OriginAttr> origins;
  walkOrigins(location, [&](OriginLoc found) {
    if (!llvm::is_contained(origins, found.getMetadata())) {
      origins.push_back(found.getMetadata());
    }
  });
  return origins;
}

OriginAttr sluice::getOrigin(Operation *op) {
  auto found = op->getLoc()->findInstanceOf<OriginLoc>();
  return found ? found.getMetadata() : OriginAttr();
}

StringRef sluice::getOriginStage(Operation *op) {
  OriginAttr origin = getOrigin(op);
  return origin ? origin.getStage() : StringRef();
}

StringRef sluice::getOriginPart(Operation *op) {
  OriginAttr origin = getOrigin(op);
  return origin ? origin.getPart() : StringRef();
}

std::string sluice::getOriginName(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op) {
    return "tokens";
  }
  OriginAttr origin = getOrigin(op);
  return origin ? origin.getName() : op->getName().stripDialect().str();
}

Location sluice::mergeOrigins(Location first, Location second) {
  if (first == second) {
    return first;
  }
  SmallVector<OriginAttr> known = getOrigins(first);
  SmallVector<Location> all = {first};
  walkOrigins(second, [&](OriginLoc found) {
    if (!llvm::is_contained(known, found.getMetadata())) {
      known.push_back(found.getMetadata());
      all.push_back(found);
    }
  });
  return all.size() == 1 ? first : FusedLoc::get(first.getContext(), all);
}

void sluice::mergeOrigins(Operation *kept, Operation *replaced) {
  kept->setLoc(mergeOrigins(kept->getLoc(), replaced->getLoc()));
}
