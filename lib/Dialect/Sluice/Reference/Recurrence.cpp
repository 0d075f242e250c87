// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluates recurrences row by row, as Recurrence.td defines them.
#include "sluice/Dialect/Sluice/Recurrence.h"
#include "Reference.h"
#include "ScalarProgram.h"
#include "sluice/Dialect/Sluice/Step.h"
#include <map>

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

namespace {
template <typename T> using ResultRows = std::vector<std::vector<T>>; ///< a row of each result

/// Computes the results of a recurrence row by row.
template <typename T> class RowOrder {
public:
  RowOrder(ValueRange results, bool isReversed, Evaluator<T> &evaluator)
      : results(results), isReversed(isReversed), evaluator(evaluator) {}

  /// Calls `compute(row, position, previous)` for each row in its order, where `previous` is the
  /// previous position; defines the results.
  void run(function_ref<ResultRows<T>(int64_t, int64_t, int64_t)> compute) {
    std::vector<std::pair<int64_t, int64_t>> places;
    evaluator.forEachPosition(results.front(),
                              [&](int64_t b, int64_t p) { places.emplace_back(b, p); });
    auto visit = [&](auto place) {
      auto [b, p] = place;
      found[place] = compute(b, p, isReversed ? p + 1 : p - 1);
    };
    if (isReversed) {
      llvm::for_each(llvm::reverse(places), visit);
    } else {
      llvm::for_each(places, visit);
    }
    for (auto [i, result] : llvm::enumerate(results)) {
      evaluator.define(result, [&](int64_t b, int64_t p) { return found.at({b, p})[i]; });
    }
  }

  /// Returns true for a row of text b; of an input, the rows from its count on are none.
  bool exists(int64_t b, int64_t p) const {
    return p >= 0 && p < evaluator.getCount(results.front(), b);
  }
  /// Returns a row that was computed before; zeros if there is none. An earlier step has stored its
  /// rows in the state of the result.
  std::vector<T> at(size_t result, int64_t b, int64_t p) const {
    if (isReversed && !exists(b, p)) {
      return std::vector<T>(reference::getColumns(results[result]));
    }
    if (auto row = found.find({b, p}); row != found.end()) {
      return row->second[result];
    }
    Value value = results[result];
    for (Operation *user : value.getUsers()) {
      if (auto keep = dyn_cast<KeepOp>(user); keep && p >= 0) {
        return evaluator.rowAt(keep.getResult(), b, p);
      }
    }
    return std::vector<T>(reference::getColumns(value));
  }

private:
  ValueRange results;
  bool isReversed;
  Evaluator<T> &evaluator;
  std::map<std::pair<int64_t, int64_t>, ResultRows<T>> found;
};
} // namespace

/// Returns true if the states before row p are zeros though there is a row.
template <typename T, typename Op>
static bool isReset(Op op, const Evaluator<T> &evaluator, int64_t b, int64_t p) {
  auto every = static_cast<int64_t>(op.getResetEvery());
  return (op.getReset() && evaluator.at(op.getReset(), b, p, 0) > T(0.5)) ||
         (every > 0 && llvm::mod(p - static_cast<int64_t>(op.getResetAt()), every) == 0);
}

/// Returns the rows of several sequences, side by side.
template <typename T>
static std::vector<T> joinRows(ValueRange sequences, const Evaluator<T> &evaluator, int64_t b,
                               int64_t p) {
  std::vector<T> joined;
  for (Value sequence : sequences) {
    llvm::append_range(joined, evaluator.rowAt(sequence, b, p));
  }
  return joined;
}

template <typename T> static void evaluate(RecurrenceOp op, Evaluator<T> &evaluator) {
  int64_t columns = op.getColumns(), sums = op.countSums();
  size_t states = op.countStates();
  ScalarProgram<T> cell(op.getCell());
  RowOrder<T> order(op.getResults(), op.getReversed(), evaluator);
  order.run([&](int64_t b, int64_t p, int64_t previous) {
    ResultRows<T> before(states, std::vector<T>(columns)), rows(op.getNumResults());
    for (size_t i = 0; i < states && !isReset(op, evaluator, b, p); ++i) {
      before[i] = order.at(i, b, previous);
    }
    std::vector<T> sum = joinRows(op.getInputs(), evaluator, b, p);
    if (op.getWeight()) {
      const std::vector<T> &weight = evaluator.getTensor(op.getWeight());
      int64_t weighted = op.countWeightedSums() * columns;
      for (int64_t n = 0; n < weighted; ++n) {
        for (int64_t k = 0; k < columns; ++k) {
          sum[n] += weight[n * columns + k] * before[0][k];
        }
      }
      rows.back().assign(sum.begin(), sum.begin() + weighted);
    }
    for (int64_t c = 0; c < columns; ++c) {
      SmallVector<Scalar<T>> arguments;
      for (int64_t g = 0; g < sums; ++g) {
        arguments.push_back({.real = sum[g * columns + c]});
      }
      for (const std::vector<T> &state : before) {
        arguments.push_back({.real = state[c]});
      }
      auto next = cell.run(arguments, ScalarPlace{});
      for (size_t i = 0; i < states; ++i) {
        rows[i].push_back(next[i].real);
      }
    }
    return rows;
  });
}

template <typename T> static void evaluate(RecurrenceBackwardOp op, Evaluator<T> &evaluator) {
  int64_t columns = op.getColumns();
  size_t states = op.getStates().size();
  ScalarProgram<T> derivative(op.getDerivative());
  // The gradients run against the rows: the previous row of a gradient comes after its row.
  RowOrder<T> order(op.getResults(), !op.getReversed(), evaluator);
  order.run([&](int64_t b, int64_t p, int64_t previous) {
    bool isCut = !order.exists(b, previous) || isReset(op, evaluator, b, previous);
    ResultRows<T> totals(states, std::vector<T>(columns)), rows(op.getNumResults());
    for (size_t i = 0; i < states && !isCut; ++i) {
      totals[i] = order.at(op.getSums().size() + i, b, previous);
    }
    if (op.getWeight() && !isCut) {
      const std::vector<T> &weight = evaluator.getTensor(op.getWeight());
      std::vector<T> later = order.at(0, b, previous);
      for (size_t n = 0; n < later.size(); ++n) {
        for (int64_t k = 0; k < columns; ++k) {
          totals[0][k] += weight[n * columns + k] * later[n];
        }
      }
    }
    for (auto [gradient, of] : llvm::zip_equal(op.getGradients(), op.getGradientStates())) {
      for (int64_t c = 0; c < columns; ++c) {
        totals[of][c] += evaluator.at(gradient, b, p, c);
      }
    }
    std::vector<T> sum = joinRows(op.getSums(), evaluator, b, p);
    int64_t sums = static_cast<int64_t>(sum.size()) / columns, before = 2 * p - previous;
    bool isFirst = !order.exists(b, before) || isReset(op, evaluator, b, p);
    std::vector<T> gradients(sum.size());
    for (int64_t c = 0; c < columns; ++c) {
      SmallVector<Scalar<T>> arguments;
      for (int64_t g = 0; g < sums; ++g) {
        arguments.push_back({.real = sum[g * columns + c]});
      }
      for (Value state : op.getStates()) {
        arguments.push_back({.real = isFirst ? T(0) : evaluator.at(state, b, before, c)});
      }
      for (const std::vector<T> &total : totals) {
        arguments.push_back({.real = total[c]});
      }
      auto found = derivative.run(arguments, ScalarPlace{});
      for (int64_t g = 0; g < sums; ++g) {
        gradients[g * columns + c] = found[g].real;
      }
      for (size_t i = 0; i < states; ++i) {
        rows[op.getSums().size() + i].push_back(found[sums + i].real);
      }
    }
    auto next = gradients.begin();
    for (auto [i, part] : llvm::enumerate(op.getSums())) {
      auto end = next + reference::getColumns(part);
      rows[i].assign(next, end);
      next = end;
    }
    return rows;
  });
}

SLUICE_REFERENCE(RecurrenceOp)
SLUICE_REFERENCE(RecurrenceBackwardOp)
