// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks the theorem by enumeration: nothing is bounded, composed or eliminated. For every position
// at a length, it computes the latest token on any path to it, and a digest of everything that it
// reads, including nulls. Rows with equal digests at two lengths are the same computation.
#include "Bound.h"
#include "Certify.h"
#include "Graph.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace certify;

namespace {

constexpr double mostReads = 4e9; ///< over all lengths, at most; some seconds
constexpr int64_t mostTokens = int64_t{1} << 31;

struct Reading {
  int64_t latest = -1; ///< token
  uint64_t digest = 0; ///< of null
};

/// SplitMix64's finalizer (Steele, Lea, Flood 2014) over a running sum.
uint64_t mix(uint64_t digest, uint64_t next) {
  uint64_t x = digest + 0x9e3779b97f4a7c15 + next;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// All positions of all values at one length.
class Walk {
public:
  Walk(const ModelGraph &graph, int64_t length) : graph(graph), length(length) {
    stored.resize(graph.values.size());
    for (size_t i = 0; i < graph.values.size(); ++i) {
      for (int64_t p = 0; !graph.values[i].op->isLazy() && p < computeLength(i); ++p) {
        stored[i].push_back(compute(i, p));
      }
    }
  }

  /// Given values have their own length, independent of the tokens' length.
  int64_t computeLength(size_t value) const {
    constexpr int64_t givenLength = 3;
    const ModelValue &of = graph.values[value];
    return ((of.isGiven ? givenLength : length) + of.factor - 1) / of.factor;
  }

  /// Returns null if nothing is stored; lazy values are read through.
  Reading at(size_t value, int64_t p) const {
    if (graph.values[value].op->isLazy()) {
      return compute(value, p);
    }
    bool there = p >= 0 && p < computeLength(value);
    return there ? stored[value][static_cast<size_t>(p)] : Reading();
  }

private:
  Reading compute(size_t index, int64_t p) const {
    const ModelValue &value = graph.values[index];
    Reading result = {-1, mix(index, 1)};
    if (value.operands.empty()) { // tokens; positions, which are constants
      return {value.op->trait == Op::Tokens && !value.isGiven ? p : -1,
              mix(result.digest, static_cast<uint64_t>(p))};
    }
    for (size_t i = 0; i < value.operands.size(); ++i) {
      const RowRelation &relation = value.reads[i];
      int64_t n = computeLength(value.operands[i]);
      relation.each(p, n, [&](int64_t q) {
        if (relation.kind != RowRelation::Keys || q < n) {
          Reading read = at(value.operands[i], q);
          result.latest = std::max(result.latest, read.latest);
          result.digest = mix(result.digest, read.digest + i);
        }
      });
    }
    return result;
  }

  const ModelGraph &graph;
  int64_t length;
  std::vector<std::vector<Reading>> stored;
};

/// Counts the rows that some row reads, and the rows between them and itself.
int64_t computeReach(const RowRelation &relation) {
  int64_t behind = relation.last ? std::max<int64_t>(0, -relation.last->at(0)) : 0, rows = 0;
  if (relation.kind != RowRelation::At && relation.first) {
    for (int64_t p = 0, period = computePeriod(*relation.first); p < period; ++p) {
      rows = std::max(rows, relation.last->at(p) - relation.first->at(p) + 1);
    }
  }
  bool isGroup =
      relation.kind == RowRelation::Rows && rows == relation.last->at(1) - relation.last->at(0);
  return behind + (isGroup ? 0 : rows) + relation.from;
}

/// Returns twice the product of the factors plus the largest shift or window, in tokens.
int64_t getLongest(const ModelGraph &graph) {
  __int128 product = 1, reach = 0;
  for (const ModelValue &value : graph.values) {
    for (size_t i = 0; i < value.operands.size(); ++i) {
      int64_t factor = graph.values[value.operands[i]].factor;
      bool coarser = value.getPattern(i) == Pattern::Group;
      product = std::min<__int128>(product * (coarser ? value.factor / factor : 1), mostTokens);
      reach = std::max(reach, __int128(computeReach(value.reads[i])) * factor);
    }
  }
  return static_cast<int64_t>(std::min<__int128>(2 * product + reach + 1, mostTokens));
}

} // namespace

int64_t certify::enumerate(const ModelGraph &graph, const std::vector<Bound> &bounds) {
  if (graph.hasSegments()) {
    throw BadInput("expected scales of constant factors for --enumerate, found segments that "
                   "depend on data; leave it out");
  }
  int64_t longest = getLongest(graph);
  if (double(graph.values.size()) * std::pow(double(longest), 3) > mostReads) {
    throw BadInput("expected factors and shifts small enough to enumerate all paths, found that "
                   "lengths up to " +
                   std::to_string(longest) + " are needed; leave out --enumerate");
  }
  std::vector<std::vector<uint64_t>> rows(graph.losses.size()); ///< digests of t at length t + 1
  for (int64_t length = 1; length <= longest; ++length) {
    Walk walk(graph, length);
    auto at = [&](int64_t p) {
      return " " + std::to_string(p) + " at length " + std::to_string(length);
    };
    for (size_t i = 0; i < bounds.size(); ++i) {
      for (int64_t p = 0; p < walk.computeLength(i); ++p) {
        if (walk.at(i, p).latest > bounds[i].at(p)) {
          throw Refusal("enumeration: " + graph.values[i].name + " reads token " +
                        std::to_string(walk.at(i, p).latest) + " into position" + at(p) +
                        ", beyond its bound " + std::to_string(bounds[i].at(p)));
        }
      }
    }
    for (size_t i = 0; i < graph.losses.size(); ++i) {
      const Loss &loss = graph.losses[i];
      rows[i].push_back(walk.at(loss.row, length - 1).digest);
      for (int64_t t = 0; t < length; ++t) {
        Reading row = walk.at(loss.row, t);
        if (row.latest > t) {
          throw Refusal("enumeration: row" + at(t) + " of " + loss.name +
                        " reads its target, token " + std::to_string(row.latest));
        }
        if (row.digest != rows[i][static_cast<size_t>(t)]) {
          throw Refusal("enumeration: row" + at(t) + " of " + loss.name +
                        " is another one than at length " + std::to_string(t + 1));
        }
      }
    }
  }
  return longest;
}
