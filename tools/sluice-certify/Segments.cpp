// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether such a question has no solution. A finite partial function extends to an end of segments
// exactly if its points and its pairs satisfy the conditions. So it is asked of every sign and
// every order of the arguments; each case is a conjunction of linear rows, which Fourier-Motzkin
// elimination with rounding refutes.
#include "Segments.h"
#include "Certify.h"

#include <algorithm>
#include <numeric>
#include <utility>

using namespace certify;

namespace {

/// Beyond these a question is refused: seconds.
constexpr size_t mostRows = 2000;
constexpr int mostCases = 20000;

/// What all numbers share is divided out; the constant is rounded down.
void tighten(Form &row) {
  int64_t common = 0;
  for (auto [variable, number] : row.numbers) {
    common = std::gcd(common, number);
  }
  if (common > 1) {
    for (auto &[variable, number] : row.numbers) {
      number /= common;
    }
    row.constant = floorDivide(row.constant, common);
  }
}

/// Of rows with the same numbers the tightest.
using Rows = std::map<std::map<size_t, int64_t>, int64_t>;

/// False where the row says that -1 >= 0.
bool add(Rows &rows, Form row) {
  tighten(row);
  if (row.numbers.empty()) {
    return row.constant >= 0;
  }
  auto [entry, isNew] = rows.try_emplace(row.numbers, row.constant);
  entry->second = std::min(entry->second, row.constant);
  return true;
}

/// The variable that makes fewest rows.
size_t choose(const Rows &rows) {
  std::map<size_t, std::pair<int64_t, int64_t>> signs;
  for (const auto &[numbers, constant] : rows) {
    for (auto [variable, number] : numbers) {
      ++(number > 0 ? signs[variable].first : signs[variable].second);
    }
  }
  return std::min_element(signs.begin(), signs.end(),
                          [](const auto &x, const auto &y) {
                            auto cost = [](auto count) { return count.first * count.second; };
                            return cost(x.second) < cost(y.second);
                          })
      ->first;
}

/// Whether rows contradict one another by sums. May miss it.
bool contradict(const std::vector<Form> &given) {
  Rows rows;
  for (const Form &row : given) {
    if (!add(rows, row)) {
      return true;
    }
  }
  while (!rows.empty() && rows.size() < mostRows) {
    size_t variable = choose(rows);
    std::vector<std::pair<Form, int64_t>> above, below;
    for (auto entry = rows.begin(); entry != rows.end();) {
      auto found = entry->first.find(variable);
      if (found == entry->first.end()) {
        ++entry;
        continue;
      }
      int64_t number = found->second;
      (number > 0 ? above : below).push_back({{entry->first, entry->second}, number});
      entry = rows.erase(entry);
    }
    for (const auto &[x, up] : above) {
      for (const auto &[y, down] : below) {
        int64_t common = std::gcd(up, down);
        Form sum = Form().plus(x, -down / common).plus(y, up / common);
        if (!add(rows, sum)) {
          return true;
        }
      }
    }
  }
  return false;
}

} // namespace

Form Form::plus(const Form &other, int64_t factor) const {
  Form result = *this;
  result.constant = certify::plus(constant, other.constant, factor);
  for (auto [variable, number] : other.numbers) {
    int64_t &sum = result.numbers[variable];
    sum = certify::plus(sum, number, factor);
    if (sum == 0) {
      result.numbers.erase(variable);
    }
  }
  return result;
}

void Question::requireEqual(const Form &x, const Form &y) {
  require(x.plus(y, -1));
  require(y.plus(x, -1));
}

Form Question::end(size_t ends, const Form &argument) {
  for (const Term &term : terms) {
    if (term.ends == ends && term.argument == argument) {
      return term.value;
    }
  }
  Form value = fresh();
  require(value.plus(argument, -1)); // everywhere
  terms.push_back({ends, argument, value});
  return value;
}

Form Question::of(const Expression &expression, const Form &at) {
  switch (expression.kind) {
  case Expression::Constant:
    return Form::number(expression.number);
  case Expression::Variable:
    return at;
  case Expression::Sum:
    return of(expression.parts[0], at).plus(of(expression.parts[1], at));
  case Expression::Multiple:
    return Form().plus(of(expression.parts[0], at), expression.number);
  case Expression::End:
    return end(static_cast<size_t>(expression.number), of(expression.parts[0], at));
  case Expression::Floor:
    break;
  }
  Form inner = of(expression.parts[0], at), quotient = fresh();
  Form remainder = inner.plus(quotient, -expression.number);
  require(remainder);
  require(Form::number(expression.number - 1).plus(remainder, -1));
  return quotient;
}

/// Terms before number `settled` have a sign, and an order among one another.
bool Question::isEmpty(size_t settled, int &cases) const {
  if (contradict(rows)) {
    return true;
  }
  if (settled == terms.size() || ++cases > mostCases) {
    return false;
  }
  const Term &term = terms[settled];
  // Its sign, then its order to each earlier term of the same ends: before it, at it or behind it.
  std::vector<Question> open;
  for (bool isNegative : {true, false}) {
    Question next = *this;
    next.require(isNegative ? Form::number(-1).plus(term.argument, -1) : term.argument);
    if (isNegative) {
      next.require(term.argument.plus(term.value, -1));
    }
    open.push_back(std::move(next));
  }
  for (size_t i = 0; i < settled; ++i) {
    const Term &other = terms[i];
    if (other.ends != term.ends) {
      continue;
    }
    std::vector<Question> ordered;
    Form ahead = term.argument.plus(other.argument, -1), rise = term.value.plus(other.value, -1);
    for (const Question &question : open) {
      for (int order : {-1, 0, 1}) {
        Question next = question;
        if (order == 0) {
          next.requireEqual(term.argument, other.argument);
          next.requireEqual(term.value, other.value);
        } else {
          next.require(Form::number(-1).plus(ahead, order));
          next.require(Form().plus(rise, order).plus(ahead, -order));
        }
        if (!contradict(next.rows)) {
          ordered.push_back(std::move(next));
        }
      }
    }
    open = std::move(ordered);
  }
  return std::all_of(open.begin(), open.end(),
                     [&](const Question &next) { return next.isEmpty(settled + 1, cases); });
}

bool Question::isNeverAbove(const Bound &left, const Form &x, const Bound &right,
                            const Form &p) const {
  return std::all_of(left.candidates.begin(), left.candidates.end(), [&](const Expression &one) {
    Question question = *this;
    Form number = question.of(one, x);
    question.require(number);
    for (const Expression &candidate : right.candidates) {
      question.require(number.plus(question.of(candidate, p), -1).plus(Form::number(-1)));
    }
    int cases = 0;
    return question.isEmpty(0, cases);
  });
}

bool certify::hasEnds(const std::vector<Expression> &parts) {
  return std::any_of(parts.begin(), parts.end(), [](const Expression &part) {
    return part.kind == Expression::End || hasEnds(part.parts);
  });
}

bool certify::isNeverAbove(const Bound &left, const Bound &right) {
  Question question;
  Form p = question.fresh();
  question.require(p);
  return question.isNeverAbove(left, p, right, p);
}

/// The q of row p whose relation has no ends.
static void relate(Question &question, const Relation &relation, const Form &p, const Form &q) {
  Form ahead = Form().plus(p, relation.queryFactor).plus(q, -relation.keyFactor);
  if (relation.firstOf(0)) { // keyFactor (q + 1) > queryFactor p + earliest
    question.require(Form::number(relation.keyFactor - 1 - relation.earliest).plus(ahead, -1));
  }
  if (relation.kind != Relation::All) { // keyFactor q <= queryFactor p + offset
    question.require(ahead.plus(Form::number(relation.offset)));
  }
  if (relation.isOfAttention()) {
    question.require(q.plus(Form::number(-relation.from)));
  }
}

/// e(p - 1) < q <= e(p) of a segment's rows and bits, q = e(p) of its last row, q <= e(p) of the
/// bits that say where it ends, of which a step reads the last, and q = M - number of a row of
/// segments, where e(M - 1) <= p < e(M).
static void relateThroughEnds(Question &question, const Value &value, const Form &p, const Form &q,
                              bool inStep) {
  Form one = Form::number(1);
  if (value.kind == Kind::Spread) {
    size_t ends = value.operands[2];
    Form count = question.fresh();
    question.require(p.plus(question.end(ends, count.plus(one, -1)), -1));
    question.require(question.end(ends, count).plus(p, -1).plus(one, -1));
    return question.requireEqual(q, count.plus(Form::number(-value.number)));
  }
  Form last = question.end(*value.segments, p);
  question.require(last.plus(q, -1));
  if (value.kind == Kind::Select || (inStep && value.kind == Kind::Ends)) {
    question.require(q.plus(last, -1));
  } else if (value.kind == Kind::Pool || value.kind == Kind::Attend) {
    question.require(q.plus(question.end(*value.segments, p.plus(one, -1)), -1).plus(one, -1));
  }
}

EndsRead::EndsRead(const Graph &graph, size_t value, size_t operand, bool inStep)
    : source(graph.values[value].operands[operand]) {
  const Value &result = graph.values[value];
  if (!result.isLazy()) {
    question.require(p);
  }
  if (isReadThroughEnds(result, operand)) {
    relateThroughEnds(question, result, p, q, inStep);
  } else {
    relate(question, relationOf(result, operand), p, q);
  }
  for (; inStep && graph.values[source].isLazy(); source = graph.values[source].operands[0]) {
    Form reader = std::exchange(q, question.fresh());
    relate(question, relationOf(graph.values[source], 0), reader, q);
  }
  if (!graph.values[source].isLazy()) {
    question.require(q);
  }
}

void certify::demandOfEnds(bool holds) {
  if (!holds) {
    throw Refusal("the obligation does not hold for all boundaries, or too many orders of where "
                  "segments end would have to be tried");
  }
}
