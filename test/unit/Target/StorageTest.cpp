// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// bf16 as storage. A kernel on bf16 memory does the arithmetic of the f32 kernel on the operands'
// f32 values, in the same order, and rounds each result once. So its results are bitwise the
// rounded results of the f32 kernel; the tests of f32 kernels bound their difference from float64.
#include "AttentionReference.h"
#include "RowsText.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace sluice;
using namespace sluice::test;

namespace {

mlir::FailureOr<cpu::Kernel> generate(mlir::Operation *op, mlir::ModuleOp module,
                                      llvm::StringRef name, const cpu::Target &target) {
  return cpu::generateKernel(op, module, name, target);
}

uint32_t toBits(float number) {
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

float fromBits(uint32_t bits) {
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

/// `text` with tensors of these types (written with f32) as bf16.
std::string halved(std::string text, const std::vector<std::string> &types) {
  for (const std::string &type : types) {
    std::string half = type.substr(0, type.size() - 4) + "bf16>";
    EXPECT_NE(text.find(type), std::string::npos) << type << " in " << text;
    for (size_t at; (at = text.find(type)) != std::string::npos;) {
      text.replace(at, type.size(), half);
    }
  }
  return text;
}

bool isHalf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType().isBF16();
}

Floats rounded(Floats numbers) {
  for (float &number : numbers) {
    number = toBf16(number);
  }
  return numbers;
}

/// Runs both kernels of `text`, with `types` as f32 and as bf16, on every target.
void expectRoundedResults(const std::string &text, const std::vector<std::string> &types,
                          KernelInputs launch) {
  launch.shuffle = 3;
  launch.threads = 2;
  for (const cpu::Target *target : targets()) {
    SCOPED_TRACE(target->name.str());
    LoadedKernel plain(text, *target, generate), half(halved(text, types), *target, generate);
    ASSERT_TRUE(plain.loaded() && half.loaded());
    EXPECT_LT(half.kernel().bytes, plain.kernel().bytes);
    for (unsigned i = 0; i < half.operands(); ++i) {
      if (isHalf(half.dispatch()->getOperand(i))) {
        launch.operands[i] = rounded(launch.operands[i]);
      }
    }
    std::vector<Floats> expected = plain.run(launch), found = half.run(launch);
    ASSERT_EQ(expected.size(), found.size());
    size_t compared = 0;
    for (size_t r = 0; r < expected.size(); ++r) {
      bool isRounded = isHalf(half.dispatch()->getResult(static_cast<unsigned>(r)));
      for (size_t i = 0; i < expected[r].size(); ++i) {
        if (expected[r][i] == untouched) {
          continue;
        }
        float wanted = isRounded ? toBf16(expected[r][i]) : expected[r][i];
        ASSERT_EQ(toBits(found[r][i]), toBits(wanted))
            << "result " << r << " element " << i << ": expected " << wanted << ", found "
            << found[r][i] << " in\n"
            << half.dispatch()->getName().getStringRef().str();
        ++compared;
      }
    }
    EXPECT_GT(compared, 0u);
  }
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

std::string copyText(int64_t rows, int64_t width, const std::string &from, const std::string &to) {
  return rowsText({1, rows, 0},
                  {{tensor({1, rows, width}, from), TextAccess{.factor = 0}, tensor({width})}},
                  {{tensor({1, rows, width}, to), TextAccess{.factor = 0}}},
                  "dispatch.yield %a0 : " + tensor({width}));
}

/// Every bf16, including NaN of any payload and subnormal numbers, is the f32 of the same upper
/// half.
TEST(Storage, ReadsEveryNumber) {
  Floats all;
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    float number = fromBits(upper << 16);
    all.push_back(number);
  }
  for (const cpu::Target *target : targets()) {
    LoadedKernel kernel(copyText(256, 256, "bf16", "f32"), *target, generate);
    ASSERT_TRUE(kernel.loaded());
    Floats found = kernel.run({.operands = {all}, .length = 256, .rows = 1})[0];
    for (uint32_t upper = 0; upper < 0x10000; ++upper) {
      ASSERT_EQ(toBits(found[upper]), upper << 16) << target->name.str();
    }
  }
}

/// Around every bf16: the number itself, a little more and less, half a unit to the next and a
/// little to both sides of that. Rows of 257 columns have a masked tail.
TEST(Storage, WritesTheNearestAndTiesToEven) {
  Floats all;
  for (uint32_t upper = 0; upper < 0x10000; upper += 3) {
    for (uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      all.push_back(fromBits(upper << 16 | lower));
    }
  }
  constexpr int64_t width = 257;
  all.resize((all.size() + width - 1) / width * width);
  auto rows = static_cast<int64_t>(all.size()) / width;
  for (const cpu::Target *target : targets()) {
    LoadedKernel kernel(copyText(rows, width, "f32", "bf16"), *target, generate);
    ASSERT_TRUE(kernel.loaded());
    Floats found = kernel.run({.operands = {all}, .length = rows, .rows = 1})[0];
    for (size_t i = 0; i < all.size(); ++i) {
      if (std::isnan(all[i])) {
        ASSERT_TRUE(std::isnan(found[i])) << std::hex << toBits(all[i]);
        ASSERT_EQ(std::signbit(found[i]), std::signbit(all[i]));
      } else {
        ASSERT_EQ(toBits(found[i]), toBits(toBf16(all[i])))
            << target->name.str() << ": " << std::hexfloat << all[i] << " became " << found[i];
      }
    }
  }
}

TEST(Storage, ReferenceRounds) {
  EXPECT_EQ(toBf16(1.0f + 0x1p-8f), 1.0f);           // half a unit, even below
  EXPECT_EQ(toBf16(1.0f + 0x3p-8f), 1.0f + 0x1p-6f); // half a unit, even above
  EXPECT_EQ(toBf16(1.0f + 0x1p-8f + 0x1p-20f), 1 + 0x1p-7f);
  EXPECT_EQ(toBf16(0x1p-134f), 0.0f); // half of the minimum
  EXPECT_EQ(toBf16(0x1.8p-134f), 0x1p-133f);
  EXPECT_TRUE(std::isinf(toBf16(3.4e38f)));
}

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

/// A norm's body: group reads through a shifted map, gathered rows, statistics, sums over columns.
TEST(Storage, Rows) {
  for (int64_t d : {1, 7, 16, 33, 64, 257}) {
    SCOPED_TRACE(d);
    const int64_t batch = 2, positions = 19, coarse = 5;
    std::string fine = tensor({batch, positions, d}), group = tensor({batch, coarse, d});
    std::string row = tensor({d});
    std::string text = rowsText(
        {batch, coarse, 4},
        {{fine, TextAccess{.map = "p * 4 + i - 3", .group = 4, .factor = 1}, tensor({4, d})},
         {group, TextAccess{.factor = 4}, row},
         {tensor({9, d}), TextAccess{.kind = "gather", .factor = 0, .index = 3}, row},
         {tensor({batch, coarse}, "i32"), TextAccess{.factor = 4}, "i32"}},
        {{group, TextAccess{.factor = 4}},
         {tensor({batch, coarse}), TextAccess{.factor = 4}},
         {tensor({2, d}), TextAccess{.kind = "columns", .factor = 0}}},
        "%g = dispatch.reduce_group add %a0 : " + tensor({4, d}) + " -> ROW\n" +
            "%x = arith.addf %g, %a1 : ROW\n%y = arith.mulf %x, %a2 : ROW\n" +
            "%s = dispatch.reduce add %y : ROW -> f32\n%t = tensor.splat %s : ROW\n" +
            "%z = arith.subf %y, %t : ROW\n" + "dispatch.yield %z, %s, %y : ROW, f32, ROW",
        row);
    for (int64_t length : {19, 6}) {
      KernelInputs launch{.operands = {randomFloats(batch * positions * d, 1),
                                       randomFloats(batch * coarse * d, 2), randomFloats(9 * d, 3),
                                       randomIntegers(batch * coarse, 4, 9)},
                          .length = length,
                          .rows = 2};
      expectRoundedResults(text, {fine, group}, launch);
    }
  }
}

struct Contraction {
  int64_t rows, inner, columns;
  bool byInput;
};

/// A bias, a residual and two results, one of them of f32 (the residual stream may be either).
std::string contractText(const Contraction &c) {
  auto access = [](const std::string &kind) {
    return std::string(TextAccess{.kind = kind, .factor = 1});
  };
  std::string x = tensor({2, c.rows, c.inner}), y = tensor({2, c.rows, c.columns});
  std::string w = c.byInput ? tensor({c.inner, c.columns}) : tensor({c.columns, c.inner});
  std::string bias = tensor({c.columns}), types = x + ", " + w + ", " + bias + ", " + y;
  return "func.func @f(%x: " + x + ", %w: " + w + ", %b: " + bias + ", %r: " + y +
         ") {\n %o:2 = dispatch.contract %x, %w, %b, %r attributes {domain = "
         "#dispatch.domain<batch "
         "= 2, positions = " +
         std::to_string(c.rows) + ", factor = 1>" + (c.byInput ? ", by_input" : "") +
         ", accesses = [" + access("vector") + ", " + access("row") + "], result_accesses = [" +
         access("row") + ", " + access("row") +
         "]} {\n^bb0(%acc: f32, %e0: f32, %e1: f32):\n%s = arith.addf %acc, %e0 : f32\n"
         "%t = arith.addf %s, %e1 : f32\ndispatch.yield %s, %t : f32, f32\n} : (" +
         types + ") -> (" + y + ", " + y + ")\n return\n}";
}

TEST(Storage, Contract) {
  for (bool byInput : {false, true}) {
    for (auto [rows, inner, columns] : {std::array<int64_t, 3>{1, 1, 1},
                                        {5, 7, 15},
                                        {13, 17, 31},
                                        {6, 8, 32},
                                        {25, 31, 47},
                                        {24, 65, 128},
                                        {131, 40, 97}}) {
      Contraction c{rows, inner, columns, byInput};
      SCOPED_TRACE(contractText(c));
      std::string x = tensor({2, rows, inner}), y = tensor({2, rows, columns});
      std::string w = byInput ? tensor({inner, columns}) : tensor({columns, inner});
      KernelInputs launch{.operands = {randomFloats(2 * rows * inner, 1),
                                       randomFloats(inner * columns, 2), randomFloats(columns, 3),
                                       randomFloats(2 * rows * columns, 4)},
                          .length = std::max<int64_t>(1, rows - 2),
                          .rows = 2};
      expectRoundedResults(contractText(c), {x, w}, launch); // extras and results of f32
      if (inner != columns) {
        expectRoundedResults(contractText(c), {x, w, y}, launch);
      }
    }
  }
}

TEST(Storage, WeightGradient) {
  for (auto [rows, height, width] : {std::array<int64_t, 3>{1, 1, 2},
                                     {7, 5, 15},
                                     {40, 17, 33},
                                     {70, 33, 64},
                                     {130, 48, 31},
                                     {200, 131, 97}}) {
    SCOPED_TRACE(rows);
    std::string left = tensor({2, rows, height}), right = tensor({2, rows, width});
    std::string weight = tensor({height, width}), bias = tensor({height});
    std::string text = "func.func @f(%l: " + left + ", %r: " + right + ", %i: " + weight +
                       ") {\n%g:2 = dispatch.weight_gradient %l, %r, %i attributes {domain = "
                       "#dispatch.domain<batch = 2, positions = " +
                       std::to_string(rows) +
                       ", factor = 1>, operandSegmentSizes = array<i32: 1, 1, 1, 0>, "
                       "resultSegmentSizes = array<i32: 1, 1>} : (" +
                       left + ", " + right + ", " + weight + ") -> (" + weight + ", " + bias +
                       ")\n return\n}";
    KernelInputs launch{.operands = {randomFloats(2 * rows * height, 1),
                                     randomFloats(2 * rows * width, 2),
                                     randomFloats(height * width, 3)},
                        .length = std::max<int64_t>(1, rows - 1),
                        .rows = 2};
    expectRoundedResults(text, {left, right}, launch);
  }
}

TEST(Storage, ScatterRows) {
  for (int64_t d : {1, 7, 16, 40}) {
    std::string index = tensor({2, 38}, "i32"), values = tensor({2, 37, d}),
                table = tensor({11, d});
    std::string text =
        "func.func @f(%i: " + index + ", %v: " + values +
        ") {\n%r = dispatch.scatter_rows %i, %v "
        "attributes {domain = #dispatch.domain<batch = 2, positions = 37, factor = 1>} : (" +
        index + ", " + values + ") -> " + table + "\n return\n}";
    KernelInputs launch{.operands = {randomIntegers(2 * 38, 1, 11), randomFloats(2 * 37 * d, 2)},
                        .length = 30,
                        .rows = 2};
    expectRoundedResults(text, {values}, launch);
  }
}

/// Invalid rows hold NaN in every input.
TEST(Storage, Attention) {
  AttentionCase byDistance{"by distance", 2, 70, 4, 2, 6, 65, 2, window(40), softCap(3), true};
  byDistance.distances = true;
  byDistance.biasRows = 9;
  const std::vector<AttentionCase> cases = {
      {"one position", 1, 1, 1, 1, 8, 1, 1, causal(), scaled(0.25)},
      {"grouped heads of 5", 2, 37, 4, 2, 5, 33, 2, causal(), scaled(0.25)},
      {"rotary", 1, 70, 2, 2, 16, 70, 1, window(20), scaled(0.25), true},
      {"dropout", 2, 44, 2, 1, 8, 100, 2, causal(), softCap(3), false, 0.2f, 3, 3},
      {"two blocks", 1, 130, 2, 2, 40, 129, 1, everything(), scaled(0.25)},
      byDistance};
  for (const AttentionCase &c : cases) {
    SCOPED_TRACE(c.name);
    AttentionData data = makeAttention(c);
    std::string qkv = tensor({c.batch, c.positions, c.width()}),
                output = tensor({c.batch, c.positions, c.heads * c.head});
    KernelInputs forward{.operands = {data.qkv, data.qkv, data.qkv},
                         .length = c.length,
                         .rows = c.rows,
                         .step = c.step,
                         .seed = c.seed};
    KernelInputs backward = forward;
    forward.operands.insert(forward.operands.end(), data.terms.begin(), data.terms.end());
    backward.operands.insert(backward.operands.end(),
                             {data.outputIn, data.lseIn, data.outputGradient});
    backward.operands.insert(backward.operands.end(), data.terms.begin(), data.terms.end());
    if (c.rotary) {
      backward.operands.push_back(data.rotary);
    }
    expectRoundedResults(c.forwardText(), {qkv, output}, forward);
    expectRoundedResults(c.backwardText(), {qkv, output}, backward);
  }
}

std::string lossText(const std::string &op, const std::vector<std::string> &operands,
                     const std::vector<std::string> &results, const std::string &sizes,
                     int64_t positions) {
  std::string parameters, names, types, resultTypes;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string name = "%a" + std::to_string(i), comma = i ? ", " : "";
    parameters += comma + name + ": " + operands[i];
    names += comma + name;
    types += comma + operands[i];
  }
  for (size_t i = 0; i < results.size(); ++i) {
    resultTypes += (i ? ", " : "") + results[i];
  }
  return "func.func @f(" + parameters + ") {\n%r:" + std::to_string(results.size()) +
         " = dispatch." + op + " " + names +
         " attributes {domain = #dispatch.domain<batch = 2, positions = " +
         std::to_string(positions) + ", factor = 1>, offset = 1 : i64, " + sizes + "} : (" + types +
         ") -> (" + resultTypes + ")\n return\n}";
}

/// Vocabularies below and above a block of tokens, of a multiple of the register tile and not.
TEST(Storage, CrossEntropy) {
  for (auto [positions, width, vocabulary] :
       {std::array<int64_t, 3>{1, 5, 2}, {29, 16, 135}, {50, 33, 60}, {70, 40, 400}}) {
    SCOPED_TRACE(vocabulary);
    std::string rows = tensor({2, positions, width}), weight = tensor({vocabulary, width});
    std::string tokens = tensor({2, positions + 1}, "i32"), numbers = tensor({2, positions});
    std::string bias = tensor({vocabulary});
    KernelInputs launch{.operands = {randomFloats(2 * positions * width, 1),
                                     randomFloats(vocabulary * width, 2),
                                     randomIntegers(2 * (positions + 1), 3, int(vocabulary))},
                        .length = std::max<int64_t>(1, positions - 3),
                        .rows = 2};
    std::string forward =
        lossText("cross_entropy", {rows, weight, tokens}, {numbers, numbers, rows},
                 "operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, "
                 "resultSegmentSizes = array<i32: 1, 1, 1>",
                 positions);
    expectRoundedResults(forward, {rows, weight}, launch);
    LoadedKernel losses(forward, *targets().front(), generate);
    KernelInputs backward = launch;
    backward.operands.push_back(losses.run(launch)[1]);
    backward.operands.push_back(randomFloats(vocabulary, 5));
    // The gradient of bf16 weights is f32: restores its type.
    std::string text = lossText(
        "cross_entropy_weight_gradient", {rows, weight, tokens, numbers, bias}, {"GRADIENT", bias},
        "operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0>", positions);
    auto withGradient = [&](std::string op) { return op.replace(op.find("GRADIENT"), 8, weight); };
    for (const cpu::Target *target : targets()) {
      LoadedKernel plain(withGradient(text), *target, generate),
          half(withGradient(halved(text, {rows, weight})), *target, generate);
      ASSERT_TRUE(plain.loaded() && half.loaded());
      KernelInputs same = backward;
      same.operands[0] = rounded(same.operands[0]);
      same.operands[1] = rounded(same.operands[1]);
      EXPECT_TRUE(plain.run(same) == half.run(same)) << target->name.str();
    }
  }
}

} // namespace
