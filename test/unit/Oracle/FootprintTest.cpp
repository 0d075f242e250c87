// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes and reads of launches, byte by byte: two sequences of five rows, four of the first valid.
#include "sluice/Oracle/Footprint.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"

#include "gtest/gtest.h"

using namespace sluice;

namespace {

class Footprint : public ::testing::Test {
protected:
  /// The dispatch in the body of a function with these parameters.
  mlir::Operation *parse(const std::string &parameters, const std::string &body) {
    context.loadDialect<dispatch::DispatchDialect, mlir::func::FuncDialect,
                        mlir::arith::ArithDialect>();
    std::string text =
        "#own = #dispatch.access<row, factor = 1>\n"
        "#all = #dispatch.domain<batch = 2, positions = 5, factor = 1>\nfunc.func @f(" +
        parameters + ") {\n" + body + "\n  return\n}\n";
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    mlir::Operation *op = nullptr;
    if (module) {
      module->walk([&](mlir::Operation *found) { op = found->hasAttr("domain") ? found : op; });
    }
    EXPECT_TRUE(op);
    return op;
  }
  mlir::Operation *contract() {
    return parse("%x: tensor<2x5x20xf32>, %w: tensor<12x20xf32>",
                 "%y = dispatch.contract %x, %w attributes {domain = #all, accesses = [], "
                 "result_accesses = [#own]} {\n^bb0(%acc: f32):\n  dispatch.yield %acc : f32\n} : "
                 "(tensor<2x5x20xf32>, tensor<12x20xf32>) -> tensor<2x5x12xbf16>");
  }
  /// One row per step of a ring of three, with a residual of all positions.
  mlir::Operation *stepContract() {
    std::string types =
        "tensor<2x3x20xf32>, tensor<12x20xf32>, tensor<2x5x12xf32>, tensor<2x3xi64>";
    return parse("%x: tensor<2x3x20xf32>, %w: tensor<12x20xf32>, %r: tensor<2x5x12xf32>, "
                 "%runs: tensor<2x3xi64>",
                 "%y = dispatch.contract %x, %w, %r, %runs attributes {domain = "
                 "#dispatch.domain<batch = 2, positions = 2, factor = 1, scheduled = true>, "
                 "accesses = [#own], result_accesses = [#own]} {\n"
                 "^bb0(%acc: f32, %residual: f32):\n  dispatch.yield %acc : f32\n} : (" +
                     types + ") -> tensor<2x3x12xbf16>");
  }
  mlir::Operation *attention(int64_t head) {
    std::string size = std::to_string(head),
                qkv = "tensor<2x5x" + std::to_string(3 * head) + "xbf16>",
                results = "(tensor<2x5x" + size + "xbf16>, tensor<2x5x1xf32>)";
    return parse("%x: " + qkv, "%o:2 = dispatch.attention %x, %x, %x attributes {domain = #all, "
                               "heads = 1 : i64, kv_heads = 1 : i64, head_size = " +
                                   size + " : i64, query_column = 0 : i64, key_column = " + size +
                                   " : i64, value_column = " + std::to_string(2 * head) +
                                   " : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {\n"
                                   "^bb0(%s: f32, %p: i32, %q: i32, %h: i32):\n"
                                   "  dispatch.yield %s : f32\n} : (" +
                                   qkv + ", " + qkv + ", " + qkv + ") -> " + results);
  }
  mlir::Operation *rows(const std::string &more) {
    return parse("%x: tensor<2x5x20xf32>",
                 "%y = dispatch.rows %x attributes {domain = #all, accesses = [#own], "
                 "result_accesses = [#own]" +
                     more +
                     "} {\n^bb0(%a: tensor<20xf32>):\n  dispatch.yield %a : tensor<20xf32>\n} : "
                     "(tensor<2x5x20xf32>) -> tensor<2x5x20xf32>");
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  const oracle::Extent extent{4, 1};
};

std::vector<std::pair<int64_t, int64_t>> pairs(const std::vector<oracle::Bytes> &all) {
  std::vector<std::pair<int64_t, int64_t>> result;
  for (oracle::Bytes bytes : all) {
    result.emplace_back(bytes.offset, bytes.count);
  }
  return result;
}
using Pairs = std::vector<std::pair<int64_t, int64_t>>;

} // namespace

/// Rows of 12 numbers of two bytes are 32 bytes apart; neither padding nor other rows are written.
TEST_F(Footprint, WritesValidRowsWithoutPadding) {
  EXPECT_EQ(pairs(oracle::writtenBytes(contract(), 0, extent)),
            (Pairs{{0, 24}, {32, 24}, {64, 24}, {96, 24}}));
}

TEST_F(Footprint, WritesRowsThatMustBeZero) {
  EXPECT_EQ(oracle::writtenBytes(rows(""), 0, extent).size(), 4u);
  EXPECT_EQ(oracle::writtenBytes(rows(", zero_invalid"), 0, extent).size(), 10u);
}

/// Rows of 20 numbers of four bytes are 128 apart, 80 of them used.
TEST_F(Footprint, IgnoresPaddingAndInvalidRows) {
  Pairs found = pairs(oracle::ignoredBytes(contract(), 0, extent));
  Pairs expected;
  for (int64_t row = 0; row < 10; ++row) {
    if (row >= 4) {
      expected.emplace_back(row * 128, 80);
    }
    expected.emplace_back(row * 128 + 80, 48);
  }
  EXPECT_EQ(found, expected);
  EXPECT_TRUE(oracle::ignoredBytes(contract(), 1, extent).empty()) << "weights are all used";
}

/// A row pass reads valid rows only, a contraction the tiles that contain one.
TEST_F(Footprint, ComputesReadableRows) {
  EXPECT_EQ(pairs(oracle::readBytes(rows(""), 0, extent, 1)),
            (Pairs{{0, 128}, {128, 128}, {256, 128}, {384, 128}}));
  EXPECT_EQ(pairs(oracle::readBytes(contract(), 0, extent, 1)), (Pairs{{0, 1280}}));
  EXPECT_EQ(pairs(oracle::readBytes(contract(), 1, extent, 1)), (Pairs{{0, 960}}));
}

/// Attention's operands: valid rows only (24 columns of two bytes, 64 apart), unless heads are read
/// element by element, which reads rows that it then ignores.
TEST_F(Footprint, AttentionReadsValidRows) {
  EXPECT_EQ(pairs(oracle::readBytes(attention(8), 1, extent, 1)),
            (Pairs{{0, 64}, {64, 64}, {128, 64}, {192, 64}}));
  EXPECT_EQ(oracle::readBytes(attention(6), 1, extent, 1).size(), 1u);
}

/// On an axis of segments each sequence has its own number of rows: two and one.
TEST_F(Footprint, HandlesLengthsPerSequence) {
  const int64_t lengths[] = {2, 1};
  const oracle::Extent own{0, 2, nullptr, lengths};
  Pairs lines = {{0, 128}, {128, 128}, {640, 128}};
  EXPECT_EQ(pairs(oracle::readBytes(rows(""), 0, own, 1)), lines);
  EXPECT_EQ(pairs(oracle::writtenBytes(contract(), 0, own)), (Pairs{{0, 24}, {32, 24}, {160, 24}}));
  Pairs ignored;
  for (int64_t row = 0; row < 10; ++row) {
    if (row != 0 && row != 1 && row != 5) {
      ignored.emplace_back(row * 128, 80);
    }
    ignored.emplace_back(row * 128 + 80, 48);
  }
  EXPECT_EQ(pairs(oracle::ignoredBytes(contract(), 0, own)), ignored);
}

/// Rows 2 and 3 of the first sequence, in slots 2 and 0; none of the second.
TEST_F(Footprint, ScheduledMemoryUsesRings) {
  const int64_t schedule[] = {2, 2, 4, 7, 0, 7};
  const oracle::Extent steps{0, 0, schedule};
  mlir::Operation *op = stepContract();
  EXPECT_EQ(pairs(oracle::writtenBytes(op, 0, steps)), (Pairs{{2 * 32, 24}, {0, 24}}));
  // All of the input but these rows, and their padding.
  EXPECT_EQ(pairs(oracle::ignoredBytes(op, 0, steps)), (Pairs{{80, 48},
                                                              {128, 80},
                                                              {208, 48},
                                                              {336, 48},
                                                              {384, 80},
                                                              {464, 48},
                                                              {512, 80},
                                                              {592, 48},
                                                              {640, 80},
                                                              {720, 48}}));
  EXPECT_EQ(oracle::ignoredBytes(op, 2, steps).size(), 10u + 8u);
  EXPECT_EQ(pairs(oracle::readBytes(op, 0, steps, 1)), (Pairs{{0, 6 * 128}}));
}
