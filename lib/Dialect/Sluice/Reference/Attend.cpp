// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluates attention between a scale and its segments, as Segments.td defines it: one row, one
// head at a time.
#include "Reference.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

namespace {
/// Access to the numbers of one head: column i heads + head of a row is number i.
template <typename T> struct AttendHead {
  int64_t heads, head;

  std::vector<T> of(const std::vector<T> &row) const {
    std::vector<T> numbers;
    for (auto column = static_cast<size_t>(head); column < row.size();
         column += static_cast<size_t>(heads)) {
      numbers.push_back(row[column]);
    }
    return numbers;
  }
  /// Adds `factor` times the head's numbers of `row` to the numbers of `sum`.
  void add(std::vector<T> &sum, T factor, const std::vector<T> &row) const {
    for (auto column = static_cast<size_t>(head); column < row.size();
         column += static_cast<size_t>(heads)) {
      sum[column] += factor * row[column];
    }
  }
  T product(const std::vector<T> &x, const std::vector<T> &y) const {
    T sum = 0;
    for (auto [u, v] : llvm::zip_equal(of(x), of(y))) {
      sum += u * v;
    }
    return sum;
  }
};

/// Attention of one query over some keys: probabilities, and values that their derivatives need.
template <typename T> struct Mix {
  Mix(AttendHead<T> head, const std::vector<T> &query, const std::vector<std::vector<T>> &keys)
      : head(head), scale(1 / std::sqrt(static_cast<T>(query.size() / head.heads))) {
    T greatest = -std::numeric_limits<T>::infinity(), sum = 0;
    for (const std::vector<T> &key : keys) {
      chances.push_back(scale * head.product(query, key));
      greatest = std::max(greatest, chances.back());
    }
    for (T &chance : chances) {
      chance = std::exp(chance - greatest);
      sum += chance;
    }
    for (T &chance : chances) {
      chance /= sum;
    }
    lse = greatest + std::log(sum);
  }
  /// Returns the gradients of the scores before they are scaled, from the gradient of the mixed
  /// values.
  std::vector<T> scoreGradients(const std::vector<T> &gradient,
                                const std::vector<std::vector<T>> &values) const {
    std::vector<T> ofChances;
    T mean = 0;
    for (auto [chance, value] : llvm::zip_equal(chances, values)) {
      ofChances.push_back(head.product(gradient, value));
      mean += chance * ofChances.back();
    }
    for (auto [chance, own] : llvm::zip_equal(chances, ofChances)) {
      own = scale * chance * (own - mean);
    }
    return ofChances;
  }
  AttendHead<T> head;
  T scale, lse = 0;
  std::vector<T> chances;
};

template <typename T> using RowTables = std::vector<std::vector<T>>;

/// Returns the positions of a segment; none if it is not closed.
template <typename T, typename Op>
std::vector<int64_t> getValueRows(Op op, const Evaluator<T> &evaluator, int64_t b, int64_t m) {
  int64_t positions = evaluator.getPositions(op.getCounts());
  auto end = [&](int64_t segment) {
    return segment < 0 ? -1 : static_cast<int64_t>(evaluator.at(op.getEnds(), b, segment, 0));
  };
  std::vector<int64_t> rows;
  bool isClosed = m >= 0 && m < evaluator.getPositions(op.getEnds()) && end(m) < positions;
  for (int64_t t = end(m - 1) + 1; isClosed && t <= end(m); ++t) {
    rows.push_back(t);
  }
  return rows;
}

template <typename T>
RowTables<T> rowsAt(Value value, const Evaluator<T> &evaluator, int64_t b,
                    const std::vector<int64_t> &positions) {
  RowTables<T> rows;
  for (int64_t t : positions) {
    rows.push_back(evaluator.rowAt(value, b, t));
  }
  return rows;
}
} // namespace

template <typename T> static void evaluate(AttendSegmentsOp op, Evaluator<T> &evaluator) {
  auto heads = static_cast<int64_t>(op.getHeads());
  auto mixes = [&](int64_t b, int64_t m,
                   llvm::function_ref<void(const Mix<T> &, RowTables<T>)> use) {
    std::vector<int64_t> rows = getValueRows<T>(op, evaluator, b, m);
    for (int64_t head = 0; head < heads && !rows.empty(); ++head) {
      use(Mix<T>({heads, head}, evaluator.rowAt(op.getQuery(), b, m),
                 rowsAt<T>(op.getKey(), evaluator, b, rows)),
          rowsAt<T>(op.getValue(), evaluator, b, rows));
    }
  };
  evaluator.define(op.getOutput(), [&](int64_t b, int64_t m) {
    std::vector<T> y(reference::getColumns(op.getOutput()));
    mixes(b, m, [&](const Mix<T> &mix, const RowTables<T> &values) {
      for (auto [chance, value] : llvm::zip_equal(mix.chances, values)) {
        mix.head.add(y, chance, value);
      }
    });
    return y;
  });
  evaluator.define(op.getLse(), [&](int64_t b, int64_t m) {
    std::vector<T> y(static_cast<size_t>(heads));
    mixes(b, m, [&](const Mix<T> &mix, const RowTables<T> &) {
      y[static_cast<size_t>(mix.head.head)] = mix.lse;
    });
    return y;
  });
}

/// Handles segments of all rows of the batch in order: a row is in one segment.
template <typename T> static void evaluate(AttendSegmentsBackwardOp op, Evaluator<T> &evaluator) {
  auto heads = static_cast<int64_t>(op.getHeads());
  auto columns = static_cast<size_t>(reference::getColumns(op.getQuery()));
  using Gradients = std::vector<RowTables<T>>;
  auto zeros = [&](Value like) {
    auto positions = static_cast<size_t>(evaluator.getPositions(like));
    return Gradients(evaluator.getSetting().rows, RowTables<T>(positions, std::vector<T>(columns)));
  };
  Gradients dq = zeros(op.getQuery()), dk = zeros(op.getKey()), dv = zeros(op.getValue());
  for (int64_t b = 0; b < evaluator.getSetting().rows; ++b) {
    for (int64_t m = 0; m < evaluator.getPositions(op.getQuery()); ++m) {
      std::vector<int64_t> rows = getValueRows<T>(op, evaluator, b, m);
      std::vector<T> query = evaluator.rowAt(op.getQuery(), b, m),
                     gradient = evaluator.rowAt(op.getGradient(), b, m);
      RowTables<T> keys = rowsAt<T>(op.getKey(), evaluator, b, rows),
                   values = rowsAt<T>(op.getValue(), evaluator, b, rows);
      for (int64_t head = 0; head < heads && !rows.empty(); ++head) {
        Mix<T> mix({heads, head}, query, keys);
        std::vector<T> scores = mix.scoreGradients(gradient, values);
        for (size_t i = 0; i < rows.size(); ++i) {
          mix.head.add(dq[b][m], scores[i], keys[i]);
          mix.head.add(dk[b][rows[i]], scores[i], query);
          mix.head.add(dv[b][rows[i]], mix.chances[i], gradient);
        }
      }
    }
  }
  evaluator.define(op.getQueryGradient(), [&](int64_t b, int64_t m) { return dq[b][m]; });
  evaluator.define(op.getKeyGradient(), [&](int64_t b, int64_t t) { return dk[b][t]; });
  evaluator.define(op.getValueGradient(), [&](int64_t b, int64_t t) { return dv[b][t]; });
}

template <typename T>
static RowTables<T> besides(ValueRange values, const Evaluator<T> &evaluator, int64_t b,
                            int64_t t) {
  RowTables<T> rows;
  for (Value value : values) {
    rows.push_back(evaluator.rowAt(value, b, t));
  }
  return rows;
}

template <typename T> static void evaluate(AttendPartsOp op, Evaluator<T> &evaluator) {
  auto heads = static_cast<int64_t>(op.getHeads());
  evaluator.define(op.getResult(), [&](int64_t b, int64_t t) {
    std::vector<T> y(reference::getColumns(op.getResult()));
    RowTables<T> values = besides<T>(op.getValues(), evaluator, b, t);
    for (int64_t head = 0; head < heads; ++head) {
      Mix<T> mix({heads, head}, evaluator.rowAt(op.getQuery(), b, t),
                 besides<T>(op.getKeys(), evaluator, b, t));
      for (auto [chance, value] : llvm::zip_equal(mix.chances, values)) {
        mix.head.add(y, chance, value);
      }
    }
    return y;
  });
}

/// Computes the gradients of the query, of keys, and of values.
template <typename T> static void evaluate(AttendPartsBackwardOp op, Evaluator<T> &evaluator) {
  auto heads = static_cast<int64_t>(op.getHeads());
  size_t count = op.getKeys().size();
  for (auto [number, result] : llvm::enumerate(op.getGradients())) {
    evaluator.define(result, [&, number = number](int64_t b, int64_t t) {
      std::vector<T> made(reference::getColumns(op.getQuery()));
      std::vector<T> query = evaluator.rowAt(op.getQuery(), b, t),
                     gradient = evaluator.rowAt(op.getGradient(), b, t);
      RowTables<T> keys = besides<T>(op.getKeys(), evaluator, b, t);
      for (int64_t head = 0; head < heads; ++head) {
        Mix<T> mix({heads, head}, query, keys);
        std::vector<T> scores =
            mix.scoreGradients(gradient, besides<T>(op.getValues(), evaluator, b, t));
        for (size_t j = 0; j < count && number == 0; ++j) {
          mix.head.add(made, scores[j], keys[j]);
        }
        if (number > count) {
          mix.head.add(made, mix.chances[number - 1 - count], gradient);
        } else if (number > 0) {
          mix.head.add(made, scores[number - 1], query);
        }
      }
      return made;
    });
  }
}

SLUICE_REFERENCE(AttendSegmentsOp)
SLUICE_REFERENCE(AttendSegmentsBackwardOp)
SLUICE_REFERENCE(AttendPartsOp)
SLUICE_REFERENCE(AttendPartsBackwardOp)
