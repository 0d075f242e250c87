// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of ops: the rows that each may read, and conditions on its numbers.
#include "Certify.h"
#include "Graph.h"

#include <numeric>
#include <ranges>

using namespace certify;

/// Operands of attention: queries, keys, values; then queries of positions and rows by distance.
const Op &certify::findOp(const std::string &name) {
  using enum Pattern;
  static const std::vector<Op> table = {
      {"tokens", {}, 0, Op::Tokens},
      {"position", {}, 0},
      {"embed", {Own}, 1},
      {"norm", {Own}, 1},
      {"linear", {Own}, 1},
      {"map", {Own}, 1, Op::Many},
      {"replace", {OnRows, OffRows}, 2},
      {"attention", {Own, Keys, Keys, Own, Distances}, 3},
      {"hashed_attention", {Own, Keys, Keys, Keys}, 4}, // the last are buckets
      {"graph_sum", {Keys, Own, Keys}, 2},
      {"range_attention", {Own, Keys, Keys, Own, Own}, 3},
      {"resample", {Keys}, 1},
      {"shift", {Moved}, 1, Op::Lazy},
      {"start", {Moved}, 1}, // its own rows replace missing ones
      {"shorten", {Group}, 1},
      {"fold", {Group}, 1},
      {"upsample", {Moved}, 1, Op::Lazy},
      {"unfold", {Moved}, 1, Op::Lazy},
      {"recurrence", {UpTo, UpTo, UpTo}, 1, Op::Recurs},
      {"reversed_recurrence", {Keys, Keys}, 1},
      {"segment_counts", {UpTo}, 1, Op::Counts},
      {"segment_ends", {BitsToEnd}, 1, Op::Ends},
      {"pool_segments", {Segment, Bits, Unread, Ends}, 4},
      {"select_segments", {EndRow, Unread, Own}, 3},
      {"attend_segments", {Own, Segment, Segment, Unread, Ends}, 5},
      {"spread_segments", {OfSegments, Own, Unread}, 3},
      {"own_segments", {OfSegments, Moved, Unread}, 3},
  };
  auto row = std::ranges::find(table, name, [](const Op &op) { return std::string(op.name); });
  demand(row != table.end(), "expected an op of the table, found '" + name + "'");
  return *row;
}

std::string certify::spellLinear(int64_t slope, int64_t constant) {
  std::string text = slope == 1 ? "p" : std::to_string(slope) + "*p";
  return text + (constant < 0   ? " - " + std::to_string(-constant)
                 : constant > 0 ? " + " + std::to_string(constant)
                                : "");
}

std::string certify::spellPattern(const ModelValue &value, size_t operand, int64_t by) {
  std::string ends = std::to_string(value.operands.back()),
              before = value.getPattern(1) == Pattern::Moved ? "(p - 1)" : "(p)";
  Pattern pattern = value.getPattern(operand);
  return pattern == Pattern::UpTo ? "keys to p"
         : pattern == Pattern::BitsToEnd
             ? "keys to e" + std::to_string(value.segments.value_or(0)) + "(p)"
         : pattern == Pattern::Segment || pattern == Pattern::Bits
             ? "rows e" + ends + "(p - 1) + 1 to e" + ends + "(p)"
         : pattern == Pattern::EndRow ? "at e" + ends + "(p)"
         : pattern == Pattern::Ends   ? "rows p - 1 to p"
         : pattern == Pattern::OfSegments
             ? "at c" + ends + before + (by > 0 ? " - " + std::to_string(by) : "")
             : "at p";
}

static void allow(bool holds, const ModelValue &value, const std::string &what) {
  certify::demand(holds,
                  "expected of '" + std::string(value.op->name) + "' " + what + ", found others");
}

void certify::checkOperands(const ModelGraph &graph, size_t index) {
  const ModelValue &value = graph.values[index];
  size_t count = value.operands.size();
  allow(count >= value.op->least &&
            (value.op->trait == Op::Many || count <= value.op->patterns.size()) &&
            std::ranges::all_of(value.operands, [&](size_t operand) { return operand < index; }),
        value, "earlier values as operands, as many as the table has");
  allow(value.factor >= 1 &&
            (!value.segments ||
             (*value.segments <= index && graph.values[*value.segments].op->endsSegments())),
        value, "a factor of at least 1, and of segments a value that ends them");
  allow(!value.op->endsSegments() || value.segments == index, value, "rows of its own segments");
}

void certify::checkRelation(const ModelGraph &graph, size_t index, size_t operand) {
  const ModelValue &value = graph.values[index], &source = graph.values[value.operands[operand]];
  const RowRelation &relation = value.reads[operand];
  Pattern pattern = value.getPattern(operand);
  if (pattern >= Pattern::BitsToEnd && pattern != Pattern::Ends) {
    bool isSpread = pattern == Pattern::OfSegments; // to the cut rows; the others from there
    size_t ends = value.op->endsSegments() ? index : value.operands.back();
    const ModelValue &rows = isSpread ? source : value, &cut = isSpread ? value : source;
    allow(graph.values[ends].op->endsSegments() && rows.segments == ends && rows.factor == 1 &&
              cut.isOnScale(graph.values[graph.values[ends].operands[0]]),
          value, "rows of segments and of what was cut");
    const Expression &last = relation.last ? *relation.last : Expression();
    int64_t by = isSpread && last.kind == Expression::Sum ? -last.parts[1].at(0) : 0;
    std::string spelled = spellPattern(value, operand, by);
    return allow(by >= 0 && relation.isSame(parseRelation(spelled)), value, "'" + spelled + "'");
  }
  bool isMasked = pattern == Pattern::Keys || pattern == Pattern::Distances;
  allow(!relation.hasEnds(), value, "a relation without ends");
  if (pattern == Pattern::OnRows || pattern == Pattern::OffRows) {
    const RowRelation &on = value.reads[0];
    RowRelation own = parseRelation("at p");
    own.every = on.every;
    own.start = on.start;
    own.isOff = pattern == Pattern::OffRows;
    allow(on.every >= 2 && relation.isSame(own), value,
          "its own row on every k-th row, or off these");
  } else if (pattern == Pattern::Moved || pattern == Pattern::Group || isMasked) {
    RowRelation::Kind kind = isMasked                    ? RowRelation::Keys
                             : pattern == Pattern::Moved ? RowRelation::At
                                                         : RowRelation::Rows;
    allow(relation.kind == kind && (kind != RowRelation::At || relation.last->at(-1) < 0), value,
          "rows that its row in the table allows");
  } else {
    std::string spelled = spellPattern(value, operand);
    allow(relation.isSame(parseRelation(spelled)), value, "'" + spelled + "'");
  }
  allow(isMasked || (value.segments == source.segments && value.isGiven == source.isGiven), value,
        "an operand on its own axis");
  auto never = [](const std::optional<Expression> &e) { return !e || isNonDecreasing({{*e}}); };
  allow(never(relation.first) && never(relation.last), value, "limits that never fall");
  if (relation.last) { // another axis has no tokens in common
    int64_t common = std::gcd(value.factor, source.factor);
    Expression next = relation.last->of(makeLinear(1, source.factor / common));
    Expression risen = makeLinear(1, value.factor / common).of(*relation.last);
    allow(value.isGiven == source.isGiven && isSameFunction(next, risen), value,
          "rows that rise as its scale does");
  }
}

RowRelation certify::parseRelation(const std::string &text) {
  Line line(text);
  RowRelation relation;
  if (line.accept("at ")) {
    relation.first = relation.last = line.sum();
    relation.isOff = line.accept(" off ");
    if (relation.isOff || line.accept(" on ")) {
      relation.every = line.natural();
      line.need("*i + ");
      relation.start = line.natural();
    }
  } else {
    bool isKeys = line.accept("keys");
    relation.kind = isKeys ? RowRelation::Keys : RowRelation::Rows;
    if (!isKeys || !(line.isNext(" to ") || line.isNext(" all"))) {
      line.need(isKeys ? " " : "rows ");
      relation.first = line.sum();
    }
    if (!isKeys || !line.accept(" all")) {
      line.need(" to ");
      relation.last = line.sum();
    }
  }
  if (relation.kind == RowRelation::Keys) {
    relation.step = relation.first && line.accept(" step ") ? line.natural() : 1;
    relation.from = line.accept(" from ") ? line.natural() : 0;
  }
  line.finish();
  if (relation.step < 1) {
    line.fail("a step of at least 1");
  }
  if (relation.every == 1 || (relation.every > 0 && relation.start >= relation.every)) {
    line.fail("rows k*i + s with k at least 2 and s below k");
  }
  return relation;
}

bool RowRelation::hasEnds() const {
  return (first && certify::hasEnds({*first})) || (last && certify::hasEnds({*last}));
}

std::vector<Expression> RowRelation::rows() const {
  std::vector<Expression> rows;
  int64_t period = std::max<int64_t>(every, 1);
  for (int64_t row = 0; row < period; ++row) {
    if (holds(row)) {
      rows.push_back(makeLinear(period, row));
    }
  }
  return rows;
}

int64_t RowRelation::firstRow() const {
  return last ? firstAtLeast(*last, kind == Keys ? from : 0) : 0;
}

bool RowRelation::hasSample() const {
  // A window may be empty for some rows; its part of keys repeats after a period.
  int64_t period = std::lcm(first ? computePeriod(*first) : 1, last ? computePeriod(*last) : 1);
  auto holdsRows = [&](int64_t p) { return !last || !first || first->at(p) <= last->at(p); };
  return std::ranges::any_of(std::views::iota(firstRow(), firstRow() + period), holdsRows);
}

bool RowRelation::isSame(const RowRelation &other) const {
  auto same = [](const std::optional<Expression> &x, const std::optional<Expression> &y) {
    return x.has_value() == y.has_value() && (!x || isSameFunction(*x, *y));
  };
  return kind == other.kind && from == other.from && step == other.step && every == other.every &&
         start == other.start && isOff == other.isOff && same(first, other.first) &&
         same(last, other.last);
}
