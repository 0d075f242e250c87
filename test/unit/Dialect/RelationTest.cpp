// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares each op's relation with its reference: result p changes with operand q if and only if
// the relation holds.
#include "Model.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace sluice;
using namespace sluice::testing;
using reference::RuntimeValues;

namespace {

struct RelationCase {
  const char *name;
  const char *function; ///< one op of the forward pass over the function's arguments
};

void PrintTo(const RelationCase &one, std::ostream *out) { *out << one.name; }

constexpr int64_t vocabulary = 7;
constexpr int64_t rows = 2;
constexpr int draws = 2;

/// Examined result positions: also rows of a lazy op past the end.
int64_t extent(Operation *op, const reference::Evaluator<double> &evaluator, Value result) {
  bool lazy = isa<ShiftOp, UpsampleOp, UnfoldOp>(op);
  return evaluator.getPositions(result) + (lazy ? 9 : 0);
}

/// Lists of `sluice.degrees` for 120 edges: each of 16 rows is a neighbour of each other one.
std::vector<int32_t> getAllEdges() {
  std::vector<int32_t> lists;
  for (int batchRow = 0; batchRow < rows; ++batchRow) {
    for (int32_t p = 0; p < 16; ++p) {
      lists.push_back(15 * (p + 1));
    }
    for (int32_t p = 0; p < 16; ++p) {
      for (int32_t q = 0; q < 16; ++q) {
        if (p != q) {
          lists.push_back(q);
        }
      }
    }
  }
  return lists;
}

/// All results of `op`, one vector per (row, position).
std::vector<std::vector<Doubles>> observe(Operation *op, func::FuncOp function,
                                          const Arguments &arguments, RuntimeValues setting) {
  reference::Evaluator<double> evaluator(function->getParentOfType<ModuleOp>(), setting);
  arguments.set(evaluator, function);
  evaluator.edges["all"] = getAllEdges();
  EXPECT_TRUE(succeeded(evaluator.evaluate(function)));
  std::vector<std::vector<Doubles>> all(setting.rows);
  for (int64_t b = 0; b < setting.rows; ++b) {
    for (Value result : op->getResults()) {
      int64_t positions = extent(op, evaluator, result);
      all[b].resize(positions);
      for (int64_t p = 0; p < positions; ++p) {
        Doubles row = evaluator.rowAt(result, b, p);
        all[b][p].insert(all[b][p].end(), row.begin(), row.end());
      }
    }
  }
  return all;
}

/// Other numbers for position q of row 0 of argument `index`, from `above` up: a maximum reacts
/// only to a number greater than the others.
Arguments perturb(RandomEngine &generator, Arguments arguments, unsigned index, int64_t q,
                  bool tokens, int64_t columns, double above) {
  Doubles &numbers = arguments.values[index];
  if (tokens) {
    numbers[q] = static_cast<double>(
        (static_cast<int64_t>(numbers[q]) + 1 + generator() % (vocabulary - 1)) % vocabulary);
    return arguments;
  }
  Doubles other = randomNumbers(generator, columns);
  for (double &number : other) {
    number += above;
  }
  std::copy(other.begin(), other.end(), numbers.begin() + q * columns);
  return arguments;
}

/// A fully masked attention row has a defined result that no query changes.
bool readsNothing(Operation *op, unsigned operand, int64_t p,
                  const reference::Evaluator<double> &sizes) {
  auto attention = dyn_cast<AttentionOp>(op);
  if (!attention || operand != 0) {
    return false;
  }
  IntegerSet mask = attention.getMask();
  int64_t n = sizes.getPositions(attention.getKey());
  return llvm::none_of(llvm::seq<int64_t>(0, n),
                       [&](int64_t q) { return reference::contains(mask, p, q, n); });
}

class RelationTest : public ::testing::TestWithParam<RelationCase> {
protected:
  RelationTest() : model(GetParam().function), function(model.getFunction()) {
    for (Operation &candidate : function.getBody().front()) {
      if (isa<CausalFlowInterface>(candidate)) {
        op = &candidate;
      }
    }
  }
  IntegerSet relation(unsigned operand) {
    return *cast<CausalFlowInterface>(op).getRelation(operand);
  }
  std::vector<unsigned> sequenceOperands() {
    std::vector<unsigned> found;
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      if (cast<CausalFlowInterface>(op).getRelation(i)) {
        found.push_back(i);
      }
    }
    return found;
  }

  void check(unsigned operand, RuntimeValues setting, RandomEngine &generator);

  DialectModel model;
  func::FuncOp function;
  Operation *op = nullptr;
};

void RelationTest::check(unsigned operand, RuntimeValues setting, RandomEngine &generator) {
  Value value = op->getOperand(operand);
  unsigned index = cast<BlockArgument>(value).getArgNumber();
  bool tokens = cast<SequenceType>(value.getType()).getElement().isInteger();
  reference::Evaluator<double> sizes(model.getModule(), setting);
  int64_t n = sizes.getPositions(value);
  Arguments arguments = randomArguments(generator, function, setting, vocabulary);
  auto before = observe(op, function, arguments, setting);
  for (int64_t q = 0; q < n; ++q) {
    std::vector<bool> changed(before[0].size());
    for (int draw = 0; draw < draws; ++draw) {
      Arguments other =
          perturb(generator, arguments, index, q, tokens, reference::getColumns(value),
                  /*above=*/4.0 * draw);
      auto after = observe(op, function, other, setting);
      EXPECT_EQ(before[1], after[1]) << "another row of the batch changed";
      for (size_t p = 0; p < changed.size(); ++p) {
        changed[p] = changed[p] || before[0][p] != after[0][p];
      }
    }
    for (size_t p = 0; p < changed.size(); ++p) {
      bool expected =
          reference::contains(relation(operand), p, q, n) && !readsNothing(op, operand, p, sizes);
      ASSERT_EQ(changed[p], expected) << "operand " << operand << ", p " << p << ", q " << q
                                      << ", n " << n << ", length " << setting.length;
    }
  }
}

TEST_P(RelationTest, MatchesTheReadsOfTheReference) {
  RandomEngine generator(7);
  std::vector<unsigned> operands = sequenceOperands();
  for (int64_t length = 1; length <= 16; ++length) {
    for (unsigned operand : operands) {
      check(operand, {.rows = rows, .length = length}, generator);
    }
  }
}

/// Dispatches read through exactly the values that analyses treat as not stored.
TEST_P(RelationTest, IsLazyWhereDispatchesReadThrough) {
  auto fusion = cast<FusionInterface>(op);
  EXPECT_EQ(isLazy(op), fusion.getFusionRole() == FusionRole::Access);
}

TEST_P(RelationTest, LatestIsTheLastPositionOfTheRelation) {
  constexpr int64_t n = 400; // far past every q that a bounded row p < 40 reads
  for (unsigned operand : sequenceOperands()) {
    AffineExpr latest = cast<CausalFlowInterface>(op).getLatest(operand);
    for (int64_t p = 0; p < 40; ++p) {
      std::optional<int64_t> last;
      for (int64_t q = -64; q < n; ++q) {
        if (reference::contains(relation(operand), p, q, n)) {
          last = q;
        }
      }
      if (!last) {
        continue;
      }
      if (latest) {
        EXPECT_EQ(reference::evaluateAffine(latest, p, 0, 0), *last)
            << "operand " << operand << ", p " << p;
      } else {
        EXPECT_EQ(*last, n - 1) << "operand " << operand << ", p " << p;
      }
    }
  }
}

#define SEQ(SCALE, WIDTH) "!sluice.seq<@" SCALE ", " #WIDTH ", f32>"
#define TOKENS "!sluice.seq<@s1, 0, i32>"

/// One op with attributes between scales.
#define RESCALE(OP, ATTRIBUTES, FROM, TO)                                                          \
  "(%x: " FROM ") -> " TO " { %y = sluice." OP " %x " ATTRIBUTES " : (" FROM ") -> " TO            \
  " return %y : " TO " }"

/// A shift on one scale whose first rows are a tensor.
#define RECURRENCE(ATTRIBUTES)                                                                     \
  "(%x: " SEQ("s2", 4) ") -> " SEQ(                                                                \
      "s2", 2) " { %h = sluice.recurrence %x " ATTRIBUTES                                          \
               " { ^bb0(%a: f32, %b: f32, %c: f32): %m = arith.mulf %a, %c : f32 "                 \
               "%n = arith.addf %m, %b : f32 sluice.yield %n : f32 } : (" SEQ(                     \
                   "s2", 4) ") -> " SEQ("s2", 2) " return %h : " SEQ("s2", 2) " }"
#define START(BY, SCALE)                                                                           \
  "(%x: " SEQ(SCALE, 2) ", %r: tensor<2xf32>) -> " SEQ(                                            \
      SCALE, 2) " { %y = sluice.start %x, %r " BY                                                  \
                " : (" SEQ(SCALE, 2) ", tensor<2xf32>) -> " SEQ(SCALE, 2) " return %y : " SEQ(     \
                    SCALE, 2) " }"

/// Two heads of 2; queries on scale Q, keys and values apart on scale K.
#define ATTENTION_BETWEEN(Q, K, KV_HEADS, KV_WIDTH, MASK, SCORE)                                   \
  "(%q: " SEQ(Q, 4) ", %k: " SEQ(K, KV_WIDTH) ", %v: " SEQ(K, KV_WIDTH) ") -> " SEQ(               \
      Q, 4) " {"                                                                                   \
            " %o, %l = sluice.attention %q, %k, %v attributes {heads = 2 : i64, kv_heads "         \
            "= " #KV_HEADS " : i64, head_size = 2 : i64, query_column = 0 : i64, key_column = 0 "  \
            ": i64, value_column = 0 : "                                                           \
            "i64, mask = affine_set<" MASK ">} {^bb0(%s: f32, %p: i32, %t: i32, %h: i32): " SCORE  \
            "} : (" SEQ(Q, 4) ", " SEQ(K, KV_WIDTH) ", " SEQ(K, KV_WIDTH) ") -> (" SEQ(            \
                Q, 4) ", " SEQ(Q, 2) ") return %o : " SEQ(Q, 4) " }"
#define ATTENTION(KV_HEADS, KV_WIDTH, MASK, SCORE)                                                 \
  ATTENTION_BETWEEN("s1", "s1", KV_HEADS, KV_WIDTH, MASK, SCORE)
#define PLAIN "sluice.yield %s : f32"
/// Two heads of 2 with rows by distance, and a table of two distances.
constexpr const char *attentionByDistance =
    R"((%q: !sluice.seq<@s1, 4, f32>, %k: !sluice.seq<@s1, 4, f32>,
    %u: !sluice.seq<@s1, 4, f32>, %r: !sluice.seq<@s1, 4, f32>, %b: tensor<2x2xf32>) -> !sluice.seq<@s1, 4, f32> {
  %o, %l = sluice.attention %q, %k, %k, %u, %r, %b attributes {heads = 2 : i64, kv_heads = 2 : i64, head_size = 2 : i64,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, distance_bias,
      mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %t: i32, %h: i32, %d: f32, %e: f32):
    %f = arith.addf %s, %d : f32
    %c = arith.addf %f, %e : f32
    sluice.yield %c : f32
  } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>,
       !sluice.seq<@s1, 4, f32>, tensor<2x2xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
  return %o : !sluice.seq<@s1, 4, f32>
})";

/// The same from groups of four over their members.
constexpr const char *attentionByDistanceBetweenScales =
    R"((%q: !sluice.seq<@s4, 2, f32>, %k: !sluice.seq<@s1, 2, f32>,
    %u: !sluice.seq<@s4, 2, f32>, %r: !sluice.seq<@s1, 2, f32>) -> !sluice.seq<@s4, 2, f32> {
  %o, %l = sluice.attention %q, %k, %k, %u, %r attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 2 : i64,
      query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64,
      distance = affine_map<(p, q) -> (p * 4 - q)>, mask = affine_set<(p, q)[n] : (p * 4 - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %t: i32, %h: i32, %d: f32):
    %f = arith.addf %s, %d : f32
    sluice.yield %f : f32
  } : (!sluice.seq<@s4, 2, f32>, !sluice.seq<@s1, 2, f32>, !sluice.seq<@s1, 2, f32>, !sluice.seq<@s4, 2, f32>,
       !sluice.seq<@s1, 2, f32>) -> (!sluice.seq<@s4, 2, f32>, !sluice.seq<@s4, 1, f32>)
  return %o : !sluice.seq<@s4, 2, f32>
})";

const RelationCase cases[] = {
    {"embed", "(%t: " TOKENS ", %w: tensor<7x3xf32>) -> " SEQ(
                  "s1", 3) " { %y = sluice.embed %t, %w : (" TOKENS
                           ", tensor<7x3xf32>) -> " SEQ("s1", 3) " return %y : " SEQ("s1", 3) " }"},
    {"position", "(%w: tensor<16x3xf32>) -> " SEQ(
                     "s1", 3) " { %y = sluice.position %w : (tensor<16x3xf32>) "
                              "-> " SEQ("s1", 3) " return %y : " SEQ("s1", 3) " }"},
    {"map", "(%a: " SEQ("s3", 2) ", %b: " SEQ("s3", 2) ") -> " SEQ(
                "s3", 2) " { %y = sluice.map(%a, %b) {"
                         "^bb0(%x: f32, %r: f32): %e = math.exp %r : f32 %z = arith.addf %x, "
                         "%e : f32 sluice.yield %z : f32 } : (" SEQ("s3", 2) ", " SEQ(
                             "s3", 2) ") -> " SEQ("s3", 2) " return %y : " SEQ("s3", 2) " }"},
    {"map_of_every_third_row",
     "(%a: " SEQ("s1", 2) ", %b: " SEQ("s1", 2) ") -> " SEQ(
         "s1", 2) " { %y = sluice.map(%a, %b) { ^bb0(%x: f32, %r: f32): %p = dispatch.position "
                  "%one = arith.constant 1 : i32 %s = arith.addi %p, %one : i32 "
                  "%k = arith.constant 3 : i32 %m = arith.remsi %s, %k : i32 "
                  "%z = arith.constant 0 : i32 %is = arith.cmpi eq, %m, %z : i32 "
                  "%v = arith.select %is, %x, %r : f32 sluice.yield %v : f32 } : (" SEQ(
                      "s1", 2) ", " SEQ("s1", 2) ") -> " SEQ("s1", 2) " return %y : " SEQ("s1",
                                                                                          2) " }"},
    {"layer_norm", "(%x: " SEQ("s1", 4) ", %g: tensor<4xf32>, %b: tensor<4xf32>) -> " SEQ(
                       "s1", 4) " { %y, %m, %r = sluice.norm %x, %g, %b {epsilon = 1.0e-5 : "
                                "f64} : (" SEQ("s1", 4) ", tensor<4xf32>, tensor<4xf32>) -> "
                                                        "(" SEQ("s1", 4) ", " SEQ("s1", 0) ", " SEQ(
                                                            "s1", 0) ") "
                                                                     "ret"
                                                                     "urn"
                                                                     " %"
                                                                     "y "
                                                                     ":"
                                                                     " " SEQ("s1", 4) " }"},
    {"rms_norm", "(%x: " SEQ("s2", 4) ", %g: tensor<4xf32>) -> " SEQ(
                     "s2", 4) " { %y, %m, %r = sluice.norm %x, %g {epsilon = 1.0e-5 : f64, rms} : "
                              "(" SEQ("s2", 4) ", tensor<4xf32>) -> (" SEQ("s2", 4) ", " SEQ(
                                  "s2", 0) ", " SEQ("s2", 0) ") "
                                                             "retu"
                                                             "rn "
                                                             "%y "
                                                             ":"
                                                             " " SEQ("s2", 4) " }"},
    {"linear",
     "(%x: " SEQ("s2", 3) ", %w: tensor<5x3xf32>, %b: tensor<5xf32>) -> " SEQ(
         "s2", 5) " { %y = sluice.linear %x, %w, %b : (" SEQ("s2",
                                                             3) ", tensor<5x3xf32>, tensor<5xf32>) "
                                                                "-> " SEQ("s2",
                                                                          5) " return %y "
                                                                             ": " SEQ("s2",
                                                                                      5) " }"},
    {"shift_0", RESCALE("shift", "by 0", SEQ("s1", 2), SEQ("s1", 2))},
    {"shift_1", RESCALE("shift", "by 1", SEQ("s1", 2), SEQ("s1", 2))},
    {"shift_3_coarse", RESCALE("shift", "by 3", SEQ("s4", 2), SEQ("s4", 2))},
    {"shift_7", RESCALE("shift", "by 7", SEQ("s1", 2), SEQ("s1", 2))},
    {"clear_padding", RESCALE("clear_padding", "fill 0.0", SEQ("g1", 2), SEQ("g1", 2))},
    {"shift_back_2", RESCALE("shift", "by -2", SEQ("s1", 2), SEQ("s1", 2))},
    {"recurrence", RECURRENCE("")},
    {"recurrence_reversed", RECURRENCE("attributes {reversed}")},
    {"start_1", START("by 1", "s1")},
    {"start_3_coarse", START("by 3", "s4")},
    {"shorten_1", RESCALE("shorten", "factor 1", SEQ("s1", 2), SEQ("s1", 2))},
    {"shorten_2", RESCALE("shorten", "factor 2", SEQ("s1", 2), SEQ("s2", 2))},
    {"shorten_3_sum", RESCALE("shorten", "factor 3 sum", SEQ("s2", 2), SEQ("s6", 2))},
    {"shorten_3_max", RESCALE("shorten", "factor 3 max", SEQ("s1", 2), SEQ("s3", 2))},
    {"shorten_8", RESCALE("shorten", "factor 8", SEQ("s1", 1), SEQ("s8", 1))},
    {"shorten_2_window_5", RESCALE("shorten", "factor 2 window 5", SEQ("s1", 2), SEQ("s2", 2))},
    {"shorten_3_window_1", RESCALE("shorten", "factor 3 window 1 sum", SEQ("s2", 2), SEQ("s6", 2))},
    {"shorten_1_window_4", RESCALE("shorten", "factor 1 window 4", SEQ("s2", 2), SEQ("s2", 2))},
    {"shorten_3_window_7_max",
     RESCALE("shorten", "factor 3 window 7 max", SEQ("s1", 2), SEQ("s3", 2))},
    {"fold_2_window_3", RESCALE("fold", "factor 2 window 3", SEQ("s1", 2), SEQ("s2", 6))},
    {"fold_1_window_3", RESCALE("fold", "factor 1 window 3", SEQ("s4", 1), SEQ("s4", 3))},
    {"fold_4_window_2", RESCALE("fold", "factor 4 window 2", SEQ("s2", 1), SEQ("s8", 2))},
    {"upsample_2", RESCALE("upsample", "factor 2", SEQ("s4", 2), SEQ("s2", 2))},
    {"upsample_3", RESCALE("upsample", "factor 3", SEQ("s3", 2), SEQ("s1", 2))},
    {"fold_2", RESCALE("fold", "factor 2", SEQ("s1", 2), SEQ("s2", 4))},
    {"fold_4", RESCALE("fold", "factor 4", SEQ("s2", 1), SEQ("s8", 4))},
    {"unfold_2", RESCALE("unfold", "factor 2", SEQ("s8", 4), SEQ("s4", 2))},
    {"unfold_3", RESCALE("unfold", "factor 3", SEQ("s3", 3), SEQ("s1", 1))},
    {"total", RESCALE("total", "", SEQ("s2", 2), SEQ("s2", 2))},
    {"entropy", RESCALE("entropy", "", SEQ("s2", 3), SEQ("s2", 1))},
    {"update", "() -> " SEQ("s1", 0) " { %y = sluice.update : " SEQ("s1", 0) " return %y : " SEQ(
                   "s1", 0) " }"},
    {"counted_rows", "() -> " SEQ("s1", 0) " { %y = sluice.counted_rows {every = 3 : i64} : " SEQ(
                         "s1", 0) " return %y : " SEQ("s1", 0) " }"},
    {"map_of_tokens",
     "(%t: " TOKENS ") -> " TOKENS " { %y = sluice.map(%t) { ^bb0(%a: i32): "
     "%c = arith.constant 5 : i32 %z = arith.muli %a, %c : i32 "
     "sluice.yield %z : i32 } : (" TOKENS ") -> " TOKENS " return %y : " TOKENS " }"},
    {"sum_columns", RESCALE("sum_columns", "", SEQ("s2", 3), SEQ("s2", 0))},
    {"repeat_columns", RESCALE("repeat_columns", "", SEQ("s2", 0), SEQ("s2", 3))},
    {"fit", RESCALE("fit", " at 2", SEQ("s2", 3), SEQ("s2", 4))},
    {"place",
     "(%x: " SEQ("s1", 2) ", %n: " SEQ("s1", 0) ") -> " SEQ(
         "s1",
         6) " { %y = sluice.place %x at %n : (" SEQ("s1",
                                                    2) ", " SEQ("s1",
                                                                0) ") -> " SEQ("s1",
                                                                               6) " return %y "
                                                                                  ": " SEQ("s1",
                                                                                           6) " }"},
    {"degrees",
     "() -> " SEQ("g1", 0) " { %y = sluice.degrees over \"all\" capacity 120 : () -> " SEQ(
         "g1", 0) " return %y : " SEQ("g1", 0) " }"},
    {"graph_sum",
     "(%x: " SEQ("g1", 2) ", %l: " SEQ("g1", 0) ", %r: " SEQ("g1", 0) ") -> " SEQ(
         "g1", 2) " { %y = sluice.graph_sum %x left(%l) right(%r) over \"all\" capacity 120 : "
                  "(" SEQ("g1", 2) ", " SEQ("g1", 0) ", " SEQ("g1", 0) ") -> " SEQ(
                      "g1", 2) " return %y : " SEQ("g1", 2) " }"},
    {"graph_mean", "(%x: " SEQ("g1", 2) ", %l: " SEQ("g1", 0) ") -> " SEQ(
                       "g1", 2) " { %y = sluice.graph_sum %x left(%l) over \"all\" capacity 120 : "
                                "(" SEQ("g1", 2) ", " SEQ("g1", 0) ") -> " SEQ(
                                    "g1", 2) " return %y : " SEQ("g1", 2) " }"},
    {"graph_attention",
     "(%s: " SEQ("g1", 0) ", %t: " SEQ("g1", 0) ", %x: " SEQ("g1", 2) ") -> " SEQ(
         "g1", 2) " { %y, %l = sluice.graph_attention %s, %t, %x over \"all\" capacity 120 leak "
                  "2.0e-01 : (" SEQ("g1", 0) ", " SEQ("g1", 0) ", " SEQ("g1", 2) ") -> (" SEQ(
                      "g1", 2) ", " SEQ("g1", 0) ") return %y : " SEQ("g1", 2) " }"},
    {"last", "(%x: " SEQ("s3", 2) ") -> " SEQ("one", 2) " { %y = sluice.last %x : (" SEQ(
                 "s3", 2) ") -> " SEQ("one", 2) " return %y : " SEQ("one", 2) " }"},
    {"cross_entropy", "(%x: " SEQ("s1", 3) ", %w: tensor<7x3xf32>, %t: " TOKENS ") -> " SEQ(
                          "s1", 0) " { %l = sluice.cross_entropy %x, %w, %t {offset = 1 : i64} "
                                   ": (" SEQ("s1", 3) ", tensor<7x3xf32>, " TOKENS ") -> " SEQ(
                                       "s1", 0) " return %l : " SEQ("s1", 0) " }"},
    {"soft_loss",
     "(%z: " SEQ(
         "s1",
         5) ", %t: " TOKENS
            ") -> " SEQ("s1", 0) " { %l = sluice.soft_loss %z, %t against \"teacher\" : (" SEQ(
                "s1", 5) ", " TOKENS ") -> " SEQ("s1", 0) " return %l : " SEQ("s1", 0) " }"},
    {"attention_causal", ATTENTION(2, 4, "(p, q)[n] : (p - q >= 0)", PLAIN)},
    {"attention_by_distance", attentionByDistance},
    {"attention_by_distance_between_scales", attentionByDistanceBetweenScales},
    {"attention_causal_grouped", ATTENTION(1, 2, "(p, q)[n] : (p - q >= 0)", PLAIN)},
    {"attention_bidirectional", ATTENTION(2, 4, "(p, q)[n] : (n - 1 - q >= 0)", PLAIN)},
    {"attention_window", ATTENTION(2, 4, "(p, q)[n] : (p - q >= 0, q - p + 2 >= 0)", PLAIN)},
    {"attention_window_behind",
     ATTENTION(1, 2, "(p, q)[n] : (p - q - 1 >= 0, q - p + 3 >= 0)", PLAIN)},
    {"attention_ahead", ATTENTION(2, 4, "(p, q)[n] : (p - q + 2 >= 0)", PLAIN)},
    {"attention_diagonal", ATTENTION(2, 4, "(p, q)[n] : (p - q == 0)", PLAIN)},
    {"attention_groups", ATTENTION(2, 4, "(p, q)[n] : ((p + 1) floordiv 3 - 1 - q >= 0)", PLAIN)},
    {"attention_closed_groups",
     ATTENTION(2, 4, "(p, q)[n] : (p floordiv 3 - q floordiv 3 - 1 >= 0)", PLAIN)},
    {"attention_own_group",
     ATTENTION(2, 4, "(p, q)[n] : (p floordiv 2 - q floordiv 2 == 0)", PLAIN)},
    {"attention_two_bounds",
     ATTENTION(2, 4, "(p, q)[n] : (p - q >= 0, 2 * p + 1 - q >= 0)", PLAIN)},
    {"attention_over_a_finer_scale",
     ATTENTION_BETWEEN("s4", "s1", 2, 4, "(p, q)[n] : (4 * p - q >= 0)", PLAIN)},
    {"attention_over_a_coarser_scale",
     ATTENTION_BETWEEN("s1", "s4", 2, 4, "(p, q)[n] : (p - 4 * q >= 0)", PLAIN)},
    {"attention_over_complete_groups",
     ATTENTION_BETWEEN("s2", "s3", 1, 2, "(p, q)[n] : (2 * p - 3 * q - 1 >= 0)", PLAIN)},
    {"attention_over_a_window_of_groups",
     ATTENTION_BETWEEN("s2", "s3", 2, 4,
                       "(p, q)[n] : (2 * p - 3 * q - 3 >= 0, 3 * q - 2 * p + 8 >= 0)", PLAIN)},
    {"attention_over_all_of_a_scale",
     ATTENTION_BETWEEN("s2", "s4", 2, 4, "(p, q)[n] : (n - 1 - q >= 0)", PLAIN)},
    {"attention_every_third",
     ATTENTION(2, 4, "(p, q)[n] : (p - q - 1 >= 0, q - p + 6 >= 0, (p - q - 1) mod 3 == 0)",
               PLAIN)},
    {"attention_strided", ATTENTION(2, 4, "(p, q)[n] : (p - 2 * q >= 0)", PLAIN)},
    {"attention_scaled",
     ATTENTION(2, 4, "(p, q)[n] : (p - q >= 0)",
               "%c = arith.constant 0.5 : f32 %r = arith.mulf %s, %c : f32 sluice.yield %r : f32")},
};

TEST(Relations, EveryOpHasACase) {
  std::set<std::string> tested, all;
  for (const RelationCase &one : cases) {
    DialectModel model(one.function);
    for (Operation &op : model.getFunction().getBody().front()) {
      tested.insert(op.getName().getStringRef().str());
    }
  }
  DialectModel any(cases[0].function);
  for (RegisteredOperationName name :
       any.getContext()->getRegisteredOperationsByDialect("sluice")) {
    bool isOfSegments = name.getStringRef().contains("segment") || // SegmentsTest.cpp
                        name.getStringRef() == "sluice.attend_parts";
    bool isHashed = name.getStringRef().contains("hashed"); // HashedTest.cpp
    bool isBelow =
        name.getStringRef() == "sluice.labels" || name.getStringRef() == "sluice.resample";
    isBelow |= name.getStringRef() == "sluice.contrast"; // reads other texts: ReferenceTest.cpp
    if (name.hasInterface<CausalFlowInterface>() && !isOfSegments && !isHashed && !isBelow) {
      all.insert(name.getStringRef().str());
      EXPECT_TRUE(tested.count(name.getStringRef().str())) << name.getStringRef().str();
    }
  }
  EXPECT_FALSE(all.empty());
}

/// The reference's rule: one incremented token flips every label.
TEST(Relations, EveryLabelDependsOnEveryToken) {
  DialectModel model("(%t: " TOKENS
                     ") -> " SEQ("s1", 0) " { %y = sluice.labels \"words\" of %t : (" TOKENS
                                          ") -> " SEQ("s1", 0) " return %y : " SEQ("s1", 0) " }");
  func::FuncOp function = model.getFunction();
  auto op = cast<CausalFlowInterface>(&function.getBody().front().front());
  for (int64_t n = 1; n <= 16; ++n) {
    auto getLabelNames = [&](const std::vector<int32_t> &tokens) {
      reference::Evaluator<double> evaluator(model.getModule(), {.rows = 1, .length = n});
      evaluator.setTokens(function.getArgument(0), tokens);
      EXPECT_TRUE(succeeded(evaluator.evaluate(function)));
      return evaluator.getSequence(op->getResult(0));
    };
    std::vector<int32_t> tokens(static_cast<size_t>(n), 1);
    std::vector<double> before = getLabelNames(tokens);
    for (int64_t q = 0; q <= n; ++q) {
      std::vector<int32_t> changed = tokens;
      changed.resize(static_cast<size_t>(n + 1), 1);
      ++changed[static_cast<size_t>(q)];
      std::vector<double> after = getLabelNames(changed);
      for (int64_t t = 0; t < n; ++t) {
        EXPECT_EQ(before[static_cast<size_t>(t)] != after[static_cast<size_t>(t)], q < n);
        EXPECT_EQ(reference::contains(*op.getRelation(0), t, q, n), q < n);
      }
    }
  }
}

/// T and its adjoint, column by column, for each number of rows and of segments. Which rows are
/// read depends on both numbers, so the relation has all rows.
TEST(Relations, ResamplingDependsOnNumbersOfRowsAlone) {
  constexpr int64_t most = 16;
  for (const char *linear : {"", " linear"}) {
    std::string fine = SEQ("g1", 16), coarse = SEQ("u1", 16);
    DialectModel model("(%x: " + coarse + ", %y: " + fine + ") -> " + fine +
                       " { %r = sluice.resample %x" + linear + " : (" + coarse + ") -> " + fine +
                       " %s = sluice.resample %y" + linear + " transposed : (" + fine + ") -> " +
                       coarse + " return %r : " + fine + " }");
    func::FuncOp function = model.getFunction();
    auto ops = llvm::to_vector(function.getOps<ResampleOp>());
    for (ResampleOp op : ops) {
      for (int64_t q = -1; q <= most; ++q) {
        EXPECT_EQ(reference::contains(*op.getRelation(0), 3, q, most), q >= 0 && q < most);
      }
    }
    Doubles identity(most * most);
    for (int64_t i = 0; i < most; ++i) {
      identity[static_cast<size_t>(i * (most + 1))] = 1;
    }
    for (int64_t rows = 1; rows <= most; ++rows) {
      for (int64_t segments = 1; segments <= rows; ++segments) {
        reference::Evaluator<double> evaluator(model.getModule(), {.rows = 1, .length = most});
        evaluator.setCounts("source", {rows});
        evaluator.setCounts("phrases", {segments});
        evaluator.setSequence(function.getArgument(0), identity);
        evaluator.setSequence(function.getArgument(1), identity);
        ASSERT_TRUE(succeeded(evaluator.evaluate(function)));
        for (int64_t p = 0; p < rows; ++p) {
          double sum = 0, place = (double(p) + 0.5) * double(segments) / double(rows) - 0.5;
          place = std::clamp(place, 0.0, double(segments - 1));
          for (int64_t u = 0; u < segments; ++u) {
            double weight = evaluator.at(ops[0].getResult(), 0, p, u);
            EXPECT_EQ(weight, evaluator.at(ops[1].getResult(), 0, u, p));
            double expected = *linear ? std::max(0.0, 1 - std::abs(place - double(u)))
                                      : double(p * segments / rows == u);
            EXPECT_NEAR(weight, expected, 1e-12) << rows << ", " << segments << ", " << p;
            sum += weight;
          }
          EXPECT_NEAR(sum, 1, 1e-12);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, RelationTest, ::testing::ValuesIn(cases),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
