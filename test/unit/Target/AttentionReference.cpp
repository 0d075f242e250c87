// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention and its gradients in float64. Bounds are a priori: u = 2^-24 is half an ulp of 1, a sum
// of n products is off by at most n u sum |a b|, and errors of scores pass through e^x as relative
// errors of probabilities.
#include "AttentionReference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace sluice::test;

static constexpr double unit = 0x1p-24;
static constexpr double bf16Unit = 0x1p-8; ///< half an ulp of 1 of bf16

std::vector<float> sluice::test::countReads(const AttentionCase &c) {
  return {c.keyCounts.begin(), c.keyCounts.end()};
}

std::vector<std::vector<float>> sluice::test::sequences(const AttentionCase &c,
                                                        const AttentionData &data) {
  return {data.tensor(c.getTensorIndex(0)), data.tensor(c.getTensorIndex(1)),
          data.tensor(c.getTensorIndex(2))};
}

static double toBf16(double value) {
  auto number = float(value);
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&number, &bits, sizeof bits);
  return number;
}

/// Philox4x32-10, one number of [0, 1) of element `e`.
static double philox(uint64_t e, uint32_t id, uint64_t step, uint64_t seed) {
  std::array<uint32_t, 4> c{uint32_t(e / 4), uint32_t(e / 4 >> 32), id, uint32_t(step)};
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
    uint64_t a = uint64_t(0xD2511F53) * c[0], b = uint64_t(0xCD9E8D57) * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ k0, uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ k1, uint32_t(a)};
  }
  return (c[e % 4] >> 8) * 0x1p-24;
}

namespace {

using Matrix = std::vector<std::vector<double>>;

/// One row of the batch and one query head.
struct HeadEvaluation {
  const AttentionCase &c;
  AttentionData &data;
  int64_t b, h;
  int64_t n = c.valid(), m = c.validKeys(b); ///< queries, keys
  double factorUnit = c.bf16 ? bf16Unit : 0; ///< of P and the scores' gradients
  Matrix q{}, k{}, v{}, dO{};                ///< [n][D], keys' [m][D]
  Matrix distanceQueries{}, distances{};     ///< [n][D] of the distance terms

  int64_t keyHead() const { return h / (c.heads / c.kvHeads); }
  /// The tensor's element at column i of the head's.
  int64_t at(int64_t p, int part, int64_t i) const {
    int64_t tensor = c.getTensorIndex(part);
    int64_t column = c.getFirstColumn(part) + (part == 0 ? h : keyHead()) * c.head;
    return (b * c.getValueRows(tensor) + p) * c.width(tensor) + column + i;
  }
  double number(int64_t p, int part, int64_t i) const {
    return data.tensor(c.getTensorIndex(part))[at(p, part, i)];
  }

  /// Rotates a row back by its position's angles.
  void rotateBack(std::vector<double> &row, int64_t p) const {
    for (int64_t i = 0; c.rotary && i < c.head; i += 2) {
      double cosine = data.rotary[p * c.head + i], sine = data.rotary[p * c.head + i + 1];
      double x = row[i], y = row[i + 1];
      row[i] = x * cosine + y * sine;
      row[i + 1] = y * cosine - x * sine;
    }
  }
  /// Offset of an element of the terms by position (0) and by distance (1).
  int64_t atTerm(int64_t term, int64_t p, int64_t i) const {
    return ((b * c.termRows(term) + p) * c.heads + h) * c.head + i;
  }
  int64_t distance(int64_t p, int64_t j) const {
    return c.distanceQuery * p - c.distanceKey * j + c.distanceOffset;
  }
  /// The row of a table of both directions, whose middle row is the distance of p = j.
  int64_t tableRow(int64_t p, int64_t j) const {
    int64_t most = c.tableRows / 2;
    return std::clamp(distance(p, j) - c.distanceOffset, -most, most) + most;
  }
  int64_t biasRow(int64_t p, int64_t j) const {
    return c.tableRows > 0 ? tableRow(p, j) : std::min(distance(p, j), c.biasRows - 1);
  }
  int64_t distanceRow(int64_t p, int64_t j) const {
    return c.tableRows > 0 ? tableRow(p, j) : std::min(distance(p, j), c.validDistances() - 1);
  }
  double bias(int64_t p, int64_t j) const {
    return c.biasRows > 0 ? data.terms.back()[biasRow(p, j) * c.heads + h] : 0;
  }
  /// The products passed to the score region, or the sums of their terms' magnitudes.
  struct Raw {
    double ofKeys, byDistance;
    double sum() const { return ofKeys + byDistance; }
  };
  Raw raw(int64_t p, int64_t j, bool magnitudes = false) const;
  /// The region's result for them, without the bias; and its derivatives by the two.
  double score(const Raw &raw, int64_t p, int64_t j) const {
    return c.score.joint ? c.score.joint(raw.ofKeys, raw.byDistance)
                         : c.score.value(raw.sum(), p, j, h);
  }
  Raw slopes(const Raw &raw, int64_t p, int64_t j) const {
    if (c.score.joint) {
      return {c.score.byScore(raw.ofKeys, raw.byDistance),
              c.score.byProduct(raw.ofKeys, raw.byDistance)};
    }
    double slope = c.score.derivative(raw.sum(), p, j, h);
    return {slope, slope};
  }
  /// Error bounds of the two.
  Raw errors(int64_t p, int64_t j) const {
    Raw magnitudes = raw(p, j, true);
    double each = unit * double(c.head + 2);
    return {each * magnitudes.ofKeys, each * magnitudes.byDistance};
  }
  void loadTerms() {
    auto load = [&](Matrix &matrix, int64_t term, int64_t count) {
      for (int64_t p = 0; p < count; ++p) {
        matrix.emplace_back();
        for (int64_t i = 0; i < c.head; ++i) {
          bool isShared = term == 1 && c.tableRows > 0;
          int64_t at = isShared ? p * c.head + i : atTerm(term, p, i);
          matrix[p].push_back(data.terms[term][at]);
        }
      }
    };
    if (c.distances) {
      load(distanceQueries, 0, n);
      load(distances, 1, c.tableRows > 0 ? c.tableRows : c.validDistances());
    }
  }
  void load() {
    loadTerms();
    for (Matrix *matrix : {&q, &dO, &k, &v}) {
      matrix->assign(matrix == &q || matrix == &dO ? n : m, std::vector<double>(c.head));
    }
    for (int64_t j = 0; j < m; ++j) {
      for (int64_t i = 0; i < c.head; ++i) {
        k[j][i] = number(j, 1, i);
        v[j][i] = number(j, 2, i);
      }
    }
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t i = 0; i < c.head; ++i) {
        q[p][i] = number(p, 0, i);
        dO[p][i] = data.outputGradient[((b * c.positions + p) * c.heads + h) * c.head + i];
      }
    }
  }
  double keep(int64_t p, int64_t j) const {
    uint64_t element = ((b * c.heads + h) * c.positions + p) * c.keys() + j;
    if (c.dropout == 0) {
      return 1;
    }
    return philox(element, uint32_t(c.randomId), c.step, c.seed) >= c.dropout
               ? 1 / (1 - double(c.dropout))
               : 0;
  }
  void evaluate();
  void evaluateRow(int64_t p);
  void addGradients(int64_t p, const std::vector<double> &probability,
                    const std::vector<double> &output, double relative);
  void addTerms(int64_t p, int64_t j, double ofProduct, double bound, double gradient,
                double boundOfGradient) const;
  void add(int64_t p, int part, std::vector<double> row, double bound) const;
};

double dot(const std::vector<double> &a, const std::vector<double> &b, bool magnitudes = false) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += magnitudes ? std::abs(a[i] * b[i]) : a[i] * b[i];
  }
  return sum;
}

double largest(const std::vector<double> &row) {
  double result = 0;
  for (double value : row) {
    result = std::max(result, std::abs(value));
  }
  return result;
}

std::vector<double> times(const std::vector<double> &row, double factor) {
  std::vector<double> result = row;
  for (double &value : result) {
    value *= factor;
  }
  return result;
}

} // namespace

HeadEvaluation::Raw HeadEvaluation::raw(int64_t p, int64_t j, bool magnitudes) const {
  bool hasRow = c.distances && distance(p, j) >= 0;
  return {dot(q[p], k[j], magnitudes),
          hasRow ? dot(distanceQueries[p], distances[distanceRow(p, j)], magnitudes) : 0};
}

/// Gradients of terms: each row by distance and each bias is a sum over the queries that have it.
void HeadEvaluation::addTerms(int64_t p, int64_t j, double ofProduct, double bound, double gradient,
                              double boundOfGradient) const {
  auto put = [](Expected &expected, int64_t at, double value, double bound) {
    expected.value[at] += value;
    expected.bound[at] += bound + 4 * unit * std::abs(value);
  };
  for (int64_t i = 0; c.distances && i < c.head; ++i) {
    int64_t at = distanceRow(p, j);
    double query = distanceQueries[p][i], row = distances[at][i];
    put(data.termGradients[0], atTerm(0, p, i), ofProduct * row, bound * std::abs(row));
    int64_t part = (b * c.heads + h) * c.distancePositions + distance(p, j);
    put(data.termGradients[1], c.tableRows > 0 ? part * c.head + i : atTerm(1, at, i),
        ofProduct * query, bound * std::abs(query));
  }
  if (c.biasRows > 0) {
    int64_t row = c.tableRows > 0 ? distance(p, j) : biasRow(p, j);
    int64_t at = (b * c.biasParts() + row) * c.heads + h;
    put(data.termGradients.back(), at, gradient, boundOfGradient);
  }
}

/// Adds a row to the gradient of Q (part 0), K (1) or V (2); rotation back adds its own rounding.
void HeadEvaluation::add(int64_t p, int part, std::vector<double> row, double bound) const {
  double rounding = 4 * unit * largest(row);
  if (part != 2) {
    rotateBack(row, p);
  }
  for (int64_t i = 0; i < c.head; ++i) {
    Expected &gradient = data.getExpectedGradient(c.getTensorIndex(part));
    gradient.value[at(p, part, i)] += row[i];
    gradient.bound[at(p, part, i)] += (c.rotary ? 1.5 : 1) * bound + rounding;
  }
}

void HeadEvaluation::evaluate() {
  load();
  for (int64_t p = 0; p < n; ++p) {
    evaluateRow(p);
  }
}

void HeadEvaluation::evaluateRow(int64_t p) {
  std::vector<double> score(m, -INFINITY), probability(m);
  double most = -INFINITY, error = 0;
  for (int64_t j = 0; j < m; ++j) {
    if (c.relation.holds(p, j, m)) {
      Raw raw = this->raw(p, j), slope = slopes(raw, p, j);
      score[j] = this->score(raw, p, j) + bias(p, j);
      // Sums of products; then a region of a few operations, 16 ulp of its operands.
      Raw ofRaw = errors(p, j);
      double ofRegion =
          16 * unit *
          (std::abs(score[j]) + std::abs(this->score({}, p, j)) + std::abs(bias(p, j)) + 1);
      error = std::max(error, std::abs(slope.ofKeys) * ofRaw.ofKeys +
                                  std::abs(slope.byDistance) * ofRaw.byDistance +
                                  ofRaw.sum() * ofRaw.sum() + ofRegion);
      most = std::max(most, score[j]);
    }
  }
  double sum = 0;
  for (int64_t j = 0; j < m; ++j) {
    probability[j] = most == -INFINITY ? 0 : std::exp(score[j] - most);
    sum += probability[j];
  }
  double logSum = most == -INFINITY ? -INFINITY : most + std::log(sum);
  int64_t row = b * c.positions + p;
  data.lse.value[row * c.heads + h] = logSum;
  data.lse.bound[row * c.heads + h] = error + unit * (std::abs(logSum) * 2 + double(m) + 8);
  // Score errors propagate to a term and the sum; e^x is off by 2 ulp and is rescaled once per
  // block.
  double relative = std::expm1(2 * error) + unit * (double(m) + 16);
  std::vector<double> given(c.head);
  for (int64_t i = 0; i < c.head; ++i) {
    double value = 0, magnitude = 0;
    for (int64_t j = 0; j < m && sum > 0; ++j) {
      double term = probability[j] / sum * keep(p, j) * v[j][i];
      value += term;
      magnitude += std::abs(term);
    }
    data.output.value[(row * c.heads + h) * c.head + i] = value;
    data.output.bound[(row * c.heads + h) * c.head + i] =
        (relative + factorUnit + unit * double(m + 4)) * magnitude +
        (c.bf16Results() ? bf16Unit : 0) * std::abs(value) + 1e-30;
    given[i] = c.bf16Results() ? toBf16(value) : value;
  }
  if (sum > 0) {
    addGradients(p, times(probability, 1 / sum), given, relative + 2 * unit * std::abs(logSum));
  }
}

void HeadEvaluation::addGradients(int64_t p, const std::vector<double> &probability,
                                  const std::vector<double> &output, double relative) {
  double delta = dot(dO[p], output), change = dot(dO[p], output, true);
  double sums = unit * double(std::max(n, m) + 8); // of a sum over positions
  for (int64_t j = 0; j < m; ++j) {
    change = std::max(change, keep(p, j) * dot(dO[p], v[j], true));
  }
  // delta = sum of dO O with an O rounded to f32, dP = dO V: both sums of D products of magnitude
  // `change` at most.
  double ofChange = 2 * unit * double(c.head + 8) * change;
  std::vector<double> queryRow(c.head);
  double queryBound = 0;
  for (int64_t j = 0; j < m; ++j) {
    if (probability[j] == 0) {
      continue;
    }
    double kept = probability[j] * keep(p, j);
    add(j, 2, times(dO[p], kept), (relative + factorUnit + sums) * kept * largest(dO[p]));
    double g = probability[j] * (keep(p, j) * dot(dO[p], v[j]) - delta);
    auto [slope, ofProduct] = slopes(raw(p, j), p, j);
    double ofScore = errors(p, j).sum();
    double magnitude = probability[j] * 2 * change;
    double ofGradient = relative * magnitude + probability[j] * ofChange + magnitude * 16 * unit +
                        sums * std::abs(g);
    auto computeTolerance = [&](double slope) {
      double bound = std::abs(slope) * (relative * magnitude + probability[j] * ofChange) +
                     magnitude * (ofScore + 16 * unit) + sums * std::abs(g * slope);
      return bound + factorUnit * (std::abs(g * slope) + bound);
    };
    double bound = computeTolerance(slope);
    addTerms(p, j, g * ofProduct, computeTolerance(ofProduct), g, ofGradient);
    add(j, 1, times(q[p], g * slope), bound * largest(q[p]));
    for (int64_t i = 0; i < c.head; ++i) {
      queryRow[i] += g * slope * k[j][i];
    }
    queryBound += bound * largest(k[j]);
  }
  add(p, 0, queryRow, queryBound);
}

AttentionData sluice::test::makeAttention(const AttentionCase &c) {
  AttentionData data;
  int64_t positions = c.batch * c.positions, wide = c.heads * c.head;
  std::mt19937 random(17);
  std::uniform_real_distribution<float> uniform(-1, 1);
  auto drawRows = [&](std::vector<float> &rows, int64_t count, auto some, int64_t width) {
    rows.assign(c.batch * count * width, std::numeric_limits<float>::quiet_NaN());
    for (int64_t i = 0; i < c.batch * count * width; ++i) {
      bool valid = i / width / count < c.rows && i / width % count < some(i / width / count);
      rows[i] = valid ? uniform(random) : rows[i];
      rows[i] = valid && c.bf16 ? float(toBf16(rows[i])) : rows[i];
    }
  };
  auto draw = [&](std::vector<float> &rows, int64_t width) {
    drawRows(rows, c.positions, [&](int64_t) { return c.valid(); }, width);
  };
  draw(data.qkv, c.width());
  for (int64_t i = 1; i < c.tensors; ++i) {
    auto validKeys = [&](int64_t b) { return c.validKeys(b); };
    drawRows(data.others.emplace_back(), c.keys(), validKeys, c.width(i));
    data.otherGradients.emplace_back(c.batch * c.keys() * c.width(i));
  }
  for (int64_t term = 0; term < c.terms(); ++term) {
    bool isTable = c.biasRows > 0 && term + 1 == c.terms();
    bool isShared = !isTable && term == 1 && c.tableRows > 0;
    int64_t elements = isTable    ? c.biasRows * c.heads
                       : isShared ? c.tableRows * c.head
                                  : c.batch * c.termRows(term) * wide;
    std::vector<float> &drawn = data.terms.emplace_back(elements);
    if (isTable || isShared) {
      std::ranges::generate(drawn, [&] {
        float number = uniform(random);
        return isShared && c.bf16 ? float(toBf16(number)) : number;
      });
    } else {
      auto valid = [&](int64_t) { return term == 0 ? c.valid() : c.validDistances(); };
      drawRows(drawn, c.termRows(term), valid, wide);
    }
    int64_t rows = isTable ? c.biasParts() : c.termRows(term);
    data.termGradients.emplace_back(c.batch * rows * c.termWidth(term));
  }
  draw(data.outputGradient, wide);
  draw(data.outputIn, wide);
  draw(data.lseIn, c.heads);
  for (int64_t i = 0; i < c.positions * c.head; ++i) {
    double angle = double(i / c.head) / std::pow(100.0, double(i % c.head / 2) / double(c.head));
    data.rotary.push_back(float(i % 2 == 0 ? std::cos(angle) : std::sin(angle)));
  }
  data.output = Expected(positions * wide);
  data.lse = Expected(positions * c.heads);
  data.gradient = Expected(positions * c.width());
  for (int64_t b = 0; b < c.rows; ++b) {
    for (int64_t h = 0; h < c.heads; ++h) {
      HeadEvaluation{c, data, b, h}.evaluate();
    }
    for (int64_t i = b * c.positions * wide; i < (b * c.positions + c.valid()) * wide; ++i) {
      data.outputIn[i] =
          float(c.bf16Results() ? toBf16(data.output.value[i]) : data.output.value[i]);
    }
    for (int64_t i = b * c.positions * c.heads; i < (b * c.positions + c.valid()) * c.heads; ++i) {
      data.lseIn[i] = float(data.lse.value[i]);
    }
  }
  auto round = [](Expected &gradient) {
    for (size_t i = 0; i < gradient.value.size(); ++i) {
      gradient.bound[i] += bf16Unit * (std::abs(gradient.value[i]) + gradient.bound[i]);
    }
  };
  for (int64_t tensor = 0; tensor < c.tensors && c.bf16Results(); ++tensor) {
    round(data.getExpectedGradient(tensor));
  }
  int64_t sequences = c.tableRows > 0 ? 1 : 2; // gradients of tables are f32
  for (int64_t term = 0; term < sequences && c.distances && c.bf16Results(); ++term) {
    round(data.termGradients[term]);
  }
  return data;
}
