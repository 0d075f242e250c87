// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The oracle and CPU kernels: their results are within its bounds, and injected faults are not.
#include "sluice/Oracle/Oracle.h"
#include "../Target/AttentionReference.h"
#include "../Target/LengthCases.h"
#include "../Target/RecurrenceCase.h"
#include "../Target/StepCases.h"

#include "mlir/IR/Verifier.h"

using namespace sluice;
using namespace sluice::test;

namespace {

mlir::FailureOr<cpu::Kernel> generate(mlir::Operation *op, mlir::ModuleOp module,
                                      llvm::StringRef name, const cpu::Target &target) {
  return cpu::generateKernel(op, module, name, target);
}

/// Runs the kernel of a dispatch and compares it with the oracle.
class CheckedLaunch {
public:
  explicit CheckedLaunch(const std::string &text) : kernel(text, cpu::Target::avx2(), generate) {}

  oracle::Judgement run(const KernelInputs &launch) {
    oracle::Judgement judgement;
    kernel.observe(
        [&](const std::vector<const void *> &operands, const std::vector<const void *> &results) {
          oracle::OracleLaunch told{operands,    results,     launch.length,     launch.rows,
                                    launch.step, launch.seed, launch.firstStream};
          told.lengths = launch.lengths.empty() ? nullptr : launch.lengths.data();
          auto judged = oracle::judge(kernel.dispatch(), told);
          ASSERT_TRUE(mlir::succeeded(judged));
          judgement = *judged;
          if (spoil) {
            checkSpoiled(told);
          }
        });
    kernel.run(launch);
    kernel.observe(nullptr);
    return judgement;
  }
  /// Also compares with one operand's first number changed: the results are then wrong.
  void spoilOperand(unsigned operand, std::function<void(float &)> change) {
    spoil = std::move(change);
    spoilt = operand;
  }
  oracle::Judgement spoiledResult;
  LoadedKernel kernel;

private:
  void checkSpoiled(oracle::OracleLaunch told) {
    size_t count = size_t(kernel.bufferBytes()[spoilt]) / 4;
    std::vector<float> copy(count);
    std::memcpy(copy.data(), told.operands[spoilt], count * 4);
    spoil(copy.front());
    told.operands[spoilt] = copy.data();
    auto judged = oracle::judge(kernel.dispatch(), told);
    ASSERT_TRUE(mlir::succeeded(judged));
    spoiledResult = *judged;
  }

  std::function<void(float &)> spoil;
  unsigned spoilt = 0;
};

/// Generates kernels and expects every run to be correct.
Make buildCheckedKernels() {
  return [](const std::string &text) -> KernelRunner {
    auto judged = std::make_shared<CheckedLaunch>(text);
    if (!judged->kernel.loaded()) {
      return nullptr;
    }
    return [judged](const std::vector<Floats> &operands) {
      KernelInputs launch{.operands = operands};
      oracle::Judgement judgement = judged->run(launch);
      EXPECT_TRUE(judgement.passed()) << judgement.str();
      return judged->kernel.run(launch);
    };
  };
}

void expectRight(CheckedLaunch &judged, const KernelInputs &launch) {
  oracle::Judgement judgement = judged.run(launch);
  EXPECT_TRUE(judgement.passed()) << judgement.str();
  ASSERT_FALSE(judgement.results.empty());
  for (const oracle::ResultJudgement &result : judgement.results) {
    EXPECT_GT(result.checked, 0);
  }
}

const char *const gelu = R"(%b = arith.addf %acc, %bias : f32
  %k = arith.constant 0.7978845608 : f32
  %c = arith.constant 0.044715 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %q = arith.mulf %b, %b : f32
  %r = math.fma %q, %c, %one : f32
  %t = arith.mulf %b, %r : f32
  %u = arith.mulf %t, %k : f32
  %h = math.tanh %u : f32
  %p = arith.addf %h, %one : f32
  %w = arith.mulf %p, %half : f32
  %g = arith.mulf %w, %b : f32
  %rate = arith.constant 0.25 : f32
  %zero = arith.constant 0.0 : f32
  %draw = dispatch.random {id = 5 : i64, width = 19 : i64} : f32
  %kept = arith.cmpf oge, %draw, %rate : f32
  %d = arith.select %kept, %g, %zero : f32
  %y = arith.addf %d, %residual : f32
  dispatch.yield %b, %y : f32, f32
)";

std::string contractText(bool byInput, const std::string &type = "f32") {
  std::string x = tensor({2, 9, 21}, type), y = tensor({2, 9, 19}, type), bias = tensor({19}),
              w = byInput ? tensor({21, 19}, type) : tensor({19, 21}, type);
  std::string row = TextAccess{.factor = 2}, vector = TextAccess{.kind = "vector"};
  return "func.func @f(%a0: " + x + ", %a1: " + w + ", %a2: " + bias + ", %a3: " + y +
         ") {\n%made:2 = dispatch.contract %a0, %a1, %a2, %a3 attributes {domain = "
         "#dispatch.domain<batch "
         "= 2, positions = 9, factor = 2>" +
         (byInput ? ", by_input" : "") + ", accesses = [" + vector + ", " + row +
         "], result_accesses = [" + row + ", " + row +
         "]} {\n^bb0(%acc: f32, %bias: f32, %residual: f32):\n" + gelu + "} : (" + x + ", " + w +
         ", " + bias + ", " + y + ") -> (" + y + ", " + y + ")\nreturn\n}";
}

KernelInputs contractLaunch() {
  return {.operands = {randomFloats(18 * 21, 1), randomFloats(21 * 19, 2), randomFloats(19, 3),
                       randomFloats(18 * 19, 4)},
          .length = 15,
          .rows = 2,
          .step = 3,
          .seed = 11,
          .firstStream = 2};
}

class OracleTest : public ::testing::Test {
protected:
  void SetUp() override {
    if (targets().empty()) {
      GTEST_SKIP() << "this machine runs no CPU kernel to judge";
    }
  }
};

} // namespace

TEST_F(OracleTest, ContractionWithEpilogue) {
  for (bool byInput : {false, true}) {
    CheckedLaunch judged(contractText(byInput));
    judged.spoilOperand(0, [](float &value) { value += 0.01f; });
    expectRight(judged, contractLaunch());
    EXPECT_GE(judged.spoiledResult.results[0].mismatches,
              18); // the row's 19 columns, all but chance
    EXPECT_FALSE(judged.spoiledResult.passed());
    EXPECT_NE(judged.spoiledResult.str().find("result 0, row 0, column 0: expected "),
              std::string::npos);
  }
}

/// A step of K omitted, and a neighbor's row.
TEST_F(OracleTest, DetectsLostTerm) {
  CheckedLaunch judged(contractText(false));
  judged.spoilOperand(0, [](float &value) { value = 0; });
  expectRight(judged, contractLaunch());
  EXPECT_GE(judged.spoiledResult.results[0].mismatches, 18);
}

TEST_F(OracleTest, WeightGradient) {
  std::string left = tensor({2, 9, 13}), right = tensor({2, 9, 7}), weight = tensor({13, 7}),
              bias = tensor({13});
  CheckedLaunch judged(
      "func.func @f(%l: " + left + ", %r: " + right + ", %w: " + weight + ", %b: " + bias +
      ") {\n%y:2 = dispatch.weight_gradient %l, %r, %w, %b attributes {domain = "
      "#dispatch.domain<batch = 2, positions = 9, factor = 2>, operandSegmentSizes = "
      "array<i32: 1, 1, 1, 1>, resultSegmentSizes = array<i32: 1, 1>} : (" +
      left + ", " + right + ", " + weight + ", " + bias + ") -> (" + weight + ", " + bias +
      ")\nreturn\n}");
  judged.spoilOperand(1, [](float &value) { value += 0.01f; });
  expectRight(judged, {.operands = {randomFloats(18 * 13, 1), randomFloats(18 * 7, 2),
                                    randomFloats(13 * 7, 3), randomFloats(13, 4)},
                       .length = 11,
                       .rows = 2,
                       .shares = {{0, 2}, {1, 3}}});
  EXPECT_GE(judged.spoiledResult.results[0].mismatches, 12);
  EXPECT_EQ(judged.spoiledResult.results[1].mismatches, 0); // the bias does not read it
}

/// A mean of shifted rows, a norm of it, and its statistic.
TEST_F(OracleTest, RowsOfAShorteningAndANorm) {
  std::string row = tensor({24}), group = tensor({4, 24});
  TextAccess own{.factor = 4}, vector{.kind = "vector"};
  CheckedLaunch judged(
      rowsText({2, 5, 4},
               {{tensor({2, 18, 24}), TextAccess{.map = "4 * p + i - 3", .group = 4}, group},
                {tensor({24}), vector, row}},
               {{tensor({2, 5, 24}), own},
                {tensor({2, 5, 24}), own},
                {tensor({2, 5}), own},
                {tensor({3, 24}), TextAccess{.kind = "columns"}}},
               R"(%sum = dispatch.reduce_group add %a0 : tensor<4x24xf32> -> ROW
  %share = arith.constant dense<0.25> : ROW
  %h = arith.mulf %sum, %share : ROW
  %squares = arith.mulf %h, %h : ROW
  %total = dispatch.reduce add %squares : ROW -> f32
  %inverse = arith.constant 0.0416666679 : f32
  %epsilon = arith.constant 1.0e-05 : f32
  %mean = arith.mulf %total, %inverse : f32
  %shifted = arith.addf %mean, %epsilon : f32
  %root = math.sqrt %shifted : f32
  %roots = tensor.splat %root : ROW
  %normalized = arith.divf %h, %roots : ROW
  %y = arith.mulf %normalized, %a1 : ROW
  dispatch.yield %h, %y, %root, %y : ROW, ROW, f32, ROW)",
               row, /*zeroInvalid=*/true));
  judged.spoilOperand(0, [](float &value) { value += 1; });
  expectRight(
      judged,
      {.operands = {randomFloats(2 * 18 * 24, 1), randomFloats(24, 2)}, .length = 14, .rows = 1});
  EXPECT_GT(judged.spoiledResult.results[0].mismatches, 0);
  EXPECT_GT(judged.spoiledResult.results[3].mismatches, 0);
}

TEST_F(OracleTest, Scatter) {
  std::string index = tensor({2, 10}, "i32"), values = tensor({2, 9, 6}), table = tensor({5, 6});
  CheckedLaunch judged("func.func @f(%i: " + index + ", %v: " + values + ", %t: " + table +
                       ") {\n%y = dispatch.scatter_rows %i, %v, %t attributes {domain = "
                       "#dispatch.domain<batch = 2, positions = 9, factor = 1>} : (" +
                       index + ", " + values + ", " + table + ") -> " + table + "\nreturn\n}");
  judged.spoilOperand(1, [](float &value) { value += 0.01f; });
  expectRight(judged,
              {.operands = {randomIntegers(20, 1, 5), randomFloats(108, 2), randomFloats(30, 3)},
               .length = 8,
               .rows = 2,
               .shares = {{0, 2}}});
  EXPECT_EQ(judged.spoiledResult.results[0].mismatches, 1);
}

/// A tied table's gradient begins with the head's, and each row that is added is rounded at its
/// size.
TEST_F(OracleTest, ScatterIntoLargeNumbers) {
  std::string index = tensor({2, 10}, "i32"), values = tensor({2, 9, 6}), table = tensor({5, 6});
  CheckedLaunch judged("func.func @f(%i: " + index + ", %v: " + values + ", %t: " + table +
                       ") {\n%y = dispatch.scatter_rows %i, %v, %t attributes {domain = "
                       "#dispatch.domain<batch = 2, positions = 9, factor = 1>} : (" +
                       index + ", " + values + ", " + table + ") -> " + table + "\nreturn\n}");
  expectRight(judged, {.operands = {randomIntegers(20, 1, 1), randomFloats(108, 2),
                                    randomFloats(30, 3, 999, 1001)},
                       .length = 8,
                       .rows = 2,
                       .shares = {{0, 2}}});
}

/// Attention forward, without its terms.
static KernelInputs buildLaunch(const AttentionCase &c, const AttentionData &data) {
  return {.operands = {data.qkv, data.qkv, data.qkv},
          .length = c.length,
          .rows = c.rows,
          .step = c.step,
          .seed = c.seed};
}

TEST_F(OracleTest, AttentionForwardAndBackward) {
  AttentionCase c{.name = "grouped",
                  .batch = 2,
                  .positions = 13,
                  .heads = 4,
                  .kvHeads = 2,
                  .head = 6,
                  .length = 11,
                  .rows = 2,
                  .relation = window(4),
                  .score = softCap(3),
                  .rotary = true,
                  .dropout = 0.25f};
  AttentionData data = makeAttention(c);
  KernelInputs launch = buildLaunch(c, data);
  CheckedLaunch forward(c.forwardText());
  forward.spoilOperand(2, [](float &value) { value = -value; }); // not of V: nothing changes
  expectRight(forward, launch);
  EXPECT_TRUE(forward.spoiledResult.passed());
  CheckedLaunch backward(c.backwardText());
  backward.spoilOperand(3, [](float &value) { value += 2; }); // row 0's dO * O
  launch.operands = {data.qkv,   data.qkv, data.qkv, data.outputIn, data.lseIn, data.outputGradient,
                     data.rotary};
  expectRight(backward, launch);
  EXPECT_GT(backward.spoiledResult.results[0].mismatches, 0);
}

/// Each gradient of a term is compared through its own argument.
TEST_F(OracleTest, ProductsByDistanceAsGates) {
  AttentionCase c = withTerms({.name = "gates",
                               .batch = 2,
                               .positions = 13,
                               .heads = 4,
                               .kvHeads = 2,
                               .head = 6,
                               .length = 11,
                               .rows = 2,
                               .relation = causal(),
                               .score = gated(0.5)},
                              true, 3);
  AttentionData data = makeAttention(c);
  KernelInputs launch = buildLaunch(c, data);
  llvm::append_range(launch.operands, data.terms);
  CheckedLaunch forward(c.forwardText());
  forward.spoilOperand(3, [](float &value) { value += 2; });
  expectRight(forward, launch);
  EXPECT_EQ(forward.spoiledResult.results[1].mismatches, 1); // the first log-sum-exp
  CheckedLaunch backward(c.backwardText());
  backward.spoilOperand(7, [](float &value) { value += 2; }); // the row of distance 0
  launch.operands = {data.qkv, data.qkv, data.qkv, data.outputIn, data.lseIn, data.outputGradient};
  llvm::append_range(launch.operands, data.terms);
  expectRight(backward, launch);
  EXPECT_GT(backward.spoiledResult.results[1].mismatches, 0);
}

/// A plain mean; and smoothed labels, some unscored rows, a gradient per row.
TEST_F(OracleTest, HeadAndCrossEntropy) {
  std::string x = tensor({2, 9, 12}), w = tensor({17, 12}), t = tensor({2, 10}, "i32"),
              one = tensor({2, 9}), b = tensor({17});
  for (bool other : {false, true}) {
    SCOPED_TRACE(other);
    std::string attributes = " attributes {domain = #dispatch.domain<batch = 2, positions = 9, "
                             "factor = 1>, offset = 1 : i64, ";
    attributes += other ? "first = 2 : i64, smoothing = 0.25 : f32, " : "";
    std::string types = x + ", " + w + ", " + t + ", ", name = other ? ", %g" : "";
    std::string extra = other ? ", " + one : "", count = other ? "1" : "0";
    std::string parameters = "func.func @f(%x: " + x + ", %w: " + w + ", %t: " + t;
    CheckedLaunch rows(parameters + ", %b: " + b + ", %g: " + one +
                       ") {\n%y:3 = dispatch.cross_entropy %x, %w, %t, %b" + name + attributes +
                       "operandSegmentSizes = array<i32: 1, 1, 1, 1, " + count +
                       ">, resultSegmentSizes = array<i32: 1, 1, 1>} : (" + types + b + extra +
                       ") -> (" + one + ", " + one + ", " + x + ")\nreturn\n}");
    rows.spoilOperand(0, [](float &value) { value += 0.5f; });
    Floats byRow = randomFloats(18, 5);
    KernelInputs launch{.operands = {randomFloats(18 * 12, 1), randomFloats(17 * 12, 2),
                                     randomIntegers(20, 3, 17), randomFloats(17, 4)},
                        .length = 7,
                        .rows = 2};
    if (other) {
      launch.operands.push_back(byRow);
    }
    expectRight(rows, launch);
    EXPECT_EQ(rows.spoiledResult.results[0].mismatches, other ? 0 : 1); // row 0 has no loss there
    std::vector<Floats> made = rows.kernel.run(launch);
    CheckedLaunch weights(parameters + ", %l: " + one + ", %b: " + b + ", %g: " + one +
                          ") {\n%y:2 = dispatch.cross_entropy_weight_gradient %x, %w, %t, %l, %b" +
                          name + attributes + "operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, " +
                          count + ", 0, 0>} : (" + types + one + ", " + b + extra + ") -> (" + w +
                          ", " + b + ")\nreturn\n}");
    weights.spoilOperand(0, [](float &value) { value += 0.5f; });
    launch.operands.insert(launch.operands.begin() + 3, made[1]);
    expectRight(weights, launch);
    EXPECT_EQ(weights.spoiledResult.results[0].mismatches > 0, !other);
  }
}

TEST_F(OracleTest, ScheduledRows) {
  checkGroups(7, buildCheckedKernels());
  checkIntegers(buildCheckedKernels());
  for (bool half : {false, true}) {
    checkProduct({3, 2, 24, 56, /*heads=*/5, /*head=*/8, half}, buildCheckedKernels());
    checkDecode({2, 3, 4, 2, 8, 11, 4, window(5), softCap(2), half, {{{3, 3, 24}, {20, 2, 90}}}},
                buildCheckedKernels());
  }
}

/// Kernels whose every run is correct.
SegmentRun buildCheckedSegments(const std::string &text) {
  auto judged = std::make_shared<CheckedLaunch>(text);
  return judged->kernel.loaded() ? SegmentRun([judged](const KernelInputs &launch) {
    oracle::Judgement judgement = judged->run(launch);
    EXPECT_TRUE(judgement.passed()) << judgement.str();
    return judged->kernel.run(launch);
  })
                                 : SegmentRun();
}

TEST_F(OracleTest, Segments) {
  checkSegmentScans(buildCheckedSegments);
  checkSegmentRows(buildCheckedSegments);
}

TEST_F(OracleTest, LengthsPerSequence) { checkOwnLengths(buildCheckedSegments, "f32"); }

/// The first bit, and the end of the first segment, are read.
TEST_F(OracleTest, DetectsOtherSegments) {
  std::string domain = "domain = #dispatch.domain<batch = 1, positions = 4, factor = 1>";
  CheckedLaunch scan(
      "func.func @f(%x: tensor<1x4xf32>) {\n%r:3 = dispatch.segment_scan %x attributes {" + domain +
      "} : (tensor<1x4xf32>) -> (tensor<1x4xi32>, tensor<1x3xi32>, "
      "tensor<1x2xi32>)\nreturn\n}");
  scan.spoilOperand(0, [](float &bit) { bit = 1; });
  expectRight(scan, {.operands = {{0, 1, 0, 1}}, .length = 4, .rows = 1});
  for (const oracle::ResultJudgement &result : scan.spoiledResult.results) {
    EXPECT_GT(result.mismatches, 0);
  }
  TextAccess ends{.factor = 0, .extended = true},
      range{.kind = "range", .map = "p", .index = 0, .last = 1};
  CheckedLaunch sum(rowsText({1, 3, 0},
                             {{tensor({1, 3}, "i32"), ends, "i32"},
                              {tensor({1, 3}, "i32"), ends, "i32"},
                              {tensor({1, 4}), range, "f32"}},
                             {{tensor({1, 3}), TextAccess{.factor = 0}}},
                             "dispatch.yield %a2 : f32"));
  sum.spoilOperand(0, [](float &first) { first = 0; });
  expectRight(sum, {.operands = {{1, 2, 4}, {3, 4, 4}, {1, 2, 4, 8}}, .length = 4, .rows = 1});
  // An end of 0 has the bits of 0.0: one term more in row 0 alone.
  EXPECT_EQ(sum.spoiledResult.results[0].mismatches, 1);
}

/// A run that starts, counts or ends elsewhere than the kernel's operands specify.
TEST_F(OracleTest, DetectsRowsOfAnotherStep) {
  StepProduct product{2, 1, 24, 16};
  Decode decode{2, 1, 2, 2, 8, 16, 1, causal(), scaled(1), false, {}};
  Floats runs = {5, 1, 6, 9, 1, 10};
  auto judge = [&](const std::string &text, std::vector<Floats> operands, unsigned schedule,
                   int64_t at, int64_t value) {
    CheckedLaunch judged(text);
    operands.push_back(runs);
    oracle::Judgement judgement;
    judged.kernel.observe([&](std::vector<const void *> before, std::vector<const void *> after) {
      std::vector<int64_t> others(runs.begin(), runs.end());
      others[size_t(at)] = value;
      before[schedule] = others.data();
      auto made = oracle::judge(judged.kernel.dispatch(), {.operands = before, .results = after});
      ASSERT_TRUE(mlir::succeeded(made));
      judgement = *made;
    });
    judged.kernel.run({.operands = operands});
    return judgement.isWrong();
  };
  std::vector<Floats> factors{randomFloats(product.input().elements(), 1), randomFloats(16 * 24, 2),
                              randomFloats(16, 3), randomFloats(product.residual().elements(), 4)};
  EXPECT_FALSE(judge(product.text(), factors, 4, 0, 5));
  EXPECT_TRUE(judge(product.text(), factors, 4, 0, 6)) << "the row after";
  Floats rows = randomFloats(decode.query().elements(), 5),
         keys = randomFloats(decode.key().elements(), 6);
  EXPECT_FALSE(judge(decode.text(), {rows, keys, keys}, 3, 1, 1));
  EXPECT_TRUE(judge(decode.text(), {rows, keys, keys}, 3, 3, 8)) << "a key less";
}

/// Rows in both directions, cut off by numbers and by places, of ragged texts and of a step.
TEST_F(OracleTest, AcceptsRecurrences) {
  for (int64_t columns : {1, 19, 40}) {
    for (const RecurrenceCase &one : RecurrenceCase::list(columns)) {
      CheckedLaunch judged(one.text());
      ASSERT_TRUE(judged.kernel.loaded());
      KernelInputs launch = one.launch();
      launch.shuffle = 3;
      launch.threads = 2;
      expectRight(judged, launch);
    }
  }
  // More rows of a place and more columns than a slice of a CPU kernel has.
  RecurrenceCase large{515, ", weighted, by_input, reversed, adjoint, resets", false, 67};
  CheckedLaunch slices(large.text());
  KernelInputs launch = large.launch();
  launch.threads = 2;
  expectRight(slices, launch);
  RecurrenceCase step{19, ", weighted, resets", /*isScheduled=*/true};
  CheckedLaunch judged(step.text());
  expectRight(judged, step.launch());
}

/// A weight that the kernel did not read makes the products of every row but the first wrong.
TEST_F(OracleTest, DetectsAnotherRecurrentWeight) {
  RecurrenceCase test{19, ", weighted"};
  CheckedLaunch judged(test.text());
  judged.spoilOperand(0, [](float &number) { number += 0.01F; });
  expectRight(
      judged,
      {.operands = {randomFloats(19 * 19, 1), randomFloats(18 * 19, 2)}, .length = 9, .rows = 2});
  EXPECT_TRUE(judged.spoiledResult.isWrong());
}
