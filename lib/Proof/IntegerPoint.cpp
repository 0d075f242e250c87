// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Proof/IntegerPoint.h"
#include "mlir/Analysis/FlatLinearValueConstraints.h"
#include "sluice/Support/WorkBudget.h"
#include <cmath>

using namespace mlir;
using namespace sluice;
using presburger::IntegerRelation;

namespace {
/// Limits on the size of a set: the sum over its rows of the bits of the largest coefficient. Among
/// random sets with chains of divisions, sets of up to 64 bits took at most 22 ms, sets of 100 bits
/// up to 0.1 s, and some of 144 bits did not end within 3 s. Sets of few variables cost little,
/// however large the coefficients.
constexpr double mostBits = 64, mostBitsOfFew = 160, manyBits = 40;
constexpr unsigned fewVariables = 5;
/// Operations charged for a set: per pair of variables, and for many bits.
constexpr int64_t costOfPair = 50, costOfBits = 500'000;
} // namespace

static double countBits(const IntegerRelation &relation) {
  double bits = 0;
  auto add = [&](ArrayRef<llvm::DynamicAPInt> row) {
    double largest = 1;
    for (const llvm::DynamicAPInt &coefficient : row.drop_back()) {
      bool fits = coefficient < (int64_t{1} << 62) && coefficient > -(int64_t{1} << 62);
      largest = std::max(largest, fits ? std::abs(static_cast<double>(int64_t(coefficient)))
                                       : std::exp2(mostBitsOfFew));
    }
    bits += std::log2(largest);
  };
  for (unsigned i = 0; i < relation.getNumInequalities(); ++i) {
    add(relation.getInequality(i));
  }
  for (unsigned i = 0; i < relation.getNumEqualities(); ++i) {
    add(relation.getEquality(i));
  }
  return bits;
}

IntegerPoint sluice::findIntegerPoint(const IntegerRelation &relation) {
  unsigned variables = relation.getNumVars();
  double bits = countBits(relation);
  int64_t cost = costOfPair * variables * variables + (bits > manyBits ? costOfBits : 0);
  if (bits > (variables <= fewVariables ? mostBitsOfFew : mostBits) || !spendWork(cost)) {
    return {};
  }
  auto sample = relation.findIntegerSample();
  if (!sample) {
    return {IntegerPoint::None, {}};
  }
  IntegerPoint point{IntegerPoint::Found, {}};
  for (const llvm::DynamicAPInt &number : *sample) {
    point.at.push_back(int64_t(number));
  }
  return point;
}

IntegerPoint sluice::findIntegerPoint(IntegerSet set) {
  return findIntegerPoint(static_cast<const IntegerRelation &>(FlatLinearValueConstraints(set)));
}
