// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares maps and masks directly, and thus for every length: the rows that each value reads of
// the values that both graphs name, path by path.
#include "sluice/Analysis/LoweredAnyLength.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Proof/IntegerPoint.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace sluice;
using dispatch::RowRead;

namespace {

/// Maximum number of paths from a value back to values that both graphs name.
constexpr size_t mostPaths = 4096;
/// Maximum number of positions that are searched for a difference of two maps.
constexpr int64_t mostPositions = 4096;

/// Conditions on p = d0: constraints, each with a flag that is true for an equality.
using Conditions = SmallVector<std::pair<AffineExpr, bool>>;

/// Row p reads row position(p) of a value, or every q with (p, q) in `relation`, or all rows. A
/// path with a position or with all rows applies only to rows p that satisfy every condition.
struct Path {
  std::string source;
  AffineExpr position;
  IntegerSet relation;
  bool isWhole = false;
  Conditions conditions{};
  bool isRelation() const { return !position && !isWhole; }
  bool isMap() const { return !!position; }
};

struct Paths {
  std::vector<Path> all;
  bool isComplete = true; ///< false if some path cannot be expressed as a map or a relation
};

/// Follows the reads of one value back to the values in `ends`.
class PathFinder {
public:
  PathFinder(const ReadGraph &graph, const llvm::StringSet<> &ends) : graph(graph), ends(ends) {}
  Paths from(size_t value, MLIRContext *context) {
    Paths paths;
    expand(graph.getValues()[value], getAffineDimExpr(0, context), {}, paths);
    return paths;
  }

private:
  void expand(const ReadGraph::GraphValue &value, AffineExpr position, const Conditions &conditions,
              Paths &paths);
  void follow(const ReadGraph::GraphRead &read, AffineExpr position, const Conditions &conditions,
              Paths &paths);
  void followRelation(const ReadGraph::GraphRead &read, AffineExpr position,
                      const Conditions &conditions, Paths &paths);

  const ReadGraph &graph;
  const llvm::StringSet<> &ends;
};

/// Adds the rows of a read at `position`.
static Conditions addConditions(const ReadGraph::GraphRead &read, AffineExpr position,
                                Conditions conditions) {
  IntegerSet rows = read.kind == RowRead::Kind::Relation ? IntegerSet() : read.relation;
  if (rows) {
    for (auto [constraint, isEquality] :
         llvm::zip_equal(rows.getConstraints(), rows.getEqFlags())) {
      std::pair added(simplifyAffineExpr(constraint.replaceDims({position}), 1, 1), isEquality);
      if (!llvm::is_contained(conditions, added)) {
        conditions.push_back(added);
      }
    }
  }
  return conditions;
}

static bool holdsAt(const Conditions &conditions, int64_t p, int64_t n) {
  return llvm::all_of(conditions, [&](const std::pair<AffineExpr, bool> &condition) {
    int64_t value = reference::evaluateAffine(condition.first, p, 0, n);
    return condition.second ? value == 0 : value >= 0;
  });
}

void PathFinder::follow(const ReadGraph::GraphRead &read, AffineExpr position,
                        const Conditions &conditions, Paths &paths) {
  const ReadGraph::GraphValue &source = graph.getValues()[read.source];
  position = simplifyAffineExpr(position, 1, 1);
  bool isEnd = ends.contains(source.name);
  if (isEnd) {
    paths.all.push_back({source.name, position, {}, false, conditions});
  }
  // A map that is stored for one reader is still read through by others.
  if (!isEnd || source.lazy) {
    expand(source, position, conditions, paths);
  }
}

/// Splits a relation with a constant number of rows into that many maps. Records any other relation
/// as a path only if it leads from the value itself to a value in `ends`; other paths remain
/// incomplete.
void PathFinder::followRelation(const ReadGraph::GraphRead &read, AffineExpr position,
                                const Conditions &conditions, Paths &paths) {
  const MaskBounds &bounds = read.bounds;
  bool single = bounds.exact && bounds.lower.size() == 1 && bounds.upper.size() == 1 &&
                bounds.conditions.empty();
  AffineExpr count =
      single ? simplifyAffineExpr(bounds.upper[0] - bounds.lower[0], 1, 1) : AffineExpr();
  if (auto constant = dyn_cast_or_null<AffineConstantExpr>(count)) {
    for (int64_t i = 0; i <= constant.getValue() && paths.all.size() < mostPaths; ++i) {
      follow(read, bounds.lower[0].replaceDims({position}) + i, conditions, paths);
    }
    return;
  }
  const ReadGraph::GraphValue &source = graph.getValues()[read.source];
  if (isa<AffineDimExpr>(position) && conditions.empty() && ends.contains(source.name)) {
    paths.all.push_back({source.name, {}, read.relation});
  } else {
    paths.isComplete = false;
  }
}

void PathFinder::expand(const ReadGraph::GraphValue &value, AffineExpr position,
                        const Conditions &outer, Paths &paths) {
  for (const ReadGraph::GraphRead &read : value.reads) {
    if (read.source == ReadGraph::length) {
      continue; // the path reads no row; the walk at single lengths reports it
    }
    StringRef source = graph.getValues()[read.source].name;
    Conditions conditions = addConditions(read, position, outer);
    // Rows that are selected by numbers are checked at single lengths; here any row counts as read.
    bool isWhole = read.kind == RowRead::Kind::Whole || !read.terms.empty();
    if (isWhole && ends.contains(source)) {
      paths.all.push_back({source.str(), {}, {}, true, conditions});
    } else if (isWhole || paths.all.size() >= mostPaths) {
      paths.isComplete = false;
    } else if (read.kind == RowRead::Kind::Relation) {
      followRelation(read, position, conditions, paths);
    } else {
      for (int64_t i = 0; i < read.group; ++i) {
        AffineExpr member = getAffineConstantExpr(i, position.getContext());
        follow(read, read.map.getResult(0).replaceDims({position, member}), conditions, paths);
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Deciding
//===----------------------------------------------------------------------===//

IntegerPoint findPoint(ArrayRef<AffineExpr> constraints, ArrayRef<bool> equalities) {
  return findIntegerPoint(IntegerSet::get(2, 1, constraints, equalities));
}

bool isEmpty(ArrayRef<AffineExpr> constraints, ArrayRef<bool> equalities) {
  return findPoint(constraints, equalities).kind == IntegerPoint::None;
}

/// Returns true if two maps agree at every p >= 0. Maps that count from the end must have the same
/// form.
bool agree(AffineExpr x, AffineExpr y) {
  if (x == y) {
    return true;
  }
  if (x.isFunctionOfSymbol(0) || y.isFunctionOfSymbol(0)) {
    return false;
  }
  MLIRContext *context = x.getContext();
  AffineExpr p = getAffineDimExpr(0, context), q = getAffineDimExpr(1, context);
  return isEmpty({p, q, x - y - 1}, {false, true, false}) &&
         isEmpty({p, q, y - x - 1}, {false, true, false});
}

/// Finds a pair in `x` that is not in `y`, with q within [0, n) and, if both are on one scale, p
/// too.
IntegerPoint findOutside(IntegerSet x, IntegerSet y, bool isOneScale) {
  MLIRContext *context = x.getContext();
  AffineExpr p = getAffineDimExpr(0, context), q = getAffineDimExpr(1, context),
             n = getAffineSymbolExpr(0, context);
  SmallVector<AffineExpr> inside(x.getConstraints());
  SmallVector<bool> equalities(x.getEqFlags());
  inside.append({p, q, isOneScale ? n - 1 - p : p, n - 1 - q});
  equalities.append(4, false);
  for (auto [constraint, equality] : llvm::zip_equal(y.getConstraints(), y.getEqFlags())) {
    SmallVector<AffineExpr> negations{-constraint - 1};
    if (equality) {
      negations.push_back(constraint - 1);
    }
    for (AffineExpr negation : negations) {
      SmallVector<AffineExpr> outside(inside);
      SmallVector<bool> flags(equalities);
      outside.push_back(negation);
      flags.push_back(false);
      IntegerPoint point = findPoint(outside, flags);
      if (point.kind != IntegerPoint::None) {
        return point;
      }
    }
  }
  return {IntegerPoint::None, {}};
}

/// Returns true if some path reads row q of `source` at row p, with n rows.
bool reads(const Paths &paths, StringRef source, int64_t p, int64_t q, int64_t n) {
  return llvm::any_of(paths.all, [&](const Path &path) {
    if (path.source != source || !holdsAt(path.conditions, p, n)) {
      return false;
    }
    return path.isWhole ||
           (path.isRelation() ? reference::contains(path.relation, p, q, n)
                              : reference::evaluateAffine(path.position, p, 0, n) == q);
  });
}

/// Checks one path of a value against all paths that the value had before.
class PathCheck {
public:
  PathCheck(const ReadGraph &after, const ReadGraph::GraphValue &value, const Paths &before)
      : after(after), value(value), before(before) {}

  enum class LengthAnswer { Contained, Added, Undecided };
  LengthAnswer decide(const Path &path) {
    bool hasWhole = llvm::any_of(before.all, [&](const Path &other) {
      return other.isWhole && other.source == path.source && isWithin(path, other);
    });
    if (hasWhole || path.isWhole) {
      return hasWhole ? LengthAnswer::Contained : LengthAnswer::Undecided;
    }
    return path.isRelation() ? decideRelation(path) : decideMap(path);
  }
  int64_t row = 0, read = 0, length = 0; ///< the added read

private:
  /// Returns true if every condition of `other` is a condition of `path`.
  static bool isWithin(const Path &path, const Path &other) {
    return llvm::all_of(other.conditions, [&](const std::pair<AffineExpr, bool> &condition) {
      return llvm::is_contained(path.conditions, condition);
    });
  }
  LengthAnswer decideMap(const Path &path);
  LengthAnswer decideRelation(const Path &path);
  LengthAnswer found(const Path &path, int64_t p, int64_t q, int64_t n);

  const ReadGraph &after;
  const ReadGraph::GraphValue &value;
  const Paths &before;
};

PathCheck::LengthAnswer PathCheck::found(const Path &path, int64_t p, int64_t q, int64_t n) {
  int64_t factor = std::max<int64_t>(1, after.getValues()[*after.find(path.source)].factor);
  row = p;
  read = q;
  length =
      std::max({p * std::max<int64_t>(1, value.factor) + 1, q * factor + 1, (n - 1) * factor + 1});
  return LengthAnswer::Added;
}

PathCheck::LengthAnswer PathCheck::decideMap(const Path &path) {
  for (const Path &other : before.all) {
    if (other.isMap() && other.source == path.source && isWithin(path, other) &&
        agree(path.position, other.position)) {
      return LengthAnswer::Contained;
    }
  }
  if (path.position.isFunctionOfSymbol(0) || !before.isComplete) {
    return LengthAnswer::Undecided;
  }
  int64_t rows = value.factor == 0 ? 1 : mostPositions;
  for (int64_t p = 0; p < rows; ++p) {
    int64_t q = reference::evaluateAffine(path.position, p, 0, 0);
    if (q >= 0 && holdsAt(path.conditions, p, 0) &&
        !reads(before, path.source, p, q, std::max(p, q) + 1)) {
      return found(path, p, q, q + 1);
    }
  }
  return LengthAnswer::Undecided;
}

PathCheck::LengthAnswer PathCheck::decideRelation(const Path &path) {
  IntegerPoint outside;
  bool compared = false;
  for (const Path &other : before.all) {
    if (other.isRelation() && other.source == path.source) {
      const ReadGraph::GraphValue &source = after.getValues()[*after.find(path.source)];
      bool isOneScale = source.factor == value.factor && source.axis == value.axis;
      IntegerPoint point = other.relation == path.relation
                               ? IntegerPoint{IntegerPoint::None, {}}
                               : findOutside(path.relation, other.relation, isOneScale);
      if (point.kind == IntegerPoint::None) {
        return LengthAnswer::Contained;
      }
      outside = compared ? outside : point;
      compared = true;
    }
  }
  if (outside.kind != IntegerPoint::Found || !before.isComplete ||
      reads(before, path.source, outside.at[0], outside.at[1], outside.at[2])) {
    return LengthAnswer::Undecided;
  }
  return found(path, outside.at[0], outside.at[1], outside.at[2]);
}

/// Returns the names that both graphs define.
llvm::StringSet<> sharedNames(const ReadGraph &before, const ReadGraph &after) {
  llvm::StringSet<> shared;
  for (const ReadGraph::GraphValue &value : after.getValues()) {
    if (!value.name.empty() && before.find(value.name)) {
      shared.insert(value.name);
    }
  }
  return shared;
}

} // namespace

std::optional<AddedRead> sluice::findAddedAtAnyLength(const ReadGraph &before,
                                                      const ReadGraph &after, int64_t *undecided) {
  llvm::StringSet<> shared = sharedNames(before, after);
  const std::vector<ReadGraph::GraphValue> &values = after.getValues();
  for (size_t index = 0; index < values.size(); ++index) {
    const ReadGraph::GraphValue &value = values[index];
    if (value.reads.empty() || !shared.contains(value.name)) {
      continue;
    }
    MLIRContext *context = value.place.getContext();
    // Values that one dispatch computes together are not read from memory, so the earlier graph is
    // read through them, too.
    llvm::StringSet<> ends = shared;
    for (const ReadGraph::GraphValue &sibling : values) {
      if (sibling.maker == value.maker) {
        ends.erase(sibling.name);
      }
    }
    Paths old = PathFinder(before, ends).from(*before.find(value.name), context);
    Paths now = PathFinder(after, shared).from(index, context);
    PathCheck check(after, value, old);
    if (!now.isComplete && undecided) {
      ++*undecided;
    }
    for (const Path &path : now.all) {
      PathCheck::LengthAnswer answer = check.decide(path);
      if (answer == PathCheck::LengthAnswer::Undecided && undecided) {
        ++*undecided;
      }
      if (answer == PathCheck::LengthAnswer::Added) {
        const ReadGraph::GraphValue &source = values[*after.find(path.source)];
        return AddedRead{AddedRead::Kind::Row, "",           value.op,  source.op, value.place,
                         source.place,         check.length, check.row, check.read};
      }
    }
  }
  return std::nullopt;
}
