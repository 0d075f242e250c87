// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks the incremental step: every row that it reads was computed by then and is still stored. A
// certificate may choose schedules, rings and bursts; s_v(m), the step that computes row m of value
// v, never falls.
#include "Lines.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace certify;

namespace {

/// A read of a stored value, possibly through lazy ones: row p reads rows from first(p) to last(p).
struct StoredRead {
  size_t source = 0;
  std::vector<Expression> rows;    ///< those that read; see RowRelation::rows
  std::optional<Expression> first; ///< none: from row 0
  Expression last;
};

/// All positions in between count as read, because each lazy value advances by at most one. Keys
/// that a mask excludes at the front count as read, which is stricter.
StoredRead followRead(const ModelGraph &graph, const RowRelation &relation, size_t operand) {
  if (graph.values[operand].isGiven) { // complete, present before the first token
    return {operand, {}, {}, {}};
  }
  demand(relation.last.has_value(), "a stored value reads positions that no step could keep");
  StoredRead read{operand, relation.rows(), relation.first, *relation.last};
  for (size_t &at = read.source; graph.values[at].op->isLazy(); at = graph.values[at].operands[0]) {
    const Expression &position = *graph.values[at].reads[0].last;
    read.last = position.of(read.last);
    if (read.first) {
      read.first = position.of(*read.first);
    }
  }
  return read;
}

Bound plusOne(Bound bound) {
  for (Expression &candidate : bound.candidates) {
    candidate = {Expression::Sum, 0, {candidate, {Expression::Constant, 1, {}}}};
  }
  return bound;
}

class StepReader : LinePart {
public:
  StepReader(const ModelGraph &graph, Lines &lines, ObligationSolver &judge)
      : LinePart{graph, lines, judge} {}

  LineStep read();

private:
  void value(size_t index);
  void demandRead(const std::string &name, const Bound &reader, const StoredRead &read);
  void demandThroughEnds(const std::string &name, const Bound &reader, const EndsRead &read);
  void demandKnown(Expression known, std::optional<size_t> segments);
  int64_t number(const std::string &start, bool orAll);

  LineStep step;
};

/// Reads the natural number at the end of a line; -1 for "all".
int64_t StepReader::number(const std::string &start, bool orAll) {
  Line line(lines.rest(start));
  int64_t rows = orAll && line.accept("all") ? -1 : line.natural();
  line.finish();
  return rows;
}

/// Requires s_source(last read) <= s_reader(p), and s_reader(p) < s_source(first read + ring): the
/// row that replaces the oldest one is computed later. Rows before 0 are null and not read.
void StepReader::demandRead(const std::string &name, const Bound &reader, const StoredRead &read) {
  const LineStep::ScheduledValue &source = step.values[read.source];
  std::string about = name + " " + std::to_string(read.source);
  obligation("due " + about);
  std::vector<int64_t> from(read.rows.size());
  for (size_t i = 0; i < read.rows.size(); ++i) {
    Expression row = read.rows[i], latest = read.last.of(row);
    from[i] = firstAtLeast(latest, 0);
    judge.demand(source.schedule.of(latest.of(makeLinear(1, from[i]))),
                 reader.of(row.of(makeLinear(1, from[i]))), false, spellLinear(1, -from[i]));
  }
  obligation("kept " + about);
  if (source.ring < 0) {
    return;
  }
  demand(read.first.has_value(),
         "every earlier row is read, of which the ring keeps " + std::to_string(source.ring));
  for (size_t i = 0; i < read.rows.size(); ++i) {
    Bound last = (source.ring > 0 ? plusOne(reader) : reader).of(read.rows[i]);
    Expression first = read.first->of(read.rows[i]);
    int64_t whole = firstAtLeast(first, 0); // from here on, no row before 0 is read
    Expression later = makeLinear(1, whole);
    Expression replaces = makeLinear(1, source.ring).of(first.of(later));
    judge.demand(last.of(later), source.schedule.of(replaces), false, spellLinear(1, -whole));
    demand(whole <= from[i] || last.at(whole - 1) <= source.schedule.at(source.ring),
           "the obligation does not hold at p = " + std::to_string(whole - 1) + ", for row 0");
  }
}

/// Requires the same for all boundaries.
void StepReader::demandThroughEnds(const std::string &name, const Bound &reader,
                                   const EndsRead &read) {
  const LineStep::ScheduledValue &source = step.values[read.source];
  std::string about = name + " " + std::to_string(read.source);
  obligation("due " + about);
  demand(read.isNeverAbove(source.schedule, reader), undecided);
  obligation("kept " + about);
  demand(source.ring < 0 ||
             read.question.isNeverAbove(source.ring > 0 ? plusOne(reader) : reader, read.p,
                                        source.schedule, read.q.plus(Form::number(source.ring))),
         undecided);
}

/// Requires that a step has seen the ends of a schedule: a candidate has none, or is h(e(f(p))) of
/// its segments, where step h(m) knows bit m, and h is such a function on the scale that these
/// segments cut.
void StepReader::demandKnown(Expression known, std::optional<size_t> segments) {
  for (size_t bits = 0; segments && hasEnds({known}); segments = graph.values[bits].segments) {
    Expression *end = &known;
    while (hasEnds(end->parts) &&
           (end->parts.size() == 1 || end->parts[1].kind == Expression::Constant)) {
      end = &end->parts[0];
    }
    bits = graph.values[*segments].operands[0];
    demand(end->kind == Expression::End && end->number == static_cast<int64_t>(*segments) &&
               isNonDecreasing({{end->parts[0]}}),
           "its rows wait for ends that no step knows");
    *end = makeVariable();
    judge.demand(step.values[bits].schedule, {{known}}, false,
                 "p"); // "own" requires it to have one
  }
  demand(isNonDecreasing({{known}}), "the schedule falls, so that rows would be out of order");
}

void StepReader::value(size_t index) {
  const ModelValue &value = graph.values[index];
  std::string number = std::to_string(index);
  LineStep::ScheduledValue &mine = step.values[index];
  mine.schedule = value.isGiven ? Bound() : parseBound(lines.rest("schedule " + number + " "));
  for (const Expression &candidate : mine.schedule.candidates) {
    demandKnown(candidate, value.segments);
  }
  mine.ring = this->number("keep " + number + " ", /*orAll=*/true);
  if (value.isGiven) {
    return;
  }
  int64_t factor = value.segments ? 0 : value.factor;
  obligation("exist " + number + " " + std::to_string(factor));
  judge.demand({{makeLinear(factor, 0)}}, mine.schedule, false, "p");
  mine.burst = this->number("burst " + number + " ", /*orAll=*/false);
  ++obligations;
  judge.demand(plusOne(mine.schedule), mine.schedule.of(makeLinear(1, mine.burst)), false, "p");
  bool recurs = value.op->trait == Op::Recurs; // reads the row before the first one of the step
  demand(mine.ring < 0 || mine.ring >= mine.burst + recurs || (mine.ring == 0 && !recurs),
         "rows of one step would share a slot");
  bool counts = value.op->readsOwnRow() && !recurs;
  if (counts) { // of values that the step's own bit decides
    obligation("own " + number);
    const Bound &bits = step.values[value.operands[0]].schedule;
    judge.demand(mine.schedule, bits.of(*value.reads[0].last), false, "p");
  }
  for (size_t i = 0; i < value.operands.size(); ++i) {
    std::string reader = number + " " + std::to_string(i);
    if (value.isUnread(i) || value.getPattern(i) == Pattern::Bits) {
      continue; // counts, or ends, give it
    }
    RowRelation relation = recurs || counts ? parseRelation("at p") : value.reads[i];
    demand(relation.kind != RowRelation::Keys || !graph.values[value.operands[i]].op->isLazy(),
           "attention over positions that are not stored is not known to the step");
    if (value.segments || value.reads[i].hasEnds()) {
      demandThroughEnds(reader, mine.schedule, EndsRead(graph, index, i, /*inStep=*/true));
    } else {
      demandRead(reader, mine.schedule, followRead(graph, relation, value.operands[i]));
    }
  }
}

LineStep StepReader::read() {
  step.values.resize(graph.values.size());
  lines.expect("mode step");
  size_t count = 0;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (!graph.values[i].op->isLazy() && graph.values[i].isSampled) {
      value(i);
      ++count;
    }
  }
  // Step t samples from row t.
  const Loss &head = graph.head();
  demandRead(head.name, {{makeVariable()}}, followRead(graph, parseRelation("at p"), head.row));
  end("step", count);
  step.obligations = obligations;
  return step;
}

// Enumeration bounds, composes and eliminates nothing. For every position at a length, it computes
// the latest token on any path to it, and a digest of everything that it reads, including nulls.

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
  if (relation.kind != RowRelation::At && relation.first && relation.last) {
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

/// Runs steps token by token. Row q is in slot q mod ring, so a ring has the newest rows.
class StepWalk {
public:
  StepWalk(const ModelGraph &graph, const LineStep &step)
      : graph(graph), step(step), before(graph.values.size()), computed(before) {}

  void run(int64_t t) {
    before = computed;
    for (size_t i = 0; i < graph.values.size(); ++i) {
      const ModelValue &value = graph.values[i];
      for (; !value.op->isLazy() && !value.isGiven && value.isSampled &&
             step.values[i].schedule.at(computed[i]) <= t;
           ++computed[i]) {
        for (size_t operand = 0; operand < value.operands.size(); ++operand) {
          visit(value.op->readsOwnRow() ? parseRelation("at p") : value.reads[operand],
                value.operands[operand], computed[i], t);
        }
      }
      int64_t rows = computed[i] - before[i];
      demand(rows <= step.values[i].burst, "enumeration: step " + std::to_string(t) + " computes " +
                                               std::to_string(rows) + " rows of " + value.name);
    }
    visit(parseRelation("at p"), graph.head().row, t, t);
  }

private:
  bool isThere(size_t index, int64_t row) const {
    int64_t ring = step.values[index].ring;
    int64_t oldest = ring == 0 ? before[index] : ring < 0 ? 0 : computed[index] - ring;
    return graph.values[index].isGiven ? ring < 0 : oldest <= row && row < computed[index];
  }

  /// Visits the rows of an operand that row p reads at step t, through lazy values.
  void visit(const RowRelation &relation, size_t operand, int64_t p, int64_t t) {
    relation.each(p, t / graph.values[operand].factor + 1, [&](int64_t q) {
      if (graph.values[operand].op->isLazy()) {
        visit(graph.values[operand].reads[0], graph.values[operand].operands[0], q, t);
      } else if (q >= 0 && !isThere(operand, q)) {
        throw Refusal("enumeration: step " + std::to_string(t) + " reads row " + std::to_string(q) +
                      " of " + graph.values[operand].name + ", which is not there");
      }
    });
  }

  const ModelGraph &graph;
  const LineStep &step;
  std::vector<int64_t> before, computed; ///< rows of each value: at the step's start, and so far
};

} // namespace

void certify::walkStep(const ModelGraph &graph, const LineStep &step, int64_t length) {
  StepWalk walk(graph, step);
  for (int64_t t = 0; t < length; ++t) {
    walk.run(t);
  }
}

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

LineStep certify::readStep(const ModelGraph &graph, Lines &lines, ObligationSolver &judge) {
  return StepReader(graph, lines, judge).read();
}
