// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Head and cross-entropy on the CPU compared with float64.
#include "KernelHarness.h"

#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace sluice;
using namespace sluice::test;

namespace {

using Floats = std::vector<float>;
constexpr double roundoff = 0x1p-24;

struct CrossEntropyCase {
  int64_t batch = 1, positions = 1, width = 8, vocabulary = 2;
  bool bias = false, init = false;
  int64_t length = 0, validRows = 0; ///< 0: all
  int64_t factor = 1, offset = 1;
  int64_t first = 0;
  float smoothing = 0, counts = 1; ///< `counts` is the number of rows in the mean
  bool rowGradient = false;

  int64_t rows() const { return batch * positions; }
  int64_t computeLength() const { return length ? length : positions; }
  int64_t getValueRows() const { return validRows ? validRows : batch; }
  bool valid(int64_t row) const {
    return row / positions < getValueRows() && row % positions < computeLength();
  }
  bool scored(int64_t row) const { return valid(row) && row % positions >= first; }
};

std::string tensor(std::initializer_list<int64_t> shape, const std::string &element = "f32") {
  std::string result = "tensor<";
  for (int64_t size : shape) {
    result += std::to_string(size) + "x";
  }
  return result + element + ">";
}

/// One op: the types of its operands and results as one list.
std::string buildKernelText(const std::string &op, const std::vector<std::string> &operands,
                            const std::vector<std::string> &results, const std::string &attributes,
                            const CrossEntropyCase &c) {
  auto list = [](size_t count, auto &&item) {
    std::string text;
    for (size_t i = 0; i < count; ++i) {
      text += (i ? ", " : "") + item(i);
    }
    return text;
  };
  auto name = [](size_t i) { return "%a" + std::to_string(i); };
  std::string types = list(results.size(), [&](size_t i) { return results[i]; });
  return "func.func @f(" +
         list(operands.size(), [&](size_t i) { return name(i) + ": " + operands[i]; }) +
         ") {\n  %r:" + std::to_string(results.size()) + " = dispatch." + op + " " +
         list(operands.size(), name) +
         " attributes {domain = #dispatch.domain<batch = " + std::to_string(c.batch) +
         ", positions = " + std::to_string(c.positions) + ", factor = " + std::to_string(c.factor) +
         ">, offset = " + std::to_string(c.offset) + " : i64, first = " + std::to_string(c.first) +
         " : i64, smoothing = " + std::to_string(c.smoothing) +
         " : f32, factor = " + std::to_string(c.counts) + " : f32, " + attributes + "} : (" +
         list(operands.size(), [&](size_t i) { return operands[i]; }) + ") -> (" + types +
         ")\n  return\n}";
}

std::string rowsText(const CrossEntropyCase &c, bool training) {
  std::vector<std::string> operands{tensor({c.batch, c.positions, c.width}),
                                    tensor({c.vocabulary, c.width}),
                                    tensor({c.batch, c.positions + 1}, "i32")};
  std::string numbers = tensor({c.batch, c.positions}), sizes = "1, 1, 1";
  sizes += c.bias ? ", 1" : ", 0";
  if (c.bias) {
    operands.push_back(tensor({c.vocabulary}));
  }
  sizes += training && c.rowGradient ? ", 1" : ", 0";
  if (training && c.rowGradient) {
    operands.push_back(numbers);
  }
  sizes = "operandSegmentSizes = array<i32: " + sizes + ">, ";
  std::vector<std::string> results{numbers};
  if (training) {
    results.insert(results.end(), {results[0], operands[0]});
  }
  return buildKernelText("cross_entropy", operands, results,
                         sizes + (training ? "resultSegmentSizes = array<i32: 1, 1, 1>"
                                           : "resultSegmentSizes = array<i32: 1, 0, 0>"),
                         c);
}

std::string weightsText(const CrossEntropyCase &c) {
  std::string weight = tensor({c.vocabulary, c.width}), bias = tensor({c.vocabulary});
  std::vector<std::string> operands{tensor({c.batch, c.positions, c.width}), weight,
                                    tensor({c.batch, c.positions + 1}, "i32"),
                                    tensor({c.batch, c.positions})};
  std::vector<std::string> results{weight};
  std::string sizes = "1, 1, 1, 1";
  auto add = [&](bool wanted, const std::string &type) {
    sizes += wanted ? ", 1" : ", 0";
    if (wanted) {
      operands.push_back(type);
    }
  };
  add(c.bias, bias);
  add(c.rowGradient, operands[3]);
  add(c.init, weight);
  add(c.init && c.bias, bias);
  if (c.bias) {
    results.push_back(bias);
  }
  return buildKernelText("cross_entropy_weight_gradient", operands, results,
                         "operandSegmentSizes = array<i32: " + sizes + ">", c);
}

Floats numbers(int64_t count, unsigned seed, float scale) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> real(-scale, scale);
  Floats result(count);
  for (float &x : result) {
    x = real(engine);
  }
  return result;
}

struct Data {
  Floats input, weight, tokens, bias, initWeight, initBias, rowGradient;
};

/// Invalid rows hold NaN: results computed from them would show.
Data buildData(const CrossEntropyCase &c) {
  Data data{numbers(c.rows() * c.width, 1, 2),
            numbers(c.vocabulary * c.width, 2, 2),
            {},
            numbers(c.vocabulary, 3, 1),
            numbers(c.vocabulary * c.width, 4, 1),
            numbers(c.vocabulary, 5, 1),
            numbers(c.rows(), 7, 1)};
  std::mt19937 engine(6);
  for (int64_t i = 0; i < c.batch * (c.positions + 1); ++i) {
    data.tokens.push_back(float(engine() % c.vocabulary));
  }
  for (int64_t r = 0; r < c.rows(); ++r) {
    if (!c.valid(r)) {
      std::fill_n(data.input.begin() + r * c.width, c.width, NAN);
      data.rowGradient[r] = NAN;
    }
  }
  return data;
}

/// Results in float64, each with an error bound for float32.
struct ExpectedLoss {
  std::vector<double> losses, lse, inputGradient, weightGradient, biasGradient;
  std::vector<double> lossBound, inputBound, weightBound, biasBound;
};

/// One row's logits, their rounding (d products and a bias, each sum rounded) and its loss.
struct ExpectedRow {
  std::vector<double> logits;
  double lse = 0, loss = 0, lossBound = 0;
  int64_t target = 0;
};

/// Expected result of a row for token v.
double getWantedDistribution(const CrossEntropyCase &c, int64_t v, int64_t target) {
  return (v == target ? 1 - double(c.smoothing) : 0) + double(c.smoothing) / double(c.vocabulary);
}

// A logit is off by at most e = (d + 2) u (|w| |x| + |b|). A term e^(x - m) is off by 2 e + u |x -
// m| + 4 u of itself (emitExp: 2 ulp); the sum of them by 132 + V / 126 + 2 roundings more (blocks
// of 126 to 132), and the logarithm of it by as much absolutely and 4 u of itself. The sums of m,
// x[t] and the logarithm round three times.
ExpectedRow computeRow(const CrossEntropyCase &c, const Data &data, int64_t r) {
  ExpectedRow row;
  double error = 0, top = -INFINITY, least = INFINITY;
  for (int64_t v = 0; v < c.vocabulary; ++v) {
    double x = c.bias ? data.bias[v] : 0, magnitude = std::abs(x);
    for (int64_t k = 0; k < c.width; ++k) {
      double term = double(data.input[r * c.width + k]) * data.weight[v * c.width + k];
      x += term;
      magnitude += std::abs(term);
    }
    row.logits.push_back(x);
    error = std::max(error, (c.width + 2) * roundoff * magnitude);
    top = std::max(top, x);
    least = std::min(least, x);
  }
  double sum = 0, vocabulary = double(c.vocabulary);
  for (double x : row.logits) {
    sum += std::exp(x - top);
  }
  int64_t b = r / c.positions, p = r % c.positions + c.offset;
  row.target = p <= c.positions ? int64_t(data.tokens[b * (c.positions + 1) + p]) : 0;
  row.lse = top + std::log(sum);
  for (int64_t v = 0; v < c.vocabulary; ++v) {
    row.loss += getWantedDistribution(c, v, row.target) * (row.lse - row.logits[v]);
  }
  double range = top - least;
  row.lossBound = 4 * error + roundoff * (range + 4 + 134 + vocabulary / 126) +
                  4 * roundoff * std::log(sum) +
                  3 * roundoff * (std::abs(top) + range + std::log(sum));
  if (c.smoothing > 0) { // the sum of V logits below the maximum, its factor and two sums more
    row.lossBound += c.smoothing * (vocabulary + 4) * roundoff * range + 3 * roundoff * range;
  }
  return row;
}

/// A probability is off by at most twice the loss's bound, of itself; the sums of the gradients are
/// sequential.
ExpectedLoss computeExpected(const CrossEntropyCase &c, const Data &data) {
  int64_t d = c.width, vocabulary = c.vocabulary;
  ExpectedLoss e;
  e.losses.assign(c.rows(), 0);
  e.lossBound = e.lse = e.losses;
  e.inputGradient.assign(c.rows() * d, 0);
  e.inputBound = e.inputGradient;
  e.weightGradient.assign(vocabulary * d, 0);
  e.biasGradient.assign(vocabulary, 0);
  if (c.init) {
    std::copy(data.initWeight.begin(), data.initWeight.end(), e.weightGradient.begin());
    std::copy(data.initBias.begin(), data.initBias.end(), e.biasGradient.begin());
  }
  auto rounded = [](const std::vector<double> &values) {
    std::vector<double> bounds;
    for (double x : values) {
      bounds.push_back(2 * roundoff * std::abs(x));
    }
    return bounds;
  };
  e.weightBound = rounded(e.weightGradient);
  e.biasBound = rounded(e.biasGradient);
  double count = double(std::max<int64_t>(1, c.computeLength() - c.first) * c.getValueRows());
  for (int64_t r = 0; r < c.rows(); ++r) {
    if (!c.valid(r)) {
      continue;
    }
    ExpectedRow row = computeRow(c, data, r);
    e.losses[r] = c.scored(r) ? row.loss : 0;
    double share = !c.scored(r)    ? 0
                   : c.rowGradient ? std::abs(double(data.rowGradient[r]))
                                   : c.counts / count;
    double sign = c.rowGradient && data.rowGradient[r] < 0 ? -1 : 1;
    e.lse[r] = row.lse;
    e.lossBound[r] = row.lossBound;
    for (int64_t v = 0; v < vocabulary; ++v) {
      double p = std::exp(row.logits[v] - row.lse), hit = getWantedDistribution(c, v, row.target);
      double g = sign * (p - hit) * share, error = 2 * row.lossBound * (p + hit) * share;
      double alongRows = error + (vocabulary + 4) * roundoff * std::abs(g);
      double alongTokens = error + (count + 8) * roundoff * std::abs(g);
      for (int64_t k = 0; k < d; ++k) {
        double w = data.weight[v * d + k], x = data.input[r * d + k];
        e.inputGradient[r * d + k] += g * w;
        e.inputBound[r * d + k] += alongRows * std::abs(w);
        e.weightGradient[v * d + k] += g * x;
        e.weightBound[v * d + k] += alongTokens * std::abs(x);
      }
      e.biasGradient[v] += g;
      e.biasBound[v] += alongTokens;
    }
  }
  return e;
}

KernelInputs buildLaunch(const CrossEntropyCase &c) {
  return {.length = c.computeLength(), .rows = c.getValueRows(), .shuffle = 7, .threads = 2};
}

std::vector<Floats> runRows(const CrossEntropyCase &c, const Data &data, const LoadedKernel &kernel,
                            KernelInputs launch) {
  launch.operands = {data.input, data.weight, data.tokens};
  if (c.bias) {
    launch.operands.push_back(data.bias);
  }
  if (c.rowGradient && kernel.dispatch()->getNumResults() > 1) {
    launch.operands.push_back(data.rowGradient);
  }
  return kernel.run(launch);
}

std::vector<Floats> runWeights(const CrossEntropyCase &c, const Data &data, const Floats &lse,
                               const LoadedKernel &kernel, KernelInputs launch) {
  launch.operands = {data.input, data.weight, data.tokens, lse};
  if (c.bias) {
    launch.operands.push_back(data.bias);
  }
  if (c.rowGradient) {
    launch.operands.push_back(data.rowGradient);
  }
  if (c.init) {
    launch.shares[0] = launch.operands.size();
    launch.operands.push_back(data.initWeight);
    if (c.bias) {
      launch.shares[1] = launch.operands.size();
      launch.operands.push_back(data.initBias);
    }
  }
  return kernel.run(launch);
}

void expectNear(const Floats &found, const std::vector<double> &expected,
                const std::vector<double> &bounds, const std::string &what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], bounds[i]) << what << " " << i;
  }
}

/// Losses in evaluation and training, and all gradients.
void check(const CrossEntropyCase &c, const cpu::Target &target) {
  SCOPED_TRACE(target.name.str() + ", vocabulary " + std::to_string(c.vocabulary) + ", rows " +
               std::to_string(c.batch) + " x " + std::to_string(c.positions) + ", width " +
               std::to_string(c.width));
  Data data = buildData(c);
  ExpectedLoss expected = computeExpected(c, data);
  LoadedKernel evaluation(rowsText(c, false), target, cpu::generateKernel);
  LoadedKernel training(rowsText(c, true), target, cpu::generateKernel);
  LoadedKernel weights(weightsText(c), target, cpu::generateKernel);
  ASSERT_TRUE(evaluation.loaded() && training.loaded() && weights.loaded());
  std::vector<Floats> rows = runRows(c, data, training, buildLaunch(c));
  expectNear(rows[0], expected.losses, expected.lossBound, "loss");
  EXPECT_EQ(runRows(c, data, evaluation, buildLaunch(c))[0], rows[0]);
  for (int64_t r = 0; r < c.rows(); ++r) {
    if (c.valid(r)) {
      ASSERT_NEAR(rows[1][r], expected.lse[r], expected.lossBound[r]) << "lse " << r;
      continue;
    }
    // Unchanged since the harness filled it.
    EXPECT_EQ(rows[1][r], 1e30f) << "lse of row " << r << ", which is not valid";
    EXPECT_EQ(rows[2][r * c.width], 1e30f) << "gradient of row " << r << ", which is not valid";
    std::fill_n(rows[2].begin() + r * c.width, c.width, 0);
    rows[1][r] = NAN;
  }
  expectNear(rows[2], expected.inputGradient, expected.inputBound, "gradient of the rows");
  std::vector<Floats> gradients = runWeights(c, data, rows[1], weights, buildLaunch(c));
  expectNear(gradients[0], expected.weightGradient, expected.weightBound,
             "gradient of the weights");
  if (c.bias) {
    expectNear(gradients[1], expected.biasGradient, expected.biasBound, "gradient of the bias");
  }
}

void checkAll(const std::vector<CrossEntropyCase> &cases) {
  for (const cpu::Target *target : targets()) {
    for (const CrossEntropyCase &c : cases) {
      check(c, *target);
      if (testing::Test::HasFatalFailure()) {
        return;
      }
    }
  }
}

TEST(CrossEntropy, VocabulariesAndRowsAroundTiles) {
  checkAll({{.positions = 1, .width = 1, .vocabulary = 2},
            {.positions = 7, .width = 5, .vocabulary = 2, .bias = true},
            {.batch = 3, .positions = 43, .width = 16, .vocabulary = 3},
            {.positions = 1, .width = 33, .vocabulary = 257, .bias = true},
            {.positions = 7, .width = 24, .vocabulary = 257},
            {.batch = 3, .positions = 43, .width = 33, .vocabulary = 257, .bias = true},
            {.batch = 3, .positions = 43, .width = 64, .vocabulary = 1000},
            {.batch = 2, .positions = 450, .width = 20, .vocabulary = 48}});
}

TEST(CrossEntropy, LargeVocabulary) {
  checkAll({{.positions = 7, .width = 8, .vocabulary = 33000, .bias = true},
            {.batch = 3, .positions = 43, .width = 3, .vocabulary = 33000, .length = 11}});
}

/// Tied embeddings and accumulated gradients: sums continue from the present values, in place.
TEST(CrossEntropy, InitsInPlace) {
  checkAll({{.batch = 3, .positions = 43, .width = 33, .vocabulary = 257, .init = true},
            {.positions = 7, .width = 5, .vocabulary = 3, .bias = true, .init = true}});
}

TEST(CrossEntropy, InvalidRowsAddNothing) {
  CrossEntropyCase c{.batch = 3, .positions = 43, .width = 17, .vocabulary = 100, .bias = true};
  std::vector<CrossEntropyCase> cases;
  for (auto [length, rows] : {std::pair(1, 1), {1, 3}, {20, 2}, {42, 3}, {43, 1}}) {
    cases.push_back(c);
    cases.back().length = length;
    cases.back().validRows = rows;
  }
  checkAll(cases);
}

/// Every used row at any length and number of rows; a target beyond the tokens is token 0.
TEST(CrossEntropy, HandlesMissingFactorAndOffsets) {
  checkAll({{.batch = 2, .positions = 19, .vocabulary = 11, .factor = 0},
            {.batch = 2, .positions = 19, .vocabulary = 11, .offset = 3}});
}

/// Rows from the first scored one on, a mean with a smaller count, and smoothed labels.
TEST(CrossEntropy, FirstRowsFactorsAndSmoothedLabels) {
  CrossEntropyCase c{
      .batch = 3, .positions = 43, .width = 17, .vocabulary = 135, .bias = true, .init = true};
  c.length = 40;
  CrossEntropyCase late = c, light = c, smooth = c, all = c;
  late.first = all.first = 7;
  light.counts = all.counts = 0.25F;
  smooth.smoothing = all.smoothing = 0.125F;
  CrossEntropyCase none = late;
  none.first = 43; // no row is scored: all gradients are zeros
  checkAll({late, light, smooth, all, none});
}

/// Every row's gradient is its incoming gradient, not the mean's.
TEST(CrossEntropy, HandlesGradientsPerRow) {
  CrossEntropyCase c{.batch = 2, .positions = 29, .width = 24, .vocabulary = 257, .length = 27};
  c.rowGradient = true;
  CrossEntropyCase all = c;
  all.bias = all.init = true;
  all.first = 3;
  all.smoothing = 0.25F;
  checkAll({c, all});
}

/// A row with almost all probability on its target: the loss is far below the logits.
TEST(CrossEntropy, HandlesDistantLogits) {
  for (const cpu::Target *target : targets()) {
    CrossEntropyCase c{.positions = 5, .width = 1, .vocabulary = 3};
    LoadedKernel kernel(rowsText(c, true), *target, cpu::generateKernel);
    Data data{{60, 60, 60, 1e-3f, -200}, {1, 0.8f, -1}, {0, 0, 1, 2, 0, 2}, {}, {}, {}, {}};
    std::vector<Floats> rows = runRows(c, data, kernel, buildLaunch(c));
    ExpectedLoss expected = computeExpected(c, data);
    expectNear(rows[0], expected.losses, expected.lossBound, "loss");
    for (float loss : rows[0]) {
      EXPECT_TRUE(std::isfinite(loss) && loss >= 0) << loss;
    }
  }
}

TEST(CrossEntropy, ResultsDoNotDependOnOrderAndThreads) {
  CrossEntropyCase c{.batch = 3,
                     .positions = 43,
                     .width = 33,
                     .vocabulary = 257,
                     .bias = true,
                     .init = true,
                     .length = 40};
  Data data = buildData(c);
  for (const cpu::Target *target : targets()) {
    LoadedKernel training(rowsText(c, true), *target, cpu::generateKernel);
    LoadedKernel weights(weightsText(c), *target, cpu::generateKernel);
    ASSERT_GE(training.items(), 5);
    ASSERT_GE(weights.items(), 5);
    KernelInputs launch = buildLaunch(c);
    launch.shuffle = 0;
    launch.threads = 1;
    auto rows = runRows(c, data, training, launch);
    auto gradients = runWeights(c, data, rows[1], weights, launch);
    for (auto [threads, shuffle] : {std::pair(1, 3), {2, 1}, {5, 0}, {5, 2}}) {
      launch.threads = threads;
      launch.shuffle = shuffle;
      EXPECT_EQ(runRows(c, data, training, launch), rows);
      EXPECT_EQ(runWeights(c, data, rows[1], weights, launch), gradients);
    }
  }
}

/// The scratch of a kernel holds the logits of at most 48 rows, for any number of rows.
TEST(CrossEntropy, ScratchDoesNotGrowWithRows) {
  for (const cpu::Target *target : targets()) {
    CrossEntropyCase few{.positions = 400, .width = 16, .vocabulary = 1000};
    CrossEntropyCase many{.batch = 100, .positions = 400, .width = 16, .vocabulary = 1000};
    for (auto text : {+[](const CrossEntropyCase &c) { return rowsText(c, true); },
                      +[](const CrossEntropyCase &c) { return weightsText(c); }}) {
      LoadedKernel small(text(few), *target, cpu::generateKernel);
      LoadedKernel large(text(many), *target, cpu::generateKernel);
      EXPECT_EQ(large.kernel().scratchBytes, small.kernel().scratchBytes);
      EXPECT_LT(large.kernel().scratchBytes, 64 * 1000 * 4 + (1 << 16));
    }
  }
}

} // namespace
