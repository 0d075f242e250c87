// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides if a question about ends of segments has no solution. A finite partial function extends
// to an end of segments exactly if its points and its pairs satisfy the conditions. So the question
// is decided for every sign and every order of the arguments; each case is a conjunction of linear
// rows, which Fourier-Motzkin elimination with rounding refutes.
#include "Graph.h"
#include "Certify.h"

#include <algorithm>
#include <numeric>
#include <utility>

using namespace certify;

namespace {

/// Limits beyond which a question is rejected, after seconds.
constexpr size_t mostRows = 2000;
constexpr int mostCases = 20000;

/// Divides out common divisors; rounds the constant down.
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

/// The tightest row for each vector of coefficients.
using SolutionRows = std::map<std::map<size_t, int64_t>, int64_t>;

/// Adds a row. Returns false if the row implies -1 >= 0.
bool add(SolutionRows &rows, Form row) {
  tighten(row);
  if (row.numbers.empty()) {
    return row.constant >= 0;
  }
  auto [entry, isNew] = rows.try_emplace(row.numbers, row.constant);
  entry->second = std::min(entry->second, row.constant);
  return true;
}

/// Returns the variable whose elimination creates the fewest rows.
size_t choose(const SolutionRows &rows) {
  std::map<size_t, std::pair<int64_t, int64_t>> signs;
  for (const auto &[numbers, constant] : rows) {
    for (auto [variable, number] : numbers) {
      ++(number > 0 ? signs[variable].first : signs[variable].second);
    }
  }
  auto countRows = [](const auto &sign) { return sign.second.first * sign.second.second; };
  return std::ranges::min_element(signs, {}, countRows)->first;
}

/// Returns true if sums of rows contradict one another. May miss a contradiction.
bool contradict(const std::vector<Form> &given) {
  SolutionRows rows;
  if (!std::ranges::all_of(given, [&](const Form &row) { return add(rows, row); })) {
    return true;
  }
  while (!rows.empty() && rows.size() < mostRows) {
    size_t variable = choose(rows);
    std::vector<std::pair<Form, int64_t>> above, below;
    std::erase_if(rows, [&](const auto &row) {
      auto found = row.first.find(variable);
      bool isThere = found != row.first.end();
      if (isThere) {
        (found->second > 0 ? above : below).push_back({{row.first, row.second}, found->second});
      }
      return isThere;
    });
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

Form Question::find(std::vector<FunctionValue> &known, int64_t function, const Form &argument) {
  auto found = std::ranges::find_if(known, [&](const FunctionValue &term) {
    return term.function == function && term.argument == argument;
  });
  return found != known.end() ? found->value
                              : known.emplace_back(function, argument, fresh()).value;
}

Form Question::end(int64_t ends, const Form &argument) {
  Form value = find(terms, ends, argument);
  require(value.plus(argument, -1)); // everywhere
  return value;
}

Form Question::of(const Expression &expression, const Form &at) {
  if (expression.parts.empty()) {
    return expression.kind == Expression::Variable ? at : Form::number(expression.number);
  }
  Form inner = of(expression.parts[0], at);
  if (expression.kind == Expression::Sum) {
    return inner.plus(of(expression.parts[1], at));
  }
  if (expression.kind == Expression::Multiple) {
    return Form().plus(inner, expression.number);
  }
  if (expression.kind == Expression::End) {
    return end(expression.number, inner);
  }
  if (expression.kind == Expression::Count) { // e(count - 1) <= at < e(count)
    Form count = fresh(), one = Form::number(1);
    require(inner.plus(end(expression.number, count.plus(one, -1)), -1));
    require(end(expression.number, count).plus(inner, -1).plus(one, -1));
    return count;
  }
  Form quotient = find(quotients, expression.number, inner);
  Form remainder = inner.plus(quotient, -expression.number);
  require(remainder);
  require(Form::number(expression.number - 1).plus(remainder, -1));
  return quotient;
}

/// Terms before number `settled` have a known sign and order.
bool Question::isEmpty(size_t settled, int &cases) const {
  if (contradict(rows)) {
    return true;
  }
  if (settled == terms.size() || ++cases > mostCases) {
    return false;
  }
  const FunctionValue &term = terms[settled];
  // Splits on the term's sign, then on its order to each earlier term of the same ends.
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
    const FunctionValue &other = terms[i];
    if (other.function != term.function) {
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

bool certify::isNeverAbove(const Bound &left, const Bound &right, bool everywhere) {
  Question question;
  Form p = question.fresh();
  if (!everywhere) {
    question.require(p);
  }
  return question.isNeverAbove(left, p, right, p);
}

/// Relates row p and the rows q that it reads; in a step, only the last of the counted segments.
static void relate(Question &question, const RowRelation &relation, const Form &p, const Form &q,
                   bool isLast = false) {
  if (relation.every > 0) { // p - start - every i is 0, or from 1 to every - 1
    Form i = question.fresh();
    Form rest = p.plus(Form::number(-relation.start)).plus(i, -relation.every);
    question.require(rest.plus(Form::number(relation.isOff ? -1 : 0)));
    question.require(Form::number(relation.isOff ? relation.every - 1 : 0).plus(rest, -1));
  }
  if (relation.kind == RowRelation::At || isLast) {
    return question.requireEqual(q, question.of(*relation.last, p));
  }
  if (relation.first) {
    question.require(q.plus(question.of(*relation.first, p), -1));
  }
  if (relation.last) {
    question.require(question.of(*relation.last, p).plus(q, -1));
  }
  if (relation.kind == RowRelation::Keys) {
    question.require(q.plus(Form::number(-relation.from)));
  }
}

EndsRead::EndsRead(const ModelGraph &graph, size_t value, size_t operand, bool inStep)
    : source(graph.values[value].operands[operand]) {
  const ModelValue &result = graph.values[value];
  if (!result.op->isLazy()) {
    question.require(p);
  }
  relate(question, result.reads[operand], p, q, inStep && result.op->readsOwnRow());
  for (; inStep && graph.values[source].op->isLazy(); source = graph.values[source].operands[0]) {
    Form reader = std::exchange(q, question.fresh());
    relate(question, graph.values[source].reads[0], reader, q);
  }
  if (!graph.values[source].op->isLazy()) {
    question.require(q);
  }
}
