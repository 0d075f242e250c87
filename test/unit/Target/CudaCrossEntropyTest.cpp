// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Head and cross-entropy on tensor cores, emulated and checked by the oracle, compared with
// float64.
#include "EmulatedKernel.h"
#include "RowsText.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr double unit32 = 0x1p-23, unit16 = 0x1p-8;

struct CudaLossCase {
  int64_t batch = 1, positions = 1, width = 8, vocabulary = 2;
  bool bias = false, init = false;
  int64_t factor = 1, offset = 1;
  float scale = 1;           ///< of the rows
  bool wideGradient = false; ///< the rows' gradient is f32
  int64_t first = 0;
  float smoothing = 0, counts = 1; ///< `counts` is the number of rows in the mean
  bool rowGradient = false;

  int64_t rows() const { return batch * positions; }
};

std::string buildKernelText(const std::string &op, const std::vector<std::string> &operands,
                            const std::vector<std::string> &results, const std::string &attributes,
                            const CudaLossCase &c) {
  std::string parameters, names, types, outs;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string comma = i ? ", " : "", name = "%a" + std::to_string(i);
    parameters += comma + name + ": " + operands[i];
    names += comma + name;
    types += comma + operands[i];
  }
  for (size_t i = 0; i < results.size(); ++i) {
    outs += (i ? ", " : "") + results[i];
  }
  return "func.func @f(" + parameters + ") {\n  %r:" + std::to_string(results.size()) +
         " = dispatch." + op + " " + names +
         " attributes {domain = #dispatch.domain<batch = " + std::to_string(c.batch) +
         ", positions = " + std::to_string(c.positions) + ", factor = " + std::to_string(c.factor) +
         ">, offset = " + std::to_string(c.offset) + " : i64, first = " + std::to_string(c.first) +
         " : i64, smoothing = " + std::to_string(c.smoothing) +
         " : f32, factor = " + std::to_string(c.counts) + " : f32, " + attributes + "} : (" +
         types + ") -> (" + outs + ")\n  return\n}";
}

std::vector<std::string> commonOperands(const CudaLossCase &c) {
  return {tensor({c.batch, c.positions, c.width}, "bf16"), tensor({c.vocabulary, c.width}, "bf16"),
          tensor({c.batch, c.positions + 1}, "i32")};
}

enum class Wanted { Losses, LossesAndGradient, All };

std::string rowsText(const CudaLossCase &c, Wanted wanted) {
  auto operands = commonOperands(c);
  if (c.bias) {
    operands.push_back(tensor({c.vocabulary}));
  }
  std::string numbers = tensor({c.batch, c.positions});
  if (c.rowGradient) {
    operands.push_back(numbers);
  }
  std::vector<std::string> results{numbers};
  if (wanted == Wanted::All) {
    results.push_back(numbers);
  }
  if (wanted != Wanted::Losses) {
    results.push_back(tensor({c.batch, c.positions, c.width}, c.wideGradient ? "f32" : "bf16"));
  }
  const char *sizes[] = {"1, 0, 0", "1, 0, 1", "1, 1, 1"};
  return buildKernelText("cross_entropy", operands, results,
                         std::string("operandSegmentSizes = array<i32: 1, 1, 1, ") +
                             (c.bias ? "1, " : "0, ") + (c.rowGradient ? "1" : "0") +
                             ">, resultSegmentSizes = array<i32: " + sizes[int(wanted)] + ">",
                         c);
}

std::string weightsText(const CudaLossCase &c) {
  std::string weight = tensor({c.vocabulary, c.width}), bias = tensor({c.vocabulary});
  auto operands = commonOperands(c);
  operands.push_back(tensor({c.batch, c.positions}));
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
  std::vector<std::string> results{weight};
  if (c.bias) {
    results.push_back(bias);
  }
  return buildKernelText("cross_entropy_weight_gradient", operands, results,
                         "operandSegmentSizes = array<i32: " + sizes + ">", c);
}

/// Everything in float64, with error bounds for f32 sums and exponentials.
struct Reference {
  Reference(const CudaLossCase &c, const CudaRun &run) : c(c), run(run) {
    const Floats &x = run.operands[0], &w = run.operands[1];
    for (int64_t r = 0; r < c.rows(); ++r) {
      lse.push_back(0);
      loss.push_back(0);
      lseError.push_back(0);
      gradient.emplace_back(size_t(c.vocabulary));
      gradientError.emplace_back(size_t(c.vocabulary));
      if (!isValid(r)) {
        continue;
      }
      bool scored = r % c.positions >= c.first;
      valid += scored;
      std::vector<double> logits, errors;
      for (int64_t v = 0; v < c.vocabulary; ++v) {
        double sum = c.bias ? run.operands[biasAt][size_t(v)] : 0, magnitude = std::abs(sum);
        for (int64_t k = 0; k < c.width; ++k) {
          double term = double(x[size_t(r * c.width + k)]) * w[size_t(v * c.width + k)];
          sum += term;
          magnitude += std::abs(term);
        }
        logits.push_back(sum);
        errors.push_back(double(c.width + 1) * unit32 * magnitude);
      }
      double top = *std::max_element(logits.begin(), logits.end()), total = 0;
      for (double logit : logits) {
        total += std::exp(logit - top);
      }
      lse[size_t(r)] = top + std::log(total);
      // One rounding per term and two per block of tokens; exponentials, logarithm and sums a few
      // ulp.
      double worst = *std::max_element(errors.begin(), errors.end());
      lseError[size_t(r)] = worst + double(c.vocabulary + 3 * (c.vocabulary / 128) + 32) * unit32 +
                            4 * unit32 * (std::abs(lse[size_t(r)]) + std::abs(top));
      int64_t target = getTargetToken(r);
      double even = double(c.smoothing) / double(c.vocabulary);
      auto wanted = [&](int64_t v) { return even + (v == target ? 1 - double(c.smoothing) : 0); };
      for (int64_t v = 0; scored && v < c.vocabulary; ++v) {
        loss[size_t(r)] += wanted(v) * (lse[size_t(r)] - logits[size_t(v)]);
      }
      double magnitudes = 0; // of the logits that a smoothed target sums up
      for (double logit : logits) {
        magnitudes += even * (std::abs(logit) + std::abs(top));
      }
      smoothingError.resize(size_t(r) + 1);
      smoothingError[size_t(r)] = double(c.vocabulary + 8) * unit32 * magnitudes;
      double incoming = !scored         ? 0
                        : c.rowGradient ? double(run.operands[biasAt + (c.bias ? 1 : 0)][size_t(r)])
                                        : double(c.counts);
      for (int64_t v = 0; v < c.vocabulary; ++v) {
        double p = std::exp(logits[size_t(v)] - lse[size_t(r)]);
        double off = errors[size_t(v)] + lseError[size_t(r)] + 16 * unit32;
        double g = incoming * (p - wanted(v));
        gradient[size_t(r)][size_t(v)] = g;
        double error = std::abs(incoming) * (p * off * 1.1 + 3 * unit32);
        gradientError[size_t(r)][size_t(v)] = error + unit16 * (std::abs(g) + error);
      }
    }
  }
  bool isValid(int64_t row) const {
    return c.factor == 0 || (row / c.positions < run.rows &&
                             row % c.positions < (run.length + c.factor - 1) / c.factor);
  }
  int64_t getTargetToken(int64_t row) const {
    int64_t at = row % c.positions + c.offset;
    return at < 0 || at > c.positions
               ? 0
               : int64_t(run.operands[2][size_t(row / c.positions * (c.positions + 1) + at)]);
  }
  const CudaLossCase &c;
  const CudaRun &run;
  size_t biasAt = 3;
  int64_t valid = 0;
  /// Divisor of sums over rows.
  double divisor() const { return c.rowGradient ? 1 : double(std::max<int64_t>(valid, 1)); }

  std::vector<double> lse, loss, lseError, smoothingError;
  std::vector<std::vector<double>> gradient, gradientError; ///< times the divisor
};

CudaRun runOnNumbers(const CudaLossCase &c, unsigned seed) {
  std::vector<float> tokens = smallIntegers(c.batch * (c.positions + 1), seed + 3, 1 << 20);
  for (float &token : tokens) {
    token = float(int64_t(std::abs(token)) % c.vocabulary);
  }
  Floats x = bf16Numbers(c.rows() * c.width, seed + 1);
  for (float &value : x) {
    value = roundedToBf16(value * c.scale);
  }
  CudaRun run{.operands = {x, bf16Numbers(c.vocabulary * c.width, seed + 2), tokens},
              .length = c.positions * std::max<int64_t>(c.factor, 1),
              .rows = c.batch};
  if (c.bias) {
    run.operands.push_back(bf16Numbers(c.vocabulary, seed + 4));
  }
  if (c.rowGradient) {
    run.operands.push_back(bf16Numbers(c.rows(), seed + 5));
  }
  return run;
}

/// Invalid rows hold NaN, and do not matter.
CudaRun poisoned(const Reference &reference, CudaRun run) {
  const CudaLossCase &c = reference.c;
  for (int64_t i = 0; i < c.rows() * c.width; ++i) {
    if (!reference.isValid(i / c.width)) {
      run.operands[0][size_t(i)] = NAN;
    }
  }
  return run;
}

void checkRows(const CudaLossCase &c, EmulatedKernel &kernel, const CudaRun &run, Wanted wanted) {
  Reference reference(c, run);
  auto results = kernel.run(poisoned(reference, run));
  ASSERT_EQ(results.size(), size_t(wanted) + 1);
  bool training = wanted != Wanted::Losses, keeps = wanted == Wanted::All;
  const Floats &lse = results[keeps ? 1 : 0], &gradient = results.back();
  for (int64_t r = 0; r < c.rows(); ++r) {
    float loss = results[0][size_t(r)];
    if (!reference.isValid(r)) {
      ASSERT_EQ(loss, 0) << r;
      ASSERT_TRUE(!keeps || isUntouched(lse[size_t(r)]));
      ASSERT_TRUE(!training || isUntouched(gradient[size_t(r * c.width)]));
      continue;
    }
    double error = reference.lseError[size_t(r)];
    bool scored = r % c.positions >= c.first;
    double lossError = scored ? 2 * error + reference.smoothingError[size_t(r)] : 0;
    ASSERT_NEAR(loss, reference.loss[size_t(r)], lossError) << "row " << r;
    if (!training) {
      continue;
    }
    if (keeps) {
      ASSERT_NEAR(lse[size_t(r)], reference.lse[size_t(r)], error) << "row " << r;
    }
    for (int64_t k = 0; k < c.width; ++k) {
      double sum = 0, bound = 0;
      for (int64_t v = 0; v < c.vocabulary; ++v) {
        double g = reference.gradient[size_t(r)][size_t(v)];
        double w = run.operands[1][size_t(v * c.width + k)];
        sum += g * w;
        bound += (reference.gradientError[size_t(r)][size_t(v)] +
                  double(c.vocabulary + 4) * unit32 * std::abs(g)) *
                 std::abs(w);
      }
      sum /= reference.divisor();
      bound /= reference.divisor();
      double rounding = c.wideGradient ? unit32 : unit16;
      ASSERT_NEAR(gradient[size_t(r * c.width + k)], sum,
                  bound + rounding * (std::abs(sum) + bound))
          << "row " << r << " column " << k << " of " << c.vocabulary << " x " << c.width;
    }
  }
}

const CudaLossCase shapes[] = {
    {.batch = 2, .positions = 45, .width = 70, .vocabulary = 300, .bias = true, .init = true},
    {.batch = 3, .positions = 50, .width = 139, .vocabulary = 129},
    {.batch = 1, .positions = 20, .width = 301, .vocabulary = 40},
    {.batch = 1, .positions = 3, .width = 1, .vocabulary = 1},
    {.batch = 2, .positions = 40, .width = 260, .vocabulary = 256, .factor = 2, .scale = 8},
    {.batch = 1, .positions = 70, .width = 530, .vocabulary = 67, .bias = true, .offset = 0},
};

/// Everything for each shape; RowGradientsOfF32 has the gradients alone of each.
TEST(CudaCrossEntropy, LossesAndRowGradients) {
  unsigned seed = 0;
  for (const CudaLossCase &c : shapes) {
    bool isFirst = &c == shapes;
    std::vector<Wanted> subsets{Wanted::Losses, Wanted::All};
    if (isFirst) {
      subsets.push_back(Wanted::LossesAndGradient);
    }
    for (Wanted wanted : subsets) {
      EmulatedKernel kernel(rowsText(c, wanted));
      ASSERT_TRUE(kernel.made());
      CudaRun run = runOnNumbers(c, seed += 10);
      checkRows(c, kernel, run, wanted);
      run.rows = std::max<int64_t>(1, c.batch - 1);
      run.length = std::max<int64_t>(1, run.length / 2);
      run.options = emulator::Options{.seed = seed, .schedule = emulator::Schedule::WarpAlone};
      checkRows(c, kernel, run, wanted);
    }
  }
}

TEST(CudaCrossEntropy, RowGradientsOfF32) {
  unsigned seed = 500;
  for (CudaLossCase c : shapes) {
    c.wideGradient = true;
    EmulatedKernel kernel(rowsText(c, Wanted::LossesAndGradient));
    ASSERT_TRUE(kernel.made());
    CudaRun run = runOnNumbers(c, seed += 10);
    run.options = emulator::Options{.seed = seed, .schedule = emulator::Schedule::WarpAlone};
    checkRows(c, kernel, run, Wanted::LossesAndGradient);
  }
}

void checkWeights(const CudaLossCase &c, EmulatedKernel &kernel, CudaRun run, unsigned seed) {
  Reference reference(c, run);
  CudaRun given = poisoned(reference, run);
  Floats lse, initWeight, initBias;
  for (int64_t r = 0; r < c.rows(); ++r) {
    lse.push_back(reference.isValid(r) ? float(reference.lse[size_t(r)]) : NAN);
  }
  given.operands.insert(given.operands.begin() + 3, lse);
  if (c.init) {
    given.operands.push_back(initWeight = bf16Numbers(c.vocabulary * c.width, seed + 6));
    if (c.bias) {
      given.operands.push_back(initBias = bf16Numbers(c.vocabulary, seed + 7));
    }
  }
  auto results = kernel.run(given);
  ASSERT_EQ(results.size(), c.bias ? 2u : 1u);
  double roundings = double(c.rows()) + 300;
  for (int64_t v = 0; v < c.vocabulary; ++v) {
    for (int64_t k = 0; k <= c.width; ++k) {
      bool isBias = k == c.width;
      if (isBias && !c.bias) {
        continue;
      }
      double sum = 0, bound = 0;
      for (int64_t r = 0; r < c.rows(); ++r) {
        if (reference.isValid(r)) {
          double x = isBias ? 1 : run.operands[0][size_t(r * c.width + k)];
          double g = reference.gradient[size_t(r)][size_t(v)];
          sum += g * x;
          bound +=
              (reference.gradientError[size_t(r)][size_t(v)] + roundings * unit32 * std::abs(g)) *
              std::abs(x);
        }
      }
      sum /= reference.divisor();
      bound /= reference.divisor();
      double init = !c.init  ? 0
                    : isBias ? initBias[size_t(v)]
                             : initWeight[size_t(v * c.width + k)];
      float found = isBias ? results[1][size_t(v)] : results[0][size_t(v * c.width + k)];
      ASSERT_NEAR(found, init + sum, bound + unit32 * (std::abs(init) + std::abs(sum)))
          << "token " << v << " column " << k;
    }
  }
}

/// Unscored first rows, factors, smoothed labels, and gradients per row.
std::vector<CudaLossCase> otherScorings() {
  CudaLossCase late{
      .batch = 2, .positions = 20, .width = 70, .vocabulary = 300, .bias = true, .init = true};
  CudaLossCase all{.batch = 1, .positions = 30, .width = 139, .vocabulary = 129};
  late.first = all.first = 7;
  late.counts = 0.25F;
  all.smoothing = 0.125F;
  all.rowGradient = true;
  return {late, all};
}

TEST(CudaCrossEntropy, OtherScorings) {
  unsigned seed = 900;
  for (const CudaLossCase &c : otherScorings()) {
    CudaRun run = runOnNumbers(c, seed += 10);
    run.length = c.positions - 4;
    for (Wanted wanted : {Wanted::Losses, Wanted::All}) {
      EmulatedKernel kernel(rowsText(c, wanted));
      ASSERT_TRUE(kernel.made());
      checkRows(c, kernel, run, wanted);
    }
    EmulatedKernel kernel(weightsText(c));
    ASSERT_TRUE(kernel.made());
    checkWeights(c, kernel, run, seed);
  }
}

/// Few tokens, so all but the smallest case split rows among blocks.
TEST(CudaCrossEntropy, WeightAndBiasGradients) {
  unsigned seed = 100;
  for (CudaLossCase c : shapes) {
    EmulatedKernel kernel(weightsText(c));
    ASSERT_TRUE(kernel.made());
    CudaRun run = runOnNumbers(c, seed += 10);
    checkWeights(c, kernel, run, seed);
    run.rows = std::max<int64_t>(1, c.batch - 1);
    run.length = std::max<int64_t>(1, run.length / 2);
    run.options = emulator::Options{
        .seed = seed, .schedule = emulator::Schedule::Random, .copies = emulator::Copies::Early};
    checkWeights(c, kernel, run, seed);
  }
}

TEST(CudaCrossEntropy, SplitsWeightGradientsOfManyRows) {
  CudaLossCase c{
      .batch = 9, .positions = 130, .width = 40, .vocabulary = 70, .bias = true, .init = true};
  EmulatedKernel kernel(weightsText(c));
  ASSERT_TRUE(kernel.made());
  EXPECT_EQ(kernel.kernel().stages.size(), 1u);
  EXPECT_GT(kernel.kernel().counters, 0);
  CudaRun run = runOnNumbers(c, 1);
  checkWeights(c, kernel, run, 1);
}

TEST(CudaCrossEntropy, TrafficIsConflictFree) {
  CudaLossCase c{.batch = 1, .positions = 128, .width = 256, .vocabulary = 256, .factor = 0};
  for (bool rows : {true, false}) {
    EmulatedKernel kernel(rows ? rowsText(c, Wanted::All) : weightsText(c));
    ASSERT_TRUE(kernel.made());
    CudaRun run = runOnNumbers(c, 1);
    if (!rows) {
      run.operands.insert(run.operands.begin() + 3, Floats(size_t(c.rows()), 5.5f));
    }
    kernel.run(run);
    for (const emulator::Report &report : kernel.reports) {
      const emulator::Counters &counted = report.counters;
      EXPECT_EQ(counted.bankConflicts(), 0u);
      std::cout << "sectors " << counted.leastSectors << " of " << counted.globalSectors
                << ", tensor share " << counted.tensorShare() << "\n";
    }
  }
}

TEST(CudaCrossEntropy, AssemblesWithoutSpills) {
  const char *mma = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
  for (CudaLossCase c :
       {CudaLossCase{.batch = 3,
                     .positions = 100,
                     .width = 500,
                     .vocabulary = 300,
                     .bias = true,
                     .init = true},
        CudaLossCase{.batch = 3, .positions = 100, .width = 501, .vocabulary = 301},
        CudaLossCase{.batch = 16,
                     .positions = 1024,
                     .width = 512,
                     .vocabulary = 32000,
                     .bias = true,
                     .init = true,
                     .first = 3,
                     .smoothing = 0.125F}}) {
    GeneratedKernel(rowsText(c, Wanted::All)).checkAssembly({mma});
    GeneratedKernel(weightsText(c)).checkAssembly({mma});
  }
}

} // namespace
