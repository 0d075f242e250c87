// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Evaluates the ops on segments as Sluice.td defines them: positions are looked up one by one.
#include "Reference.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::reference;

namespace {
/// Counts and ends of one row of the batch.
template <typename T> struct ReferenceSegmentation {
  /// Reads the segmentation of `op`, which has `getCounts` and `getEnds`.
  template <typename Op>
  ReferenceSegmentation(Op op, const Evaluator<T> &evaluator, int64_t row, bool starts = false)
      : counts(op.getCounts()), ends(op.getEnds()), evaluator(evaluator), row(row), starts(starts),
        positions(evaluator.getPositions(counts)) {}

  int64_t count(int64_t t) const { return static_cast<int64_t>(evaluator.at(counts, row, t, 0)); }
  /// Returns e(m): -1 before the first bit, the number of positions after the last one.
  int64_t end(int64_t m) const {
    if (m < 0 || m >= evaluator.getPositions(ends)) {
      return m < 0 ? -1 : positions;
    }
    return std::min(static_cast<int64_t>(evaluator.at(ends, row, m, 0)), positions);
  }
  /// Returns the segment of position t; if bits end segments, a bit belongs to the segment that it
  /// ends.
  int64_t getSegmentBounds(int64_t t) const {
    return starts ? count(t) - 1 : t == 0 ? 0 : count(t - 1);
  }
  /// Return the positions [first, last] of segment m.
  int64_t first(int64_t m) const { return starts ? end(m) : end(m - 1) + 1; }
  int64_t last(int64_t m) const { return starts ? end(m + 1) - 1 : end(m); }
  int64_t rows(int64_t m) const { return last(m) - first(m) + 1; }
  bool isClosed(int64_t m) const { return m >= 0 && end(m + (starts ? 1 : 0)) < positions; }

  Value counts, ends;
  const Evaluator<T> &evaluator;
  int64_t row;
  bool starts;
  int64_t positions;
};
} // namespace

/// counts[t] = bits up to t, ends[m] = the position of bit m
template <typename T> static void evaluate(SegmentOp op, Evaluator<T> &evaluator) {
  bool given = isGiven(op, op.getBits().getType());
  auto isBit = [&](int64_t b, int64_t t) {
    int64_t last = given ? evaluator.getCount(op.getBits(), b) - 1 : t + 1;
    return t == last || (t < last && evaluator.at(op.getBits(), b, t, 0) > T(0.5));
  };
  int64_t positions = 0; // in a step, available positions
  evaluator.forEachPosition(op.getCounts(), [&](int64_t, int64_t t) { positions = t + 1; });
  std::vector<std::vector<int64_t>> bits(evaluator.getSetting().rows);
  for (int64_t b = 0; b < evaluator.getSetting().rows; ++b) {
    for (int64_t t = 0; t < positions; ++t) {
      if (isBit(b, t)) {
        bits[b].push_back(t);
      }
    }
    if (static_cast<int64_t>(bits[b].size() + op.getSpare()) >
        evaluator.getPositions(op.getEnds())) {
      llvm::report_fatal_error("reference: more segments than the axis has rows");
    }
  }
  if (given) {
    std::vector<int64_t> numbers;
    for (const std::vector<int64_t> &of : bits) {
      numbers.push_back(static_cast<int64_t>(of.size()));
    }
    evaluator.setCounts(getAxisName(op, op.getEnds().getType()), numbers);
  }
  evaluator.define(op.getCounts(), [&](int64_t b, int64_t t) {
    return std::vector<T>{static_cast<T>(std::ranges::upper_bound(bits[b], t) - bits[b].begin())};
  });
  evaluator.define(op.getEnds(), [&](int64_t b, int64_t m) {
    bool isThere = m < static_cast<int64_t>(bits[b].size());
    return std::vector<T>{
        static_cast<T>(isThere ? bits[b][m] : sluice::getPositions(op, op.getBits().getType()))};
  });
}

/// y[m] = mean of x over segment m
template <typename T> static void evaluate(PoolSegmentsOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t m) {
    ReferenceSegmentation<T> of(op, evaluator, b, op.getStarts());
    std::vector<T> y(reference::getColumns(op.getResult()));
    if (!of.isClosed(m)) {
      return y;
    }
    for (int64_t t = of.first(m); t <= of.last(m); ++t) {
      for (size_t c = 0; c < y.size(); ++c) {
        y[c] += evaluator.at(op.getInput(), b, t, c);
      }
    }
    for (T &number : y) {
      number /= op.getSum() ? T(1) : static_cast<T>(of.rows(m));
    }
    return y;
  });
}

/// dx[t] = dy[m] / rows(m)
template <typename T> static void evaluate(PoolSegmentsBackwardOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t t) {
    ReferenceSegmentation<T> of(op, evaluator, b, op.getStarts());
    int64_t m = of.getSegmentBounds(t);
    if (!of.isClosed(m)) {
      return std::vector<T>(reference::getColumns(op.getResult()));
    }
    std::vector<T> dx = evaluator.rowAt(op.getGradient(), b, m);
    for (T &number : dx) {
      number /= op.getSum() ? T(1) : static_cast<T>(of.rows(m));
    }
    return dx;
  });
}

/// h[t] = <dy[m], x[t] - y[m]> / rows(m)
template <typename T>
static T movedBy(PoolSegmentsBitsBackwardOp op, const Evaluator<T> &evaluator,
                 const ReferenceSegmentation<T> &of, int64_t m, int64_t t) {
  T h = 0;
  for (int64_t c = 0; c < reference::getColumns(op.getInput()); ++c) {
    h += evaluator.at(op.getGradient(), of.row, m, c) *
         (evaluator.at(op.getInput(), of.row, t, c) - evaluator.at(op.getPooled(), of.row, m, c));
  }
  return h / static_cast<T>(of.rows(m));
}

/// db[j] = sum of h[t], t > j in j's segment
template <typename T> static void evaluate(PoolSegmentsBitsBackwardOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t j) {
    ReferenceSegmentation<T> of(op, evaluator, b, op.getStarts());
    int64_t m = of.getSegmentBounds(j);
    T sum = 0;
    for (int64_t t = op.getStarts() ? j : j + 1; of.isClosed(m) && t <= of.last(m); ++t) {
      sum += movedBy(op, evaluator, of, m, t);
    }
    return std::vector<T>{sum};
  });
}

/// y[m] = x[e(m)]
template <typename T> static void evaluate(SelectSegmentsOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t m) {
    return evaluator.rowAt(op.getInput(), b, ReferenceSegmentation<T>(op, evaluator, b).end(m));
  });
}

/// dx[e(m)] = dy[m]
template <typename T> static void evaluate(SelectSegmentsBackwardOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t t) {
    ReferenceSegmentation<T> of(op, evaluator, b);
    int64_t m = of.count(t) - 1;
    return m >= 0 && of.end(m) == t ? evaluator.rowAt(op.getGradient(), b, m)
                                    : std::vector<T>(reference::getColumns(op.getResult()));
  });
}

/// Returns the segment of position t: c(t) - by, or with `own` c(t - 1) - by.
template <typename T, typename Op>
static int64_t findSpreadSegment(Op op, const ReferenceSegmentation<T> &of, int64_t t) {
  int64_t count = !op.getOwn() ? of.count(t) : t == 0 ? 0 : of.count(t - 1);
  return count - static_cast<int64_t>(op.getBy());
}

/// z[t] = y[c(t) - by]
template <typename T> static void evaluate(SpreadSegmentsOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t t) {
    ReferenceSegmentation<T> of(op, evaluator, b);
    return evaluator.rowAt(op.getInput(), b, findSpreadSegment(op, of, t));
  });
}

/// dy[m] = sum of dz[t] over c(t) - by = m
template <typename T> static void evaluate(SpreadSegmentsBackwardOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t m) {
    ReferenceSegmentation<T> of(op, evaluator, b);
    std::vector<T> dy(reference::getColumns(op.getResult()));
    for (int64_t t = 0; t < of.positions; ++t) {
      for (size_t c = 0; findSpreadSegment(op, of, t) == m && c < dy.size(); ++c) {
        dy[c] += evaluator.at(op.getGradient(), b, t, c);
      }
    }
    return dy;
  });
}

/// y[p] = sum of x
template <typename T> static void evaluate(TotalOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t) {
    std::vector<T> y(reference::getColumns(op.getResult()));
    for (int64_t t = 0; t < evaluator.getPositions(op.getInput()); ++t) {
      for (size_t c = 0; c < y.size(); ++c) {
        y[c] += evaluator.at(op.getInput(), b, t, c);
      }
    }
    return y;
  });
}

/// y[p] = x[p] before the row's count
template <typename T> static void evaluate(ClearPaddingOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    return p < evaluator.getCount(op.getInput(), b)
               ? evaluator.rowAt(op.getInput(), b, p)
               : std::vector<T>(reference::getColumns(op.getResult()),
                                static_cast<T>(op.getFill().convertToFloat()));
  });
}

template <typename T> static void evaluate(SumColumnsOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    T sum = 0;
    for (T number : evaluator.rowAt(op.getInput(), b, p)) {
      sum += number;
    }
    return std::vector<T>{sum};
  });
}

template <typename T> static void evaluate(RepeatColumnsOp op, Evaluator<T> &evaluator) {
  evaluator.define(op.getResult(), [&](int64_t b, int64_t p) {
    return std::vector<T>(reference::getColumns(op.getResult()),
                          evaluator.at(op.getInput(), b, p, 0));
  });
}

SLUICE_REFERENCE(SegmentOp)
SLUICE_REFERENCE(PoolSegmentsOp)
SLUICE_REFERENCE(PoolSegmentsBackwardOp)
SLUICE_REFERENCE(PoolSegmentsBitsBackwardOp)
SLUICE_REFERENCE(SelectSegmentsOp)
SLUICE_REFERENCE(SelectSegmentsBackwardOp)
SLUICE_REFERENCE(SpreadSegmentsOp)
SLUICE_REFERENCE(SpreadSegmentsBackwardOp)
SLUICE_REFERENCE(ClearPaddingOp)
SLUICE_REFERENCE(TotalOp)
SLUICE_REFERENCE(SumColumnsOp)
SLUICE_REFERENCE(RepeatColumnsOp)
