// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The neutral graph: values, the ops that compute them, and the rows of operands that each row
// reads. A certificate has one; the stages of a spec expand to one.
#pragma once

#include "Bound.h"

#include <algorithm>
#include <map>

namespace certify {

/// The rows q of an operand that row p reads.
struct RowRelation {
  enum Kind {
    At,   ///< q = last(p), which is first(p)
    Rows, ///< first(p) <= q <= last(p); rows outside the operand are null, as for At
    Keys, ///< the existing rows of first(p) <= q <= last(p)
  } kind = At;
  std::optional<Expression> first, last; ///< of Keys: none if unlimited
  int64_t from = 0, step = 1;            ///< of Keys: q >= from; last(p) - step j alone
  /// For At: only rows p = start + every i or, with `isOff`, all others; 0: all rows.
  int64_t every = 0, start = 0;
  bool isOff = false;

  bool holds(int64_t p) const {
    return every == 0 || (((p - start) % every + every) % every != 0) == isOff;
  }
  /// Functions of i >= 0 whose values together are the rows p >= 0 that read any row.
  std::vector<Expression> rows() const;
  bool hasEnds() const;
  /// Returns the first p >= 0 that reads a q >= from. Throws Refusal if there is none.
  int64_t firstRow() const;
  /// Returns true if the relation has a pair p, q >= 0.
  bool hasSample() const;
  bool isSame(const RowRelation &other) const;
  /// Calls `read` with each q that p reads of an operand of n rows.
  template <typename Read> void each(int64_t p, int64_t n, Read read) const {
    int64_t least = first ? first->at(p) : from, most = last ? last->at(p) : n - 1;
    least = kind == Keys ? std::max(least, from) : least;
    for (int64_t q = least; q <= most && holds(p); ++q) {
      if (step == 1 || (most - q) % step == 0) {
        read(q);
      }
    }
  }
};

/// The rows of an operand that an op may read. Without segments, the last row that is read rises in
/// the ratio of the two scales: by F rows of the operand in f rows of the result, factors F : f.
enum class Pattern {
  Own,        ///< the same row of the same scale
  OnRows,     ///< the value of every k-th row
  OffRows,    ///< the value of the other rows
  Moved,      ///< one row, at most as late
  Group,      ///< rows side by side
  Keys,       ///< the reads of a mask
  Distances,  ///< rows by distance, up to the maximum
  UpTo,       ///< the rows up to it
  BitsToEnd,  ///< bits up to where its segment ends
  Segment,    ///< rows of its segment
  Bits,       ///< bits of its segment, which a step takes from ends
  EndRow,     ///< the row where its segment ends
  Ends,       ///< where its segment ends, and the one before
  OfSegments, ///< row c - n of segments, where c segments end up to it
  Unread      ///< none: given by the other operands
};

/// A row of the table of ops (Ops.cpp).
struct Op {
  const char *name;
  std::vector<Pattern> patterns; ///< of its operands
  size_t least;                  ///< operands, at least
  enum Trait {
    None,
    Many,   ///< further operands are like the last one
    Lazy,   ///< not stored: reads outside its scale continue to its operand
    Tokens, ///< contains the tokens themselves
    Counts, ///< a step computes a row from the previous one and its own bit
    Ends,   ///< the same, and its rows are the ends of segments
    Recurs  ///< a step computes a row from the previous one and its own row of the operands
  } trait = None;

  bool isLazy() const { return trait == Lazy; }
  bool endsSegments() const { return trait == Ends; }
  bool readsOwnRow() const { return trait == Counts || trait == Ends || trait == Recurs; }
};

constexpr size_t mostValues = size_t{1} << 20;

struct ModelValue {
  std::string name; ///< "stages.1.inside.0.attention.mix"
  const Op *op = nullptr;
  std::vector<size_t> operands = {};
  std::vector<RowRelation> reads = {}; ///< of each operand; of an unread one, without effect
  int64_t factor = 1;                  ///< tokens a row
  bool isGiven = false;                ///< on an input's axis, all known before the first token
  std::optional<size_t> segments = {}; ///< its rows are segments: the value of their ends
  int64_t line = 0;                    ///< of the certificate
  bool isSampled = true;               ///< the sampled row is computed from it

  Pattern getPattern(size_t operand) const {
    return op->patterns[std::min(operand, op->patterns.size() - 1)];
  }
  bool isUnread(size_t operand) const { return getPattern(operand) == Pattern::Unread; }
  bool isOnScale(const ModelValue &other) const {
    return factor == other.factor && segments == other.segments && isGiven == other.isGiven;
  }
};

/// A loss: row t of values[row] is scored against token t + 1.
struct Loss {
  std::string name; ///< "stages.3.head"
  size_t row = 0;

  bool operator==(const Loss &other) const = default;
};

/// Returns the values from which the rows of losses are computed.
template <typename Value>
std::vector<bool> findLive(const std::vector<Value> &values, const std::vector<Loss> &losses) {
  std::vector<bool> live(values.size());
  for (const Loss &loss : losses) {
    live[loss.row] = true;
  }
  for (size_t i = values.size(); i-- > 0;) {
    for (size_t operand : values[i].operands) {
      live[operand] = live[operand] || live[i];
    }
  }
  return live;
}

/// The values from which the losses are computed, operands first.
struct ModelGraph {
  std::vector<ModelValue> values;
  std::vector<Loss> losses; ///< the last one scores the sampled row

  const Loss &head() const { return losses.back(); }
  void markSampled() {
    std::vector<bool> sampled = findLive(values, {head()});
    for (size_t i = 0; i < values.size(); ++i) {
      values[i].isSampled = sampled[i];
    }
  }
  bool hasSegments() const {
    return std::ranges::any_of(values, [](const ModelValue &v) { return v.segments.has_value(); });
  }
};

/// Returns the row of an op; throws Refusal for an unknown name.
const Op &findOp(const std::string &name);

/// Reads the grammar of docs/certificate.md; throws Refusal for anything else.
RowRelation parseRelation(const std::string &text);

/// Returns "4*p + 3".
std::string spellLinear(int64_t slope, int64_t constant);
/// Returns the relation of an operand whose pattern has one alone; of segments, `by` before.
std::string spellPattern(const ModelValue &value, size_t operand, int64_t by = 0);

/// Throws Refusal if a value's operands, scale or relations do not fit its op's row in the table.
void checkOperands(const ModelGraph &graph, size_t value);
void checkRelation(const ModelGraph &graph, size_t value, size_t operand);

/// Walks every read at every length up to the longest, which it returns. Throws Refusal where a row
/// reads its target, changes as the sequence grows, or needs a token beyond its bound; BadInput
/// where that would take more than some seconds, or has segments.
int64_t enumerate(const ModelGraph &graph, const std::vector<Bound> &bounds);

// Questions about scales that depend on data, and about functions of long periods: linear
// inequalities over integers and ends of segments. e(m), the end of segment m, is unknown: e(m) = m
// below 0, and e(l) - e(m) >= l - m where m < l.

/// The linear form numbers . variables + constant.
struct Form {
  std::map<size_t, int64_t> numbers; ///< none of them 0
  int64_t constant = 0;

  static Form variable(size_t index) { return {{{index, 1}}, 0}; }
  static Form number(int64_t value) { return {{}, value}; }
  /// Returns this + factor * other. Throws Refusal if a number overflows.
  Form plus(const Form &other, int64_t factor = 1) const;
  bool operator==(const Form &other) const = default;
};

/// A conjunction of integer rows, each at least 0.
class Question {
public:
  Form fresh() { return Form::variable(variables++); }
  void require(const Form &row) { rows.push_back(row); }
  void requireEqual(const Form &x, const Form &y);
  /// Returns e(argument) of the segmentation whose ends are value `ends`.
  Form end(int64_t ends, const Form &argument);
  /// Returns the expression at p = `at`.
  Form of(const Expression &expression, const Form &at);
  /// Returns true if no candidate of `left` at x is above -1 and above all of `right` at p.
  bool isNeverAbove(const Bound &left, const Form &x, const Bound &right, const Form &p) const;

private:
  /// A function's value at an argument; equal ones are one integer.
  struct FunctionValue {
    int64_t function; ///< the value of the ends, or the divisor
    Form argument, value;
  };
  Form find(std::vector<FunctionValue> &known, int64_t function, const Form &argument);
  /// Returns true if there is no solution; false if that could not be shown.
  bool isEmpty(size_t settled, int &cases) const;

  size_t variables = 0;
  std::vector<Form> rows;
  std::vector<FunctionValue> terms, quotients; ///< of ends, of floors
};

/// Row p of a value and a row q that it reads, under all boundaries; in a step, a row of the stored
/// values under lazy ones.
struct EndsRead {
  Question question;
  Form p = question.fresh(), q = question.fresh();
  size_t source = 0;

  EndsRead(const ModelGraph &graph, size_t value, size_t operand, bool inStep = false);
  bool isNeverAbove(const Bound &left, const Bound &right) const {
    return question.isNeverAbove(left, q, right, p);
  }
};
constexpr const char *undecided = "the obligation does not hold for all boundaries, or too many "
                                  "orders of where segments end would have to be tried";
/// Returns true if left(p) <= right(p) is shown for all p >= 0 or, with `everywhere`, all integers.
bool isNeverAbove(const Bound &left, const Bound &right, bool everywhere = false);

struct Model {
  ModelGraph evaluate, train;
  int64_t factor = 0; ///< the sampled factor of an hourglass; 0: none
};

/// Derives the graphs of a spec (docs/spec.md). Throws BadInput if the text is not a valid one.
std::vector<Model> deriveModels(const std::string &text);

} // namespace certify
