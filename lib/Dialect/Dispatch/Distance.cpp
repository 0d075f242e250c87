// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The distance of a query and a key, as an attribute and as three numbers.
#include "sluice/Dialect/Dispatch/DistanceTerms.h"

#include "mlir/IR/AffineExpr.h"

using namespace mlir;
using namespace sluice::dispatch;

static AffineExpr buildExpression(const Distance &distance, MLIRContext *context) {
  AffineExpr p = getAffineDimExpr(0, context), q = getAffineDimExpr(1, context);
  return p * distance.query - q * distance.key + distance.offset;
}

AffineMapAttr Distance::attribute(MLIRContext *context) const {
  return *this == Distance()
             ? AffineMapAttr()
             : AffineMapAttr::get(AffineMap::get(2, 0, buildExpression(*this, context)));
}

std::optional<Distance> Distance::of(std::optional<AffineMap> map) {
  if (!map) {
    return Distance();
  }
  if (map->getNumDims() != 2 || map->getNumSymbols() != 0 || map->getNumResults() != 1) {
    return std::nullopt;
  }
  auto at = [&](int64_t p, int64_t q) {
    MLIRContext *context = map->getContext();
    AffineExpr value = map->getResult(0).replaceDims(
        {getAffineConstantExpr(p, context), getAffineConstantExpr(q, context)});
    auto number = dyn_cast<AffineConstantExpr>(value);
    return number ? number.getValue() : 0;
  };
  Distance distance{at(1, 0) - at(0, 0), at(0, 0) - at(0, 1), at(0, 0)};
  AffineExpr rest = map->getResult(0) - buildExpression(distance, map->getContext());
  bool fits = distance.query >= 1 && distance.key >= 1 && simplifyAffineExpr(rest, 2, 0) == 0;
  return fits ? std::optional(distance) : std::nullopt;
}
