// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one table of ops: which rows each may read, and what must hold of its numbers.
#include "Certify.h"
#include "Graph.h"

#include <numeric>

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
      {"attention", {Own, Keys, Keys, Own, Distances}, 3},
      {"shift", {Behind}, 1, Op::Lazy},
      {"start", {Behind}, 1}, // its own rows stand where there is none
      {"shorten", {Group}, 1},
      {"fold", {Group}, 1},
      {"upsample", {Whole}, 1, Op::Lazy},
      {"unfold", {Whole}, 1, Op::Lazy},
      {"segment_counts", {UpTo}, 1, Op::Counts},
      {"segment_ends", {BitsToEnd}, 1, Op::Ends},
      {"pool_segments", {Segment, Bits, Unread, Ends}, 4},
      {"select_segments", {EndRow, Unread, Own}, 3},
      {"spread_segments", {OfSegments, Own, Unread}, 3},
  };
  auto row = std::ranges::find(table, name, [](const Op &op) { return std::string(op.name); });
  if (row == table.end()) {
    throw Refusal("expected an op of the table, found '" + name + "'");
  }
  return *row;
}

/// "4*p + 3"
std::string certify::spellLinear(int64_t slope, int64_t constant) {
  std::string text = slope == 1 ? "p" : std::to_string(slope) + "*p";
  return text + (constant < 0   ? " - " + std::to_string(-constant)
                 : constant > 0 ? " + " + std::to_string(constant)
                                : "");
}

std::string certify::spellPattern(const Value &value, size_t operand, const Numbers &numbers) {
  int64_t n = numbers.number, window = numbers.window == 0 ? n : numbers.window;
  std::string last = std::to_string(value.operands.empty() ? 0 : value.operands.back());
  switch (value.patternOf(operand)) {
  case Pattern::Own:
    return "at p";
  case Pattern::Behind:
    return "at " + spellLinear(1, -n);
  case Pattern::Group:
    return "rows " + spellLinear(n, n - window) + " to " + spellLinear(n, n - 1);
  case Pattern::Whole:
    return "at floor(p/" + std::to_string(n) + ")";
  case Pattern::Keys:
    return numbers.keys;
  case Pattern::Distances:
    return numbers.distances;
  case Pattern::UpTo:
    return "keys to p";
  case Pattern::BitsToEnd:
    return "keys to e" + std::to_string(value.segments.value_or(0)) + "(p)";
  case Pattern::Segment:
  case Pattern::Bits:
    return "rows e" + last + "(p - 1) + 1 to e" + last + "(p)";
  case Pattern::EndRow:
    return "at e" + last + "(p)";
  case Pattern::Ends:
    return "rows p - 1 to p";
  case Pattern::OfSegments:
    return "at c" + last + "(p)" + (n > 0 ? " - " + std::to_string(n) : "");
  case Pattern::Unread:
    break;
  }
  return "at p";
}

void certify::checkOperands(const Graph &graph, size_t index) {
  const Value &value = graph.values[index];
  auto demand = [&](bool holds, const std::string &what) {
    if (!holds) {
      throw Refusal("expected " + what + " of '" + value.op->name + "', found others");
    }
  };
  size_t count = value.operands.size();
  demand(count >= value.op->least && (value.op->isMany() || count <= value.op->patterns.size()),
         "as many operands as the table says");
  demand(std::ranges::all_of(value.operands, [&](size_t operand) { return operand < index; }),
         "earlier values as operands");
  demand(value.factor >= 1, "a factor of at least 1");
  demand(!value.segments ||
             (*value.segments <= index && graph.values[*value.segments].op->endsSegments()),
         "rows of segments, which a value ends,");
  demand(!value.op->endsSegments() || value.segments == index, "rows of its own segments");
}

/// Numbers are read off the relation, and the relation is made of them again.
void certify::checkRelation(const Graph &graph, size_t index, size_t operand) {
  const Value &value = graph.values[index], &source = graph.values[value.operands[operand]];
  const Relation &relation = value.reads[operand];
  Pattern pattern = value.patternOf(operand);
  auto demand = [&](bool holds, const std::string &what) {
    if (!holds) {
      throw Refusal(std::string("expected of '") + value.op->name + "' " + what +
                    ", found another");
    }
  };
  int64_t factor = source.factor; // where the value must stand
  Numbers numbers;
  bool isOfEnds = pattern == Pattern::BitsToEnd || pattern == Pattern::Segment ||
                  pattern == Pattern::Bits || pattern == Pattern::EndRow ||
                  pattern == Pattern::OfSegments;
  demand(isOfEnds == relation.hasEnds(), "a relation with ends where segments are read");
  if (pattern == Pattern::Behind) {
    numbers.number = -relation.last.value_or(Expression()).at(0);
    demand(numbers.number >= 0, "a row at or before its own");
  } else if (pattern == Pattern::Group) {
    demand(value.factor % source.factor == 0, "a scale that is a multiple of its operand's");
    numbers.number = value.factor / source.factor;
    numbers.window = numbers.number - relation.first.value_or(Expression()).at(0);
    demand(numbers.window >= 1, "a row in each group");
    factor = value.factor;
  } else if (pattern == Pattern::Whole) {
    demand(source.factor % value.factor == 0, "a scale that divides its operand's");
    numbers.number = source.factor / value.factor;
    factor = value.factor;
  } else if (pattern == Pattern::Keys || pattern == Pattern::Distances) {
    auto rises = [](const std::optional<Expression> &e) { return !e || isNonDecreasing({{*e}}); };
    demand(relation.kind == Relation::Keys && rises(relation.first) && rises(relation.last) &&
               (relation.step == 1 || (relation.first && relation.last)),
           "keys, none of whose limits falls,");
    return;
  } else if (pattern == Pattern::OfSegments) {
    demand(source.segments == value.operands.back() && source.factor == 1, "rows of the segments");
    const Expression &last = *relation.last; // c, or c - number
    numbers.number = last.kind == Expression::Sum ? -last.parts[1].at(0) : 0;
    demand(numbers.number >= 0, "a segment at or before its own");
  } else if (isOfEnds) { // from the scale that was cut, which the ends' bits have
    demand(value.op->endsSegments() || value.segments == value.operands.back(),
           "rows of the segments");
    const Value &ends = graph.values[*value.segments];
    demand(value.factor == 1 && source.isOnScaleOf(graph.values[ends.operands[0]]),
           "rows of what was cut");
  }
  demand(isOfEnds || (value.factor == factor && value.segments == source.segments &&
                      value.isGiven == source.isGiven),
         "the scale that its relation says");
  std::string spelled = spellPattern(value, operand, numbers);
  demand(relation.isSame(parseRelation(spelled)), "'" + spelled + "'");
}

//===----------------------------------------------------------------------===//
// Relations
//===----------------------------------------------------------------------===//

Relation certify::parseRelation(const std::string &text) {
  std::string rest = text;
  /// What follows the word, taken from the end.
  auto cut = [&](const std::string &word) -> std::optional<std::string> {
    size_t at = rest.find(word);
    if (at == std::string::npos) {
      return std::nullopt;
    }
    std::string found = rest.substr(at + word.size());
    rest.resize(at);
    return found;
  };
  Relation relation;
  if (rest.starts_with("at ")) {
    relation.first = relation.last = parseSum(rest.substr(3));
    return relation;
  }
  bool isKeys = rest.starts_with("keys ");
  if (!isKeys && !rest.starts_with("rows ")) {
    throw Refusal("expected 'at', 'rows' or 'keys' and which, found '" + text + "'");
  }
  relation.kind = isKeys ? Relation::Keys : Relation::Rows;
  relation.from = parseNatural(isKeys ? cut(" from ").value_or("0") : "0");
  relation.step = parseNatural(isKeys ? cut(" step ").value_or("1") : "1");
  if (isKeys && rest == "keys all" && relation.step == 1) {
    return relation;
  }
  if (std::optional<std::string> last = cut(" to "); last && relation.step > 0) {
    relation.last = parseSum(*last);
  } else {
    throw Refusal("expected a last row, found '" + text + "'");
  }
  if (rest.size() > 4 || !isKeys) {
    relation.first = parseSum(rest.substr(std::min<size_t>(5, rest.size())));
  }
  return relation;
}

bool Relation::hasEnds() const {
  return (first && certify::hasEnds({*first})) || (last && certify::hasEnds({*last}));
}

int64_t Relation::firstRow() const {
  return last ? firstAtLeast(*last, kind == Keys ? from : 0) : 0;
}

bool Relation::hasSample() const {
  // A window may be empty for some rows; what it holds of keys repeats after a period.
  int64_t period = std::lcm(first ? periodOf(*first) : 1, last ? periodOf(*last) : 1);
  for (int64_t p = firstRow(), end = p + period; p < end; ++p) {
    if (!last || !first || first->at(p) <= last->at(p)) {
      return true;
    }
  }
  return false;
}

bool Relation::isSame(const Relation &other) const {
  auto same = [](const std::optional<Expression> &x, const std::optional<Expression> &y) {
    return x.has_value() == y.has_value() && (!x || isSameFunction(*x, *y));
  };
  return kind == other.kind && from == other.from && step == other.step &&
         same(first, other.first) && same(last, other.last);
}

std::vector<bool> Graph::findLive(const std::vector<size_t> &rows) const {
  std::vector<bool> live(values.size());
  for (size_t row : rows) {
    live[row] = true;
  }
  for (size_t i = values.size(); i-- > 0;) {
    for (size_t operand : values[i].operands) {
      live[operand] = live[operand] || live[i];
    }
  }
  return live;
}
