// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluates LSH attention as Hashed.td defines it: each row compares with all rows before it.
#include "sluice/Dialect/Sluice/Hashed.h"
#include "Reference.h"
#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

/// Returns argmax of [y; -y], the first one among equal numbers.
template <typename T>
static int64_t computeBucket(const std::vector<T> &table, const std::vector<T> &x, int64_t hash,
                             int64_t half) {
  int64_t bucket = 2 * half;
  T greatest = -1;
  for (int64_t i = 0; i < half; ++i) {
    T y = 0;
    for (size_t c = 0; c < x.size(); ++c) {
      y += table[static_cast<size_t>(hash * half + i) * x.size() + c] * x[c];
    }
    int64_t own = y < 0 ? i + half : i;
    if (std::abs(y) > greatest || (std::abs(y) == greatest && own < bucket)) {
      greatest = std::abs(y);
      bucket = own;
    }
  }
  return bucket;
}

template <typename T> static void evaluate(HashedBucketsOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    std::vector<T> x = evaluator.rowAt(op.getInput(), b, p), buckets;
    for (int64_t hash = 0; hash < op.getHashes(); ++hash) {
      buckets.push_back(static_cast<T>(
          computeBucket(evaluator.getTensor(op.getRotations()), x, hash, op.getBuckets() / 2)));
    }
    return buckets;
  });
}

namespace {
/// Finds the keys of each row of one batch row.
template <typename T, typename Op> class Hashes {
public:
  Hashes(Op op, const Evaluator<T> &evaluator, int64_t row)
      : op(op), evaluator(evaluator), row(row), rows(evaluator.getPositions(op.getQuery())) {}

  /// Returns the rows before row p, one entry for each hash that finds one.
  std::vector<int64_t> findKeys(int64_t p) const {
    std::vector<int64_t> found;
    for (int64_t hash = 0; hash < Op(op).getHashes(); ++hash) {
      addKeys(hash, p, found);
    }
    return found;
  }

private:
  int64_t computeBucket(int64_t hash, int64_t p) const {
    return static_cast<int64_t>(evaluator.at(Op(op).getBuckets(), row, p, hash));
  }

  /// Adds the rows that one hash finds. A row's rank counts the rows before it in its bucket or, if
  /// sorted, in the list of all rows.
  void addKeys(int64_t hash, int64_t p, std::vector<int64_t> &found) const {
    int64_t own = computeBucket(hash, p), chunk = static_cast<int64_t>(Op(op).getChunk());
    bool isSorted = Op(op).getSorted();
    std::vector<std::pair<int64_t, int64_t>> listed; // bucket, row
    for (int64_t q = 0; q < (isSorted ? rows : p + 1); ++q) {
      if (int64_t bucket = computeBucket(hash, q); isSorted || bucket == own) {
        listed.push_back({bucket, q});
      }
    }
    std::ranges::sort(listed);
    int64_t rank = std::ranges::find(listed, std::pair(own, p)) - listed.begin();
    int64_t first = std::max<int64_t>(0, (rank / chunk - 1) * chunk);
    int64_t end = std::min<int64_t>(llvm::alignTo(rank + 1, chunk), listed.size());
    std::vector<int64_t> keys;
    for (auto [bucket, q] : ArrayRef(listed).slice(first, end - first)) {
      if (q < p) {
        keys.push_back(q);
      }
    }
    std::ranges::sort(keys);
    llvm::append_range(found, keys);
  }

  Op op;
  const Evaluator<T> &evaluator;
  int64_t row, rows;
};
} // namespace

template <typename T> static T dot(const T *x, const T *y, int64_t size) {
  T sum = 0;
  for (int64_t c = 0; c < size; ++c) {
    sum += x[c] * y[c];
  }
  return sum;
}

/// Returns the score of a pair of heads.
template <typename T> static T computeScore(const T *query, const T *key, int64_t size) {
  return dot(query, key, size) / std::sqrt(static_cast<T>(size));
}

/// Computes one head of row p from its keys; returns the log-sum-exp.
template <typename T>
static T attend(HashedAttentionOp op, const Evaluator<T> &evaluator, int64_t b, int64_t p,
                int64_t first, ArrayRef<int64_t> keys, std::vector<T> &output) {
  auto size = static_cast<int64_t>(op.getHeadSize());
  std::vector<T> query = evaluator.rowAt(op.getQuery(), b, p);
  std::vector<T> scores;
  for (int64_t q : keys) {
    std::vector<T> key = evaluator.rowAt(op.getKey(), b, q);
    scores.push_back(computeScore(&query[first], &key[first], size));
  }
  T maximum = *std::ranges::max_element(scores), sum = 0;
  for (T score : scores) {
    sum += std::exp(score - maximum);
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    std::vector<T> value = evaluator.rowAt(op.getValue(), b, keys[i]);
    for (int64_t c = first; c < first + size; ++c) {
      output[c] += std::exp(scores[i] - maximum) / sum * value[c];
    }
  }
  return maximum + std::log(sum);
}

template <typename T> static void evaluate(HashedAttentionOp op, Evaluator<T> &evaluator) {
  auto heads = static_cast<int64_t>(op.getHeads()), size = static_cast<int64_t>(op.getHeadSize());
  std::vector<Hashes<T, HashedAttentionOp>> hashes;
  for (int64_t b = 0; b < evaluator.getSetting().rows; ++b) {
    hashes.emplace_back(op, evaluator, b);
  }
  std::vector<std::vector<T>> sums;
  evaluator.define(op.getOutput(), [&](int64_t b, int64_t p) {
    std::vector<int64_t> keys = hashes[static_cast<size_t>(b)].findKeys(p);
    std::vector<T> output(heads * size), lse(heads);
    for (int64_t h = 0; !keys.empty() && h < heads; ++h) {
      lse[h] = attend<T>(op, evaluator, b, p, h * size, keys, output);
    }
    sums.push_back(lse);
    return keys.empty() ? evaluator.rowAt(op.getValue(), b, p) : output;
  });
  auto next = sums.begin(); // both visit the same positions
  evaluator.define(op.getLse(), [&](int64_t, int64_t) { return *next++; });
}

/// Adds, for a pair and a head: P = exp(s - lse), dV[q] += P dO, dS = P (dO . V[q] - dO . O), dQ[p]
/// += dS K[q], dK[q] += dS Q[p], both in one sequence.
template <typename T>
static void attendBackward(HashedAttentionBackwardOp op, const Evaluator<T> &evaluator, int64_t b,
                           int64_t p, int64_t q, std::vector<std::vector<T>> &ofQueries,
                           std::vector<std::vector<T>> &ofValues) {
  auto heads = static_cast<int64_t>(op.getHeads()), size = static_cast<int64_t>(op.getHeadSize());
  std::vector<T> query = evaluator.rowAt(op.getQuery(), b, p);
  std::vector<T> key = evaluator.rowAt(op.getQuery(), b, q);
  std::vector<T> value = evaluator.rowAt(op.getValue(), b, q);
  std::vector<T> output = evaluator.rowAt(op.getOutput(), b, p);
  std::vector<T> gradient = evaluator.rowAt(op.getGradient(), b, p);
  for (int64_t first = 0; first < heads * size; first += size) {
    T score = computeScore(&query[first], &key[first], size);
    T share = std::exp(score - evaluator.at(op.getLse(), b, p, first / size));
    T moved =
        dot(&gradient[first], &value[first], size) - dot(&gradient[first], &output[first], size);
    T ofScore = share * moved / std::sqrt(static_cast<T>(size));
    for (int64_t c = first; c < first + size; ++c) {
      ofValues[q][c] += share * gradient[c];
      ofQueries[p][c] += ofScore * key[c];
      ofQueries[q][c] += ofScore * query[c];
    }
  }
}

template <typename T> static void evaluate(HashedAttentionBackwardOp op, Evaluator<T> &evaluator) {
  int64_t rows = evaluator.getPositions(op.getQuery()),
          columns = reference::getColumns(op.getQuery());
  std::vector<T> queries, values;
  for (int64_t b = 0; b < evaluator.getSetting().rows; ++b) {
    Hashes<T, HashedAttentionBackwardOp> hashes(op, evaluator, b);
    std::vector<std::vector<T>> ofQueries(rows, std::vector<T>(columns)), ofValues = ofQueries;
    for (int64_t p = 0; p < rows; ++p) {
      std::vector<int64_t> keys = hashes.findKeys(p);
      for (int64_t q : keys) {
        attendBackward<T>(op, evaluator, b, p, q, ofQueries, ofValues);
      }
      for (int64_t c = 0; keys.empty() && c < columns; ++c) {
        ofValues[p][c] += evaluator.at(op.getGradient(), b, p, c);
      }
    }
    for (int64_t p = 0; p < rows; ++p) {
      llvm::append_range(queries, ofQueries[p]);
      llvm::append_range(values, ofValues[p]);
    }
  }
  evaluator.setSequence(op.getQueryGradient(), std::move(queries));
  evaluator.setSequence(op.getValueGradient(), std::move(values));
}

SLUICE_REFERENCE(HashedBucketsOp)
SLUICE_REFERENCE(HashedAttentionOp)
SLUICE_REFERENCE(HashedAttentionBackwardOp)
