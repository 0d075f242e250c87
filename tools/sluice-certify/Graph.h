// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a spec computes, as far as causality goes: values, what they are made from, and which
// positions of that each of their positions reads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace certify {

/// In this order: those from Shift on have a number.
// clang-format off
enum class Kind { Tokens, Embed, Position, Map, Norm, Linear, Attention, Counts, Ends, Pool, Select, Attend, Shift, Shorten, Fold, Upsample, Unfold, Start, Spread };
// clang-format on

/// Which keys a row of attention reads, of queries on a scale of factor a and keys of b: those that
/// begin where the query does or before, b q <= a p; those that end where it does, b (q + 1) <=
/// a (p + 1); m - end < q <= m - begin, m = a p div b; in tokens, a (p + 1) - end < b (q + 1) <=
/// a (p + 1) - begin; all.
struct Mask {
  enum Kind { Causal, Complete, Window, Tokens, Block, Bidirectional } kind = Causal;
  int64_t begin = 0, end = 0; ///< of a block, q <= p in that of p: one starts at begin, of end rows
  int64_t from = 0;           ///< keys before this one are left out
  int64_t step = 1;           ///< of a window on one scale: keys p - begin - step j alone
};

struct Value {
  std::string name; ///< "stages.1.inside.0.attention.mix"
  Kind kind = Kind::Tokens;
  int64_t number = 0; ///< of a shift or a start: by; of what changes the scale: its factor
  int64_t window = 0; ///< of a group: rows that it reads, the last one its own; 0: its factor
  Mask mask;          ///< of attention
  std::vector<size_t> operands;
  int64_t factor = 1;    ///< tokens a position
  int64_t keyFactor = 1; ///< of attention: tokens a key
  std::string input;     ///< whose axis it stands on; empty: that of the tokens
  bool isSampled = true; ///< the row that is sampled is computed from it
  std::optional<size_t> segments =
      {}; ///< its rows are segments: the value that says where they end

  /// Not stored: positions outside its scale are read through to its operand.
  bool isLazy() const {
    return kind == Kind::Shift || kind == Kind::Upsample || kind == Kind::Unfold;
  }
  /// On an input's axis, all known before the first token.
  bool isGiven() const { return !input.empty(); }
  /// "attention window 0 4"
  std::string spell() const;
};

/// Positions q of an operand that position p reads, where last(p) = (queryFactor p + offset) div
/// keyFactor, and so first(p) with `earliest`. Attention reads from <= q < n only, n the operand's
/// length; elsewhere what lies outside is read as zeros.
struct Relation {
  enum Kind {
    One,     ///< q = last(p), which is first(p)
    Group,   ///< first(p) <= q <= last(p)
    Earlier, ///< of attention, like all from here on: q <= last(p)
    Window,  ///< first(p) <= q <= last(p)
    All
  } kind = One;
  int64_t queryFactor = 1, keyFactor = 1, offset = 0, earliest = 0;
  int64_t from = 0, step = 1; ///< of attention: keys last(p) - step j alone

  bool isOfAttention() const { return kind >= Earlier; }
  /// Without the limits of attention. All has none.
  std::optional<int64_t> firstOf(int64_t p) const;
  std::optional<int64_t> lastOf(int64_t p) const;
  bool contains(int64_t p, int64_t q) const;
  /// Calls `read` with each q that p reads, of All those of an operand of n rows.
  template <typename Read> void each(int64_t p, int64_t n, Read read) const {
    int64_t first = firstOf(p).value_or(from), last = lastOf(p).value_or(n - 1);
    for (int64_t q = isOfAttention() ? std::max(first, from) : first; q <= last; ++q) {
      if (step == 1 || (last - q) % step == 0) {
        read(q);
      }
    }
  }
  /// The first p >= 0 that reads a q >= from.
  int64_t firstRow() const;
  /// Some p, q >= 0 in it; none where it is empty.
  std::optional<std::pair<int64_t, int64_t>> findSample() const;
};

/// One word for each set of keys: of one scale `complete` is `causal`, and a window in tokens,
/// which is counted in those common to both scales from here on, is one in keys where it can be.
void settleMask(Value &attention);

/// Whether an operand is none that a position reads: what counts or ends alone already say.
bool isUnread(const Value &value, size_t operand);
/// Whether data decides what is read of it: rows and bits of a segment, and rows of segments.
bool isReadThroughEnds(const Value &value, size_t operand);

/// What position p of a value reads of its operand.
Relation relationOf(const Value &value, size_t operand);

/// floor(x / y), y > 0.
int64_t floorDivide(int64_t x, int64_t y);

/// Row t of values[row] is scored against token t + 1.
struct Loss {
  std::string name; ///< "stages.3.head"
  size_t row = 0;
};

/// The values that the losses are computed from, operands first.
struct Graph {
  std::vector<Value> values;
  std::vector<Loss> losses; ///< the last one scores the row that is sampled

  const Loss &head() const { return losses.back(); }
};

struct Model {
  std::vector<std::string> inputs; ///< beside the tokens
  Graph evaluate;
  std::optional<Graph> train; ///< where dropout or smoothed labels make it another computation
  int64_t factor = 0;         ///< the one of those that an hourglass draws; 0: it draws none
};

/// Keeps what the losses are computed from, in order.
void keepLive(Graph &graph);

/// Derives the graphs of a spec, composite stages expanded (docs/spec.md). Throws BadInput where
/// the text is no spec.
std::vector<Model> deriveModels(const std::string &text);

struct Bound;

/// Whether data decides what some position reads.
bool hasSegments(const Graph &graph);

/// Walks every read at every length up to twice the product of the factors plus the largest shift
/// or window. Throws Refusal where a row reads its target, changes as the sequence grows, or needs
/// a token beyond its bound, if bounds are given; BadInput where that would take more than some
/// seconds, or has segments. Returns the longest length.
int64_t enumerate(const Graph &graph, const std::vector<Bound> &bounds);

} // namespace certify
