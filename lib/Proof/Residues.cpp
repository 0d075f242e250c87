// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Searches for a point at which quasi-affine functions of one integer are all at least 0.
//
// The integers are split into classes r + m t. On a class whose slope is a multiple of c, a
// division by c is a line in t; else the class is split into c / gcd(c, slope) classes. Divisions
// become lines one after the other, the inner ones first. A class is dropped as soon as bounds of
// the remaining divisions exclude it. For divisions by coprime numbers every combination of
// remainders occurs, so these bounds are attained and few classes are split, however long the
// common period is. One class per level is open, so memory grows only with the number of divisions.
#include "sluice/Proof/Residues.h"
#include "sluice/Proof/Staircase.h"
#include "sluice/Support/WorkBudget.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <map>
#include <numeric>

using namespace mlir;
using namespace sluice;

namespace {

using Wide = __int128;

/// Maximum number of operations of one search: some ten milliseconds.
constexpr int64_t mostOperations = 2'000'000;
/// Bound beyond which the search is abandoned.
constexpr Wide largestSum = Wide{1} << 50;
/// Maximum number of classes into which a division splits another class; only some of more classes
/// are tried.
constexpr int64_t mostClasses = int64_t{1} << 16;
constexpr size_t mostFloors = 400;
/// Maximum number of points of a class that are tried one by one.
constexpr int64_t fewPoints = 64;
/// Bounds are multiples of 2^-fraction, rounded outward.
constexpr int fraction = 20;

bool isLarge(Wide x) { return x > largestSum || x < -largestSum; }

Wide floorDivided(Wide x, Wide by) { return x / by - (x % by != 0 && (x < 0) != (by < 0) ? 1 : 0); }
Wide ceilDivided(Wide x, Wide by) { return -floorDivided(-x, by); }

/// A sum of multiples of atoms and a constant. Atom 0 is the integer itself, atom i + 1 is floor i.
struct Sum {
  std::map<size_t, int64_t> terms;
  int64_t constant = 0;
  auto operator<=>(const Sum &) const = default;
};

struct Floor {
  Sum inner;
  int64_t divisor = 1;
  auto operator<=>(const Floor &) const = default;
};

/// The line slope t + offset on a class.
struct ResidueLine {
  Wide slope = 0, offset = 0;
};
/// Bounds of the distance of a function from its line, in units of 2^-fraction.
struct ResidueRange {
  Wide low = 0, high = 0;
};

/// Integers t from `first` to `last`, which may be beyond the search's range.
struct ResidueInterval {
  explicit ResidueInterval(bool everywhere = false) : first(everywhere ? -unlimited : 0) {}
  /// Restricts the interval to t with slope t + offset >= 0, for a slope other than 0.
  void keep(Wide slope, Wide offset) {
    if (slope > 0) {
      first = std::max(first, ceilDivided(-offset, slope));
    } else {
      last = std::min(last, floorDivided(offset, -slope));
    }
  }
  bool isEmpty() const { return first > last; }
  bool isOutOfReach() const { return first > largestSum || last < -largestSum; }

  static constexpr Wide unlimited = Wide{1} << 125;
  Wide first, last = unlimited;
};

/// The fraction num / den; den is 0 if the fraction is unknown.
struct Ratio {
  Wide num = 0, den = 1;
};

class ResidueSearch {
public:
  explicit ResidueSearch(bool everywhere) : everywhere(everywhere) {}
  /// Adds a demanded expression. Returns false if it has another form or its numbers are too large.
  bool add(AffineExpr expression);
  CommonPoint run();

private:
  bool toSum(AffineExpr expression, int64_t factor, Sum &sum);
  bool addFloor(Sum inner, int64_t divisor, int64_t factor, Sum &sum);
  bool spend(size_t operations);
  void measure();
  Ratio computeSlope(const Sum &sum) const;
  ResidueLine toLine(const Sum &sum) const;
  bool isExcluded(size_t known);
  bool tryPoint(Wide x);
  void visit(size_t known);
  void visitLines();
  void visitClass(size_t known, int64_t k, int64_t classes, const ResidueLine &inner);

  bool everywhere;
  std::vector<Floor> floors; ///< inner floors first
  std::map<Floor, size_t> numbers;
  std::vector<Sum> demanded; ///< sums that must be at least 0
  std::vector<Ratio> slopes; ///< slopes of all atoms, as functions of the integer itself
  std::vector<Ratio> demandedSlopes;
  std::vector<bool> isUsed;                 ///< for each atom: true if it is part of a demanded sum
  llvm::SmallVector<ResidueLine, 16> lines; ///< lines of the atoms that are lines on the class
  std::vector<ResidueRange> ranges;         ///< bounds of all atoms, computed for each class
  int64_t operations = 0;
  bool isGivenUp = false;
  ResidueInterval interval; ///< for the current class: the values of t that may be points
  std::optional<int64_t> found;
};

} // namespace

bool ResidueSearch::addFloor(Sum inner, int64_t divisor, int64_t factor, Sum &sum) {
  // Moves multiples of the divisor out of the division: floor((c x + y) / c) = x + floor(y / c).
  auto take = [&](int64_t &number) {
    int64_t quotient = static_cast<int64_t>(floorDivided(number, divisor));
    number -= quotient * divisor;
    return quotient;
  };
  auto addTo = [&](int64_t &number, int64_t quotient) {
    int64_t product;
    return !__builtin_mul_overflow(quotient, factor, &product) &&
           !__builtin_add_overflow(number, product, &number) && !isLarge(number);
  };
  if (!addTo(sum.constant, take(inner.constant))) {
    return false;
  }
  for (auto term = inner.terms.begin(); term != inner.terms.end();) {
    if (!addTo(sum.terms[term->first], take(term->second))) {
      return false;
    }
    term = term->second == 0 ? inner.terms.erase(term) : std::next(term);
  }
  if (inner.terms.empty()) {
    return true; // 0 <= constant < divisor
  }
  // Merges nested divisions if the sum has no other term: floor((floor(x / a) + b) / c) = floor((x
  // + a b) / (a c)).
  if (auto only = inner.terms.begin();
      inner.terms.size() == 1 && only->second == 1 && only->first > 0) {
    Floor nested = floors[only->first - 1];
    int64_t product, shift;
    if (!__builtin_mul_overflow(nested.divisor, divisor, &product) && !isLarge(product) &&
        !__builtin_mul_overflow(nested.divisor, inner.constant, &shift) && !isLarge(shift)) {
      nested.inner.constant += shift;
      return addFloor(nested.inner, product, factor, sum);
    }
  }
  auto [entry, isNew] = numbers.try_emplace(Floor{inner, divisor}, floors.size());
  if (isNew) {
    if (floors.size() >= mostFloors) {
      return false;
    }
    floors.push_back(entry->first);
  }
  return addTo(sum.terms[entry->second + 1], 1);
}

bool ResidueSearch::toSum(AffineExpr expression, int64_t factor, Sum &sum) {
  if (isLarge(factor)) {
    return false;
  }
  if (auto constant = dyn_cast<AffineConstantExpr>(expression)) {
    int64_t product;
    return !__builtin_mul_overflow(constant.getValue(), factor, &product) &&
           !__builtin_add_overflow(sum.constant, product, &sum.constant) && !isLarge(sum.constant);
  }
  if (auto dim = dyn_cast<AffineDimExpr>(expression)) {
    int64_t &number = sum.terms[0];
    return dim.getPosition() == 0 && !__builtin_add_overflow(number, factor, &number);
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expression);
  if (!binary) {
    return false;
  }
  if (binary.getKind() == AffineExprKind::Add) {
    return toSum(binary.getLHS(), factor, sum) && toSum(binary.getRHS(), factor, sum);
  }
  auto constant = dyn_cast<AffineConstantExpr>(binary.getRHS());
  if (!constant) {
    return false;
  }
  int64_t c = constant.getValue(), product;
  if (binary.getKind() == AffineExprKind::Mul) {
    return !__builtin_mul_overflow(c, factor, &product) && toSum(binary.getLHS(), product, sum);
  }
  if (c <= 0 || isLarge(c)) {
    return false;
  }
  Sum inner;
  switch (binary.getKind()) {
  case AffineExprKind::FloorDiv:
    return toSum(binary.getLHS(), 1, inner) && addFloor(inner, c, factor, sum);
  case AffineExprKind::CeilDiv: // -floor(-x / c)
    return toSum(binary.getLHS(), -1, inner) && addFloor(inner, c, -factor, sum);
  default: // x mod c = x - c floor(x / c)
    return !__builtin_mul_overflow(-c, factor, &product) && toSum(binary.getLHS(), factor, sum) &&
           toSum(binary.getLHS(), 1, inner) && addFloor(inner, c, product, sum);
  }
}

bool ResidueSearch::add(AffineExpr expression) {
  Sum sum;
  if (!toSum(expression, 1, sum)) {
    return false;
  }
  std::erase_if(sum.terms, [](const auto &term) { return term.second == 0; });
  demanded.push_back(std::move(sum));
  return true;
}

Ratio ResidueSearch::computeSlope(const Sum &sum) const {
  Ratio total;
  for (auto [atom, factor] : sum.terms) {
    const Ratio &slope = slopes[atom];
    if (slope.den == 0) {
      return slope;
    }
    Wide common = std::gcd(static_cast<int64_t>(total.den), static_cast<int64_t>(slope.den));
    Wide den = total.den / common * slope.den; // at most 2^100
    if (isLarge(den)) {
      return {0, 0};
    }
    total = {total.num * (slope.den / common) + slope.num * factor * (total.den / common), den};
    if (isLarge(total.num)) {
      return {0, 0};
    }
  }
  return total;
}

/// Computes slopes of atoms and of demanded sums, and the atoms that are used.
void ResidueSearch::measure() {
  slopes = {{1, 1}};
  for (const auto &[inner, divisor] : floors) {
    Ratio slope = computeSlope(inner);
    Wide common = std::gcd(static_cast<int64_t>(slope.num), divisor);
    slope = {slope.num / common, slope.den * (divisor / common)};
    slopes.push_back(isLarge(slope.den) ? Ratio{0, 0} : slope);
  }
  isUsed.assign(floors.size() + 1, false);
  auto use = [&](const Sum &sum) {
    for (auto [atom, factor] : sum.terms) {
      isUsed[atom] = true;
    }
  };
  for (const Sum &sum : demanded) {
    demandedSlopes.push_back(computeSlope(sum));
    use(sum);
  }
  for (size_t i = floors.size(); i-- > 0;) {
    if (isUsed[i + 1]) {
      use(floors[i].inner);
    }
  }
}

bool ResidueSearch::spend(size_t count) {
  operations += static_cast<int64_t>(count) + 1;
  isGivenUp |= operations > mostOperations || !spendWork(static_cast<int64_t>(count) + 1);
  return !isGivenUp;
}

ResidueLine ResidueSearch::toLine(const Sum &sum) const {
  ResidueLine line{0, sum.constant};
  for (auto [atom, factor] : sum.terms) {
    line.slope += lines[atom].slope * factor;
    line.offset += lines[atom].offset * factor;
  }
  return line;
}

/// Returns true if no point of the class, on which the first `known` floors are lines, makes every
/// sum at least 0, or if the search is abandoned. Else `interval` has the points that may.
bool ResidueSearch::isExcluded(size_t known) {
  auto computeRange = [&](const Sum &sum) {
    ResidueRange range{Wide{sum.constant} << fraction, Wide{sum.constant} << fraction};
    auto add = [&](Wide &number, Wide bound, int64_t factor) {
      Wide product;
      isGivenUp |= __builtin_mul_overflow(bound, factor, &product) ||
                   __builtin_add_overflow(number, product, &number);
    };
    for (auto [atom, factor] : sum.terms) {
      add(range.low, factor > 0 ? ranges[atom].low : ranges[atom].high, factor);
      add(range.high, factor > 0 ? ranges[atom].high : ranges[atom].low, factor);
    }
    return range;
  };
  size_t terms = demanded.size();
  for (size_t atom = 0; atom <= floors.size(); ++atom) {
    if (atom <= known) {
      ranges[atom] = {lines[atom].offset << fraction, lines[atom].offset << fraction};
      continue;
    }
    if (!isUsed[atom]) {
      continue;
    }
    const auto &[inner, divisor] = floors[atom - 1];
    ResidueRange range = computeRange(inner);
    ranges[atom] = {floorDivided(range.low - (Wide{divisor - 1} << fraction), divisor),
                    ceilDivided(range.high, divisor)};
    if (isLarge(ranges[atom].low >> fraction) || isLarge(ranges[atom].high >> fraction)) {
      isGivenUp = true;
      return true;
    }
    terms += inner.terms.size() + 1;
  }
  if (!spend(terms)) {
    return true;
  }
  interval = ResidueInterval(everywhere);
  for (size_t i = 0; i < demanded.size(); ++i) {
    Wide high = computeRange(demanded[i]).high, scaled, slope;
    const Ratio &ratio = demandedSlopes[i];
    if (ratio.den == 0) {
      continue; // the slope is unknown
    }
    if (ratio.num == 0) {
      if (high < 0) {
        return true;
      }
      continue;
    }
    // num / den m t + high >= 0
    if (__builtin_mul_overflow(high, ratio.den, &scaled) ||
        __builtin_mul_overflow(lines[0].slope * ratio.num, Wide{1} << fraction, &slope)) {
      continue;
    }
    interval.keep(slope, scaled);
  }
  isGivenUp |= !interval.isEmpty() && interval.isOutOfReach();
  return isGivenUp || interval.isEmpty();
}

/// Sets `found` if x is a point. Returns false if its numbers are too large.
bool ResidueSearch::tryPoint(Wide x) {
  llvm::SmallVector<Wide, 32> values{x};
  auto toValue = [&](const Sum &sum) {
    Wide value = sum.constant;
    for (auto [atom, factor] : sum.terms) {
      value += values[atom] * factor;
    }
    return value;
  };
  size_t terms = 0;
  for (const auto &[inner, divisor] : floors) {
    values.push_back(floorDivided(toValue(inner), divisor));
    terms += inner.terms.size();
    if (isLarge(values.back())) {
      return false;
    }
  }
  if (isLarge(x) || !spend(terms)) {
    return false;
  }
  if (llvm::all_of(demanded, [&](const Sum &sum) { return toValue(sum) >= 0; })) {
    found = static_cast<int64_t>(x);
  }
  return true;
}

/// Handles a class on which every function is a line, so that its points form an interval.
void ResidueSearch::visitLines() {
  interval = ResidueInterval(everywhere);
  for (const Sum &sum : demanded) {
    ResidueLine line = toLine(sum);
    if (line.slope != 0) {
      interval.keep(line.slope, line.offset);
    } else if (line.offset < 0) {
      return;
    }
  }
  if (interval.isEmpty()) {
    return;
  }
  Wide t = std::clamp<Wide>(0, interval.first, interval.last);
  Wide at = isLarge(t) ? t : lines[0].slope * t + lines[0].offset;
  if (isLarge(at)) {
    isGivenUp = true;
  } else {
    found = static_cast<int64_t>(at);
  }
}

/// Visits the k-th of the classes into which floor `known` splits a class.
void ResidueSearch::visitClass(size_t known, int64_t k, int64_t classes, const ResidueLine &inner) {
  llvm::SmallVector<ResidueLine, 16> before = lines;
  for (ResidueLine &line : lines) {
    line = {line.slope * classes, line.offset + line.slope * k};
    isGivenUp |= isLarge(line.slope) || isLarge(line.offset);
  }
  int64_t divisor = floors[known].divisor;
  lines.push_back(
      {inner.slope * classes / divisor, floorDivided(inner.offset + inner.slope * k, divisor)});
  isGivenUp |= isLarge(lines.back().slope) || isLarge(lines.back().offset);
  if (!isGivenUp && !isExcluded(known + 1)) {
    visit(known + 1);
  }
  lines = std::move(before);
}

void ResidueSearch::visit(size_t known) {
  size_t unsplit = known;
  for (; known < floors.size(); ++known) {
    if (!isUsed[known + 1]) {
      lines.emplace_back();
      continue;
    }
    const auto &[sum, divisor] = floors[known];
    ResidueLine inner = toLine(sum);
    if (isLarge(inner.slope) || isLarge(inner.offset) || !spend(sum.terms.size())) {
      isGivenUp = true;
      return;
    }
    Wide slope = inner.slope % divisor;
    if (slope == 0) {
      lines.push_back({inner.slope / divisor, floorDivided(inner.offset, divisor)});
      continue;
    }
    auto common = std::gcd(static_cast<int64_t>(slope < 0 ? -slope : slope), divisor);
    int64_t classes = divisor / common;
    // A falling function has few points.
    if (interval.last - interval.first < std::max(classes, fewPoints)) {
      const ResidueLine own = lines[0];
      const ResidueInterval few = interval;
      for (Wide t = few.first; t <= few.last && !found && !isGivenUp; ++t) {
        isGivenUp |= isLarge(t) || !tryPoint(own.slope * t + own.offset);
      }
      lines.resize(unsplit + 1);
      return;
    }
    for (int64_t k = 0; k < std::min(classes, mostClasses) && !found && !isGivenUp; ++k) {
      visitClass(known, k, classes, inner);
    }
    if (classes > mostClasses && !found) {
      for (int64_t k = classes - 64; k < classes && !found && !isGivenUp; ++k) {
        visitClass(known, k, classes, inner);
      }
      isGivenUp |= !found;
    }
    lines.resize(unsplit + 1);
    return;
  }
  visitLines();
  lines.resize(unsplit + 1);
}

CommonPoint ResidueSearch::run() {
  measure();
  lines = {{1, 0}};
  ranges.resize(floors.size() + 1);
  // Tries points near 0 and far out first: most questions with a point have one there.
  constexpr Wide near = 32, far = Wide{1} << 40;
  bool isEmpty = isExcluded(0);
  for (Wide x = 0; !isEmpty && !found && x < far; x = x < near ? x + 1 : 4 * x) {
    tryPoint(x);
    if (!found && everywhere) {
      tryPoint(-x);
    }
  }
  if (!isEmpty && !found && !isGivenUp) {
    visit(0);
  }
  if (found) {
    return {CommonPoint::Found, *found};
  }
  return {isGivenUp ? CommonPoint::Unknown : CommonPoint::None, 0};
}

CommonPoint sluice::findCommonPoint(ArrayRef<AffineExpr> expressions, bool everywhere) {
  ResidueSearch search(everywhere);
  for (AffineExpr expression : expressions) {
    if (!search.add(expression)) {
      return {};
    }
  }
  return search.run();
}
