// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention by hashes, as Hashed.td defines it: each row looks at all rows before it.
#include "sluice/Dialect/Sluice/Hashed.h"
#include "Reference.h"
#include <cmath>
#include <map>

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

namespace {
/// The rows that each row of one batch row reads.
template <typename T, typename Op> class Hashes {
public:
  Hashes(Op op, const Evaluator<T> &evaluator, int64_t row)
      : op(op), evaluator(evaluator), row(row), rows(evaluator.getPositions(op.getQuery())) {
    for (int64_t hash = 0; hash < static_cast<int64_t>(op.getHashes()); ++hash) {
      addKeys(hash);
    }
  }

  /// Those before row p, one entry for each hash that finds one.
  const std::vector<int64_t> &keysOf(int64_t p) { return found_[p]; }

private:
  /// argmax of [y; -y], the first of equal ones.
  int64_t bucketOf(int64_t hash, int64_t p) const {
    const std::vector<T> &table = evaluator.getTensor(op.getRotations());
    std::vector<T> x = evaluator.rowAt(op.getQuery(), row, p);
    int64_t half = op.getBuckets() / 2, bucket = 2 * half;
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

  /// Rank within the bucket, or in the list sorted by buckets.
  int64_t rankOf(const std::vector<int64_t> &buckets, int64_t p) const {
    int64_t rank = 0, own = buckets[static_cast<size_t>(p)];
    for (int64_t q = 0; q < rows; ++q) {
      int64_t bucket = buckets[static_cast<size_t>(q)];
      rank += (q < p && bucket == own) || (op.getSorted() && bucket < own) ? 1 : 0;
    }
    return rank;
  }

  void addKeys(int64_t hash) {
    std::vector<int64_t> buckets, chunks;
    for (int64_t p = 0; p < rows; ++p) {
      buckets.push_back(bucketOf(hash, p));
    }
    for (int64_t p = 0; p < rows; ++p) {
      chunks.push_back(rankOf(buckets, p) / static_cast<int64_t>(op.getChunk()));
    }
    for (size_t p = 0; p < buckets.size(); ++p) {
      for (size_t q = 0; q < p; ++q) {
        bool isNear = chunks[q] == chunks[p] || chunks[q] + 1 == chunks[p];
        if (isNear && (op.getSorted() || buckets[q] == buckets[p])) {
          found_[static_cast<int64_t>(p)].push_back(static_cast<int64_t>(q));
        }
      }
    }
  }

  mutable Op op; ///< generated accessors are not const
  const Evaluator<T> &evaluator;
  int64_t row, rows;
  std::map<int64_t, std::vector<int64_t>> found_;
};
} // namespace

template <typename T> static T dot(const T *x, const T *y, int64_t size) {
  T sum = 0;
  for (int64_t c = 0; c < size; ++c) {
    sum += x[c] * y[c];
  }
  return sum;
}

/// The score of a pair of heads.
template <typename T> static T scoreOf(const T *query, const T *key, int64_t size) {
  return dot(query, key, size) / std::sqrt(static_cast<T>(size));
}

/// One head of row p from the rows that it reads; returns the log-sum-exp.
template <typename T>
static T attend(HashedAttentionOp op, const Evaluator<T> &evaluator, int64_t b, int64_t p,
                int64_t first, ArrayRef<int64_t> keys, std::vector<T> &output) {
  auto size = static_cast<int64_t>(op.getHeadSize());
  std::vector<T> query = evaluator.rowAt(op.getQuery(), b, p);
  std::vector<T> scores;
  for (int64_t q : keys) {
    std::vector<T> key = evaluator.rowAt(op.getQuery(), b, q);
    scores.push_back(scoreOf(&query[first], &key[first], size));
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
  for (int64_t b = 0; b < evaluator.getRows(); ++b) {
    hashes.emplace_back(op, evaluator, b);
  }
  std::vector<std::vector<T>> sums;
  evaluator.define(op.getOutput(), [&](int64_t b, int64_t p) {
    const std::vector<int64_t> &keys = hashes[static_cast<size_t>(b)].keysOf(p);
    std::vector<T> output(heads * size), lse(heads);
    for (int64_t h = 0; !keys.empty() && h < heads; ++h) {
      lse[h] = attend<T>(op, evaluator, b, p, h * size, keys, output);
    }
    sums.push_back(lse);
    return keys.empty() ? evaluator.rowAt(op.getValue(), b, p) : output;
  });
  auto next = sums.begin(); // both walk the same positions
  evaluator.define(op.getLse(), [&](int64_t, int64_t) { return *next++; });
}

/// Of a pair and a head: P = exp(s - lse), dV[q] += P dO, dS = P (dO . V[q] - dO . O), dQ[p] += dS
/// K[q], dK[q] += dS Q[p], both of one sequence.
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
    T score = scoreOf(&query[first], &key[first], size);
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
          columns = evaluator.getColumns(op.getQuery());
  std::vector<T> queries, values;
  for (int64_t b = 0; b < evaluator.getRows(); ++b) {
    Hashes<T, HashedAttentionBackwardOp> hashes(op, evaluator, b);
    std::vector<std::vector<T>> ofQueries(rows, std::vector<T>(columns)), ofValues = ofQueries;
    for (int64_t p = 0; p < rows; ++p) {
      const std::vector<int64_t> &keys = hashes.keysOf(p);
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

SLUICE_REFERENCE(HashedAttentionOp)
SLUICE_REFERENCE(HashedAttentionBackwardOp)
