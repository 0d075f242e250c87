// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's CUDA kernels on the emulator, forward and backward, against the float64 reference
// from the same bf16 inputs, and against themselves; as PTX and, where ptxas is present, as cubins.
#include "AttentionReference.h"
#include "EmulatedKernel.h"

#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <iostream>
#include <random>

using namespace sluice;
using namespace sluice::test;
using emulator::Copies;
using emulator::Schedule;

namespace {

mlir::FailureOr<cuda::Kernel> generate(mlir::Operation *op, mlir::ModuleOp module,
                                       llvm::StringRef name) {
  if (auto forward = mlir::dyn_cast<dispatch::AttentionOp>(op)) {
    return cuda::generateAttention(forward, module, name);
  }
  return cuda::generateAttentionBackward(mlir::cast<dispatch::AttentionBackwardOp>(op), module,
                                         name);
}

CudaRun forwardRun(const AttentionCase &c, const AttentionData &data, Schedule schedule,
                   Copies copies) {
  CudaRun run{.operands = {data.qkv, data.qkv, data.qkv},
              .length = c.length,
              .rows = c.rows,
              .step = c.step,
              .seed = c.seed};
  if (c.rotary) {
    run.operands.push_back(data.rotary);
  }
  run.options.schedule = schedule;
  run.options.copies = copies;
  run.options.seed = 7;
  return run;
}

CudaRun backwardRun(const AttentionCase &c, const AttentionData &data, Schedule schedule,
                    Copies copies) {
  CudaRun run = forwardRun(c, data, schedule, copies);
  run.operands.resize(3);
  run.operands.insert(run.operands.end(), {data.outputIn, data.lseIn, data.outputGradient});
  if (c.rotary) {
    run.operands.push_back(data.rotary);
  }
  return run;
}

bool isValid(const AttentionCase &c, int64_t row) {
  return row / c.positions < c.rows && row % c.positions < c.valid();
}

/// Every element within its bound; rows that are not valid as the op says: zeros where `zeros`,
/// else left alone.
void compare(const AttentionCase &c, const std::vector<float> &found, const Expected &expected,
             int64_t width, bool zeros, bool bf16, const std::string &what) {
  ASSERT_EQ(found.size(), expected.value.size());
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    int64_t row = int64_t(i) / width;
    std::string where = what + ": row " + std::to_string(row) + " column " +
                        std::to_string(int64_t(i) % width) + " found " + std::to_string(found[i]);
    if (!isValid(c, row)) {
      ASSERT_TRUE(zeros ? found[i] == 0 : EmulatedKernel::isUntouched(found[i], bf16)) << where;
      continue;
    }
    double error = std::abs(double(found[i]) - expected.value[i]);
    bool same = std::isinf(expected.value[i]) ? double(found[i]) == expected.value[i]
                                              : error <= expected.bound[i];
    ASSERT_TRUE(same) << where << ", expected " << expected.value[i] << " within "
                      << expected.bound[i];
    worst = expected.bound[i] > 0 ? std::max(worst, error / expected.bound[i]) : worst;
  }
  std::cout << c.name << ", " << what << ": worst error " << worst << " of its bound\n";
}

/// Loads of matrices and shares of tensor-core instructions, launch by launch.
void checkTraffic(const AttentionCase &c, const EmulatedKernel &kernel) {
  for (auto [i, report] : llvm::enumerate(kernel.reports)) {
    const emulator::Counters &counters = report.counters;
    for (const emulator::SiteTraffic &site : counters.sites) {
      if (site.instruction.find("ldmatrix") != std::string::npos) {
        EXPECT_EQ(site.units, site.leastUnits) << c.name << ": " << site.instruction;
      }
    }
    bool even = (c.head & (c.head - 1)) == 0 && c.head >= 16;
    if (even && !c.rotary) {
      EXPECT_EQ(counters.bankConflicts(), 0u) << c.name << ", launch " << i;
    }
    cuda::Stage stage = kernel.kernel().stages[i];
    std::cout << c.name << ", " << stage.function.getName().str() << ": " << stage.sharedBytes
              << " bytes of shared memory, tensor cores " << 100 * counters.tensorShare()
              << "% of instructions, " << double(counters.tensorFlops) / 1e6 << " MFLOP\n";
  }
}

/// Both directions, with the case's own length and with `others`: a kernel serves all lengths.
void check(AttentionCase c, std::vector<int64_t> others = {}) {
  c.bf16 = true;
  others.push_back(c.length);
  EmulatedKernel forward(c.forwardText(), generate), backward(c.backwardText(), generate);
  ASSERT_TRUE(forward.made() && backward.made()) << c.name;
  EXPECT_EQ(backward.kernel().stages.size(), 2u) << c.name;
  for (int64_t length : others) {
    SCOPED_TRACE(c.name + ", length " + std::to_string(length));
    c.length = length;
    AttentionData data = makeAttention(c);
    auto results = forward.run(forwardRun(c, data, Schedule::WarpAlone, Copies::Late));
    compare(c, results[0], data.output, c.heads * c.head, false, c.bf16Results(), "output");
    compare(c, results[1], data.lse, c.heads, false, false, "log-sum-exp");
    checkTraffic(c, forward);
    auto gradient = backward.run(backwardRun(c, data, Schedule::WarpAlone, Copies::Late));
    compare(c, gradient[0], data.gradient, c.width(), true, c.bf16Results(), "gradient");
    checkTraffic(c, backward);
  }
}

const Score plain = scaled(0.25);
const Relation shifted{"affine_set<(p, q)[n] : (p - q - 3 >= 0, q - p + 80 >= 0)>",
                       [](int64_t p, int64_t q, int64_t) { return q <= p - 3 && q >= p - 80; }};
const Relation thirds{"affine_set<(p, q)[n] : ((p + 1) floordiv 3 - q >= 0)>",
                      [](int64_t p, int64_t q, int64_t) { return q <= (p + 1) / 3; }};
const Relation residues{
    "affine_set<(p, q)[n] : ((p + q) mod 3 == 0, p ceildiv 2 - q + 20 >= 0)>",
    [](int64_t p, int64_t q, int64_t) { return (p + q) % 3 == 0 && q <= (p + 1) / 2 + 20; }};

TEST(CudaAttention, CausalHeadOf64) {
  check({"head of 64", 2, 200, 2, 2, 64, 197, 2, causal(), plain}, {1, 64, 129});
}

/// Enough blocks for 128 queries each; all but one row of the batch are not valid.
TEST(CudaAttention, TwoFragmentsAWarp) {
  check({"two fragments", 67, 140, 1, 1, 48, 133, 1, causal(), plain}, {63});
}

TEST(CudaAttention, HeadOf16WindowAndCoarseScale) {
  check({"window, coarse", 2, 150, 1, 1, 16, 440, 1, window(70), plain, false, 0, 3, 3}, {50});
}

TEST(CudaAttention, GroupedHeadsBidirectional) {
  check({"grouped", 1, 130, 4, 2, 32, 130, 1, everything(), plain}, {70});
}

TEST(CudaAttention, HeadOf128) {
  check({"head of 128", 1, 140, 1, 1, 128, 131, 1, causal(), plain});
}

/// The widest: two blocks sum half of the columns each.
TEST(CudaAttention, HeadOf256) {
  check({"head of 256", 2, 100, 2, 1, 256, 93, 2, causal(), scaled(0.0625)}, {30});
}

TEST(CudaAttention, ResultsOfF32) {
  AttentionCase even{"f32, head of 64", 2, 100, 2, 1, 64, 93, 2, causal(), plain},
      odd{"f32, head of 5", 1, 70, 3, 3, 5, 66, 1, residues, linearBias()},
      wide{"f32, head of 136, rotary", 1, 70, 1, 1, 136, 67, 1, causal(), scaled(0.125), true};
  for (AttentionCase *c : {&even, &odd, &wide}) {
    c->wideResults = true;
    check(*c, {3});
  }
}

TEST(CudaAttention, ShiftedWindowWithEmptyRowsAndRotary) {
  check({"head of 40, rotary", 1, 170, 2, 1, 40, 165, 1, shifted, plain, true}, {2});
}

TEST(CudaAttention, SoftCapAndRotary) {
  check({"soft cap, rotary", 1, 140, 2, 1, 64, 133, 1, thirds, softCap(2), true});
}

TEST(CudaAttention, DropoutDrawsWhatTheCpuDraws) {
  check({"dropout, fours", 2, 132, 2, 1, 32, 130, 2, causal(), plain, false, 0.25f});
  check({"dropout, pairs", 2, 130, 2, 1, 16, 130, 2, causal(), plain, false, 0.25f});
  check({"dropout, alone, wide", 1, 67, 1, 1, 72, 67, 1, causal(), plain, false, 0.5f, 9});
}

TEST(CudaAttention, HeadsOfAnySize) {
  check({"head of 5", 1, 70, 3, 3, 5, 66, 1, residues, linearBias()});
  check({"head of 20, rotary", 1, 70, 3, 1, 20, 69, 1, causal(), plain, true});
  check({"head of 136", 1, 70, 1, 1, 136, 67, 1, causal(), scaled(0.125), true});
}

/// NaN in what an empty tile would read reaches nobody: a tile that is computed and then masked
/// would give 0 * NaN.
TEST(CudaAttention, EmptyTilesAreSkipped) {
  AttentionCase c{"skip", 1, 320, 1, 1, 16, 320, 1, causal(), plain};
  c.bf16 = true;
  AttentionData data = makeAttention(c);
  CudaRun forward = forwardRun(c, data, Schedule::InOrder, Copies::Late),
          backward = backwardRun(c, data, Schedule::InOrder, Copies::Late);
  for (int64_t p = 0; p < 320; ++p) {
    for (int64_t i = 0; i < 16; ++i) {
      float &value = forward.operands[2][p * c.width() + 32 + i];
      value = p >= 256 ? NAN : value;
      float &gradient = backward.operands[5][p * 16 + i];
      gradient = p < 64 ? NAN : gradient;
    }
  }
  auto outside = [&](std::vector<float> &found, const Expected &expected, int64_t from,
                     int64_t to) {
    EXPECT_TRUE(std::isnan(found[(to - 1) * int64_t(found.size()) / 320 - 1]))
        << "the poison is where it should be";
    for (int64_t i = from * int64_t(found.size()) / 320; i < to * int64_t(found.size()) / 320;
         ++i) {
      found[i] = float(expected.value[i]);
    }
  };
  auto output = EmulatedKernel(c.forwardText(), generate).run(forward)[0];
  outside(output, data.output, 256, 320);
  compare(c, output, data.output, 16, false, true, "output");
  auto gradient = EmulatedKernel(c.backwardText(), generate).run(backward)[0];
  outside(gradient, data.gradient, 0, 64);
  compare(c, gradient, data.gradient, c.width(), true, true, "gradient");
}

/// Whole numbers, so that products do not round: what is expected of one query.
struct Winners {
  double most = -INFINITY;   ///< product of the query and a key
  std::vector<int64_t> keys; ///< that have it
};

Winners winnersOf(const AttentionCase &c, const std::vector<float> &qkv, int64_t h, int64_t p) {
  Winners winners;
  for (int64_t j = 0; j <= p; ++j) {
    double product = 0;
    for (int64_t i = 0; i < c.head; ++i) {
      product += double(qkv[p * c.width() + h * c.head + i]) *
                 double(qkv[j * c.width() + c.heads * c.head + i]);
    }
    if (product > winners.most) {
      winners = {product, {}};
    }
    if (product == winners.most) {
      winners.keys.push_back(j);
    }
  }
  return winners;
}

/// Queries and keys whose products are far below zero for the first 64 keys, zero for the next 32,
/// and then rise; values and output gradients of a few.
std::vector<float> wholeNumbers(const AttentionCase &c) {
  std::vector<float> qkv(c.positions * c.width());
  std::mt19937 random(3);
  for (int64_t i = 0; i < int64_t(qkv.size()); ++i) {
    int64_t p = i / c.width(), column = i % c.width(), inHead = column % c.head;
    float drawn = float(random() % 5) - 2;
    bool isKey = column / c.head == c.heads, isFirst = column / c.head <= c.heads && inHead == 0;
    float leading = !isKey ? 1 : p < 64 ? -80 : float(p - 96);
    qkv[i] = isFirst ? leading : drawn;
    qkv[i] = isKey && p >= 64 && p < 96 ? 0 : qkv[i];
  }
  return qkv;
}

/// All of a query's weight is on the keys of its largest score where scores are this large; several
/// such keys share it, and then the output gradient is zero, for a log-sum-exp of f32 cannot tell.
void checkExtreme(const Score &score, double factor) {
  AttentionCase c{"extreme", 1, 200, 2, 1, 32, 197, 1, causal(), score};
  c.bf16 = true;
  AttentionData data;
  data.qkv = wholeNumbers(c);
  int64_t wide = c.heads * c.head;
  Expected output(c.positions * wide), lse(c.positions * c.heads),
      gradient(c.positions * c.width());
  data.outputIn.resize(c.positions * wide);
  data.outputGradient.resize(c.positions * wide);
  data.lseIn.resize(c.positions * c.heads);
  int64_t below = 0, above = 0;
  for (int64_t p = 0; p < c.valid(); ++p) {
    for (int64_t h = 0; h < c.heads; ++h) {
      Winners winners = winnersOf(c, data.qkv, h, p);
      auto count = double(winners.keys.size());
      below += winners.most < 0;
      above += winners.most > 0;
      double logSum = double(float(winners.most) * float(factor)) + std::log(count);
      lse.value[p * c.heads + h] = logSum;
      lse.bound[p * c.heads + h] = 0x1p-22 * (std::abs(logSum) + 1);
      data.lseIn[p * c.heads + h] = float(logSum);
      // A weight is 1 exactly where the score alone decides; e^x of two roundings and log2(e)'s own
      // elsewhere.
      bool exact = count == 1 && std::abs(logSum) > 0x1p17;
      double weight = std::expm1(3 * 0x1p-24 * std::abs(logSum));
      for (int64_t i = 0; i < c.head; ++i) {
        int64_t at = p * wide + h * c.head + i, valueColumn = (c.heads + 1) * c.head + i;
        for (int64_t j : winners.keys) {
          output.value[at] += data.qkv[j * c.width() + valueColumn] / count;
        }
        output.bound[at] = exact ? 0 : 2 * (0x1p-8 + 0x1p-20) * 2; // of weights and outputs
        data.outputIn[at] = float(output.value[at]);
        data.outputGradient[at] = count == 1 ? float((at * 31) % 7 - 3) : 0;
        int64_t of = winners.keys[0] * c.width() + valueColumn;
        gradient.value[of] += data.outputGradient[at];
        gradient.bound[of] += exact ? 0 : 3 * (weight + 2 * 0x1p-8);
      }
    }
  }
  for (double &value : gradient.value) {
    value = roundedToBf16(float(value));
  }
  EXPECT_TRUE(below > 64 && above > 64) << "scores of both signs are extreme";
  EmulatedKernel forward(c.forwardText(), generate), backward(c.backwardText(), generate);
  ASSERT_TRUE(forward.made() && backward.made());
  auto results = forward.run(forwardRun(c, data, Schedule::WarpAlone, Copies::Late));
  compare(c, results[0], output, wide, false, true, "output");
  compare(c, results[1], lse, c.heads, false, false, "log-sum-exp");
  auto found = backward.run(backwardRun(c, data, Schedule::WarpAlone, Copies::Late));
  compare(c, found[0], gradient, c.width(), true, true, "gradient");
}

TEST(CudaAttention, ScoresOfAnyMagnitude) {
  Score region = scaled(4e9);
  region.text = "%c = arith.constant 4.0e9 : f32\n%z = arith.constant 0.0 : f32\n"
                "%scaled = arith.mulf %s, %c : f32\n%r = arith.addf %scaled, %z : f32\n";
  checkExtreme(region, 4e9);
  for (double factor : {1e3, 1e6, 1e10, 3e12, 1e30}) {
    checkExtreme(scaled(factor), factor);
  }
}

/// The same bits whatever the order of threads, blocks and copies.
TEST(CudaAttention, SchedulesChangeNothing) {
  AttentionCase c{"schedules", 2, 140, 2, 1, 32, 131, 2, causal(), softCap(2), true, 0.125f};
  c.bf16 = true;
  AttentionData data = makeAttention(c);
  for (bool isForward : {true, false}) {
    EmulatedKernel kernel(isForward ? c.forwardText() : c.backwardText(), generate);
    ASSERT_TRUE(kernel.made());
    auto launch = [&](Schedule schedule, Copies copies) {
      return kernel.run(isForward ? forwardRun(c, data, schedule, copies)
                                  : backwardRun(c, data, schedule, copies));
    };
    auto expected = launch(Schedule::WarpAlone, Copies::Late);
    for (auto [schedule, copies] : {std::pair(Schedule::Random, Copies::Random),
                                    std::pair(Schedule::InOrder, Copies::Early)}) {
      auto found = launch(schedule, copies);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(std::memcmp(found[i].data(), expected[i].data(), found[i].size() * sizeof(float)),
                  0);
      }
    }
  }
}

/// What cannot be generated is said, on the op, and leaves nothing behind.
TEST(CudaAttention, RefusesWhatItCannotDo) {
  AttentionCase wide{"wide", 1, 16, 1, 1, 264, 16, 1, causal(), plain}, narrow = wide, odd = wide,
                                                                        heads = wide;
  wide.bf16 = odd.bf16 = heads.bf16 = true;
  narrow.head = 16;
  odd.head = 5;
  odd.rotary = true;
  heads.head = 16;
  heads.heads = 3;
  heads.kvHeads = 2;
  for (const auto &[c, message] :
       {std::pair(wide, "expected heads of at most 256 columns on a GPU, found 264"),
        std::pair(narrow, R"(say "precision": {"compute": "bf16"} in the spec)"),
        std::pair(odd, "expected an even head size"),
        std::pair(heads, "expected heads to be a multiple of kv_heads, found 3 and 2")}) {
    for (const std::string &text : {c.forwardText(), c.backwardText()}) {
      std::string said;
      GeneratedKernel(text, [&](mlir::Operation *op, mlir::ModuleOp module, llvm::StringRef name) {
        mlir::ScopedDiagnosticHandler handler(op->getContext(), [&](mlir::Diagnostic &diagnostic) {
          said += diagnostic.str();
          return mlir::success();
        });
        EXPECT_TRUE(mlir::failed(generate(op, module, name)));
        EXPECT_TRUE(module.getBody()->empty());
        return mlir::FailureOr<cuda::Kernel>(cuda::Kernel());
      });
      EXPECT_NE(said.find(message), std::string::npos) << said;
    }
  }
}

/// Tensor-core PTX that calls nothing; where there is a ptxas, a cubin without spills or stack.
void checkAssembly(mlir::ModuleOp module, const cuda::Target &target, const std::string &what) {
  llvm::LLVMContext context;
  auto lowered = cuda::lowerToLLVM(module, context);
  ASSERT_TRUE(lowered);
  auto ptx = cuda::emitPTX(std::move(lowered), target);
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_NE(ptx->find("mma.sync.aligned.m16n8k16"), std::string::npos);
  EXPECT_NE(ptx->find("ldmatrix"), std::string::npos);
  EXPECT_EQ(ptx->find("call"), std::string::npos) << "a kernel calls a function";
  auto binary = cuda::assemble(*ptx, target);
  ASSERT_TRUE(bool(binary)) << llvm::toString(binary.takeError());
  if (!*binary) {
    std::cout << "no ptxas: PTX only\n";
    return;
  }
  for (const cuda::Usage &usage : (*binary)->usage) {
    std::cout << target.name.str() << ", " << what << ": " << usage.kernel << " " << usage.registers
              << " registers\n";
    EXPECT_EQ(usage.stackBytes, 0) << what << " " << usage.kernel;
    EXPECT_EQ(usage.spillBytes, 0) << what << " " << usage.kernel;
  }
}

void checkAssembly(int64_t head, bool everything) {
  AttentionCase c{"assembly", 8,
                  1024,       8,
                  4,          head,
                  1024,       8,
                  causal(),   everything ? softCap(30) : scaled(0.125),
                  everything, everything ? 0.1f : 0.0f};
  c.bf16 = true;
  std::string what =
      "head of " + std::to_string(head) + (everything ? " with rotary, soft cap, dropout" : "");
  for (const std::string &text : {c.forwardText(), c.backwardText()}) {
    GeneratedKernel made(text, generate);
    ASSERT_TRUE(made.made());
    checkAssembly(made.module(), cuda::Target::sm80(), what);
    if (!everything) {
      checkAssembly(made.module(), cuda::Target::sm90a(), what);
    }
  }
}

TEST(CudaAttention, Assembles) {
  for (int64_t head : {5, 16, 32, 64, 96, 128, 200, 256}) {
    checkAssembly(head, /*everything=*/false);
  }
}

TEST(CudaAttention, AssemblesWithEverything) {
  for (int64_t head : {64, 128, 256}) {
    checkAssembly(head, /*everything=*/true);
  }
}

} // namespace
