// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares the reference of each backward op with finite differences of the reference of its
// forward op, in float64.
#include "Gradient.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace sluice;
using namespace sluice::testing;
using reference::RuntimeValues;

namespace {

/// Differences of order h^4 and float64's rounding over h.
constexpr double differences = 1e-9;
/// If the derivative contains a constant rounded to float32: 2^-24, and sums of such.
constexpr double constants = 1e-7;

struct Case {
  const char *name;
  double tolerance; ///< relative to the gradient's largest element, at least 1
  std::string function;
};

void PrintTo(const Case &one, std::ostream *out) { *out << one.name; }

class GradientTest : public ::testing::TestWithParam<Case> {};

TEST_P(GradientTest, MatchesFiniteDifferences) {
  constexpr int64_t vocabulary = 5;
  DialectModel model(GetParam().function);
  std::vector<unsigned> indices = addGradient(model);
  ASSERT_FALSE(indices.empty());
  RandomEngine generator(11);
  for (int64_t length : {1, 2, 5, 8, 11, 13}) {
    RuntimeValues setting{.rows = 2, .length = length, .seed = 0x123456789abcdef, .step = 3};
    Arguments all = randomArguments(generator, model.getFunction("gradient"), setting, vocabulary);
    size_t count = model.getFunction().getNumArguments();
    std::vector<Doubles> weights(all.values.begin() + count, all.values.end());
    Arguments arguments{{all.values.begin(), all.values.begin() + count}};
    std::vector<Doubles> gradients = evaluate<double>(model.getFunction("gradient"), all, setting);
    for (auto [index, gradient] : llvm::zip_equal(indices, gradients)) {
      Doubles expected = finiteDifference(model, arguments, index, weights, setting);
      double scale = 1;
      for (double value : expected) {
        scale = std::max(scale, std::fabs(value));
      }
      ASSERT_EQ(gradient.size(), expected.size());
      for (size_t i = 0; i < gradient.size(); ++i) {
        ASSERT_NEAR(gradient[i], expected[i], GetParam().tolerance * scale)
            << "argument " << index << ", element " << i << ", length " << length;
      }
    }
  }
}

const std::string s1d4 = "!sluice.seq<@s1, 4, f32>", s2d4 = "!sluice.seq<@s2, 4, f32>",
                  s4d4 = "!sluice.seq<@s4, 4, f32>";
const std::string tokens = "!sluice.seq<@s1, 0, i32>", losses = "!sluice.seq<@s1, 0, f32>";

/// A map of (x, r) on scale 2.
std::string getLazyMap(const std::string &body) {
  return "(%a: " + s2d4 + ", %b: " + s2d4 + ") -> " + s2d4 +
         " { %y = sluice.map(%a, %b) {^bb0(%x: f32, %r: f32): " + body + " } : (" + s2d4 + ", " +
         s2d4 + ") -> " + s2d4 + " return %y : " + s2d4 + " }";
}

/// An op from one sequence to another.
std::string rescale(const std::string &op, const std::string &from, const std::string &to) {
  return "(%x: " + from + ") -> " + to + " { %y = sluice." + op + " : (" + from + ") -> " + to +
         " return %y : " + to + " }";
}

/// Two heads of 2 in one packed sequence of scale 2.
std::string attention(int kvHeads, const std::string &mask, const std::string &score,
                      bool rotary = false, const std::string &more = "") {
  std::string packed = "!sluice.seq<@s2, " + std::to_string(4 + 4 * kvHeads) + ", f32>";
  std::string table = rotary ? ", tensor<8x2xf32>" : "";
  return "(%x: " + packed + (rotary ? ", %t: tensor<8x2xf32>" : "") + ") -> " + s2d4 +
         " { %o, %l = sluice.attention %x, %x, %x" + (rotary ? ", %t" : "") +
         " attributes {heads = 2 : i64, kv_heads = " + std::to_string(kvHeads) +
         " : i64, head_size = 2 : i64, query_column = 0 : i64, key_column = 4 : i64, value_column "
         "= " +
         std::to_string(4 + 2 * kvHeads) + " : i64, mask = affine_set<(p, q)[n] : (" + mask + ")>" +
         more + "} {^bb0(%s: f32, %p: i32, %q: i32, %h: i32): " + score +
         " sluice.yield %r : f32} : (" + packed + ", " + packed + ", " + packed + table + ") -> (" +
         s2d4 + ", !sluice.seq<@s2, 2, f32>) return %o : " + s2d4 + " }";
}
const std::string scaled = "%c = arith.constant 0.75 : f32 %r = arith.mulf %s, %c : f32";
const std::string capped =
    "%c = arith.constant 0.5 : f32 %d = arith.divf %s, %c : f32 %e = math.tanh %d : f32 "
    "%i = arith.subi %p, %q : i32 %f = arith.sitofp %i : i32 to f32 %g = arith.mulf %e, %c : f32 "
    "%k = arith.mulf %f, %c : f32 %r = arith.subf %g, %k : f32";

/// Two heads of 2 on scale 2 over one of keys and of values on `scale`, in one sequence or two.
std::string attentionOver(const std::string &scale, bool isPacked, const std::string &mask,
                          const std::string &more = "") {
  auto seq = [&](int width) {
    return "!sluice.seq<@" + scale + ", " + std::to_string(width) + ", f32>";
  };
  std::string keys = isPacked ? seq(4) : seq(2);
  std::string arguments = isPacked ? "%k: " + keys : "%k: " + keys + ", %v: " + keys;
  return "(%q: " + s2d4 + ", " + arguments + ") -> " + s2d4 +
         " { %o, %l = sluice.attention %q, %k, " + (isPacked ? "%k" : "%v") +
         " attributes {heads = 2 : i64, kv_heads = 1 : i64, head_size = 2 : i64, query_column = 0 "
         ": i64, key_column = 0 : i64, value_column = " +
         (isPacked ? "2" : "0") + " : i64, mask = affine_set<(p, q)[n] : (" + mask + ")>" + more +
         "} {^bb0(%s: f32, %p: i32, %t: i32, %h: i32): " + scaled + " sluice.yield %r : f32} : (" +
         s2d4 + ", " + keys + ", " + keys + ") -> (" + s2d4 +
         ", !sluice.seq<@s2, 2, f32>) return %o : " + s2d4 + " }";
}

/// A rectified score times a number by distance and head, c + tanh e: neither a sum nor a term
/// after the region.
std::string attentionByDistance() {
  std::string table = "tensor<3x2xf32>";
  return "(%q: " + s2d4 + ", %k: " + s2d4 + ", %e: " + table + ") -> " + s2d4 +
         " { %o, %l = sluice.attention %q, %k, %k, %e attributes {heads = 2 : i64, kv_heads = 2 : "
         "i64, head_size = 2 : i64, query_column = 0 : i64, key_column = 0 : i64, value_column = 0 "
         ": i64, distance_bias, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {^bb0(%s: f32, %p: "
         "i32, %t: i32, %h: i32, %b: f32): %c = arith.constant 0.75 : f32 %w = math.tanh %b : f32 "
         "%f = arith.addf %w, %c : f32 %z = arith.constant 0.0 : f32 %r = arith.maximumf %s, %z : "
         "f32 %y = arith.mulf %r, %f : f32 sluice.yield %y : f32} : (" +
         s2d4 + ", " + s2d4 + ", " + s2d4 + ", " + table + ") -> (" + s2d4 +
         ", !sluice.seq<@s2, 2, f32>) return %o : " + s2d4 + " }";
}

/// A rectified score times c + tanh of its product by distance, and that product times a number by
/// distance and head.
std::string attentionByProduct() {
  std::string table = "tensor<3x2xf32>", four = s2d4 + ", " + s2d4 + ", " + s2d4 + ", " + s2d4;
  return "(%q: " + s2d4 + ", %k: " + s2d4 + ", %u: " + s2d4 + ", %d: " + s2d4 + ", %e: " + table +
         ") -> " + s2d4 +
         " { %o, %l = sluice.attention %q, %k, %k, %u, %d, %e attributes {heads = 2 : i64, "
         "kv_heads = 2 : i64, head_size = 2 : i64, query_column = 0 : i64, key_column = 0 : i64, "
         "value_column = 0 : i64, distance_bias, mask = affine_set<(p, q)[n] : (p - q >= 0)>} "
         "{^bb0(%s: f32, %p: i32, %t: i32, %h: i32, %w: f32, %b: f32): %c = arith.constant 0.75 : "
         "f32 %x = math.tanh %w : f32 %f = arith.addf %x, %c : f32 %z = arith.constant 0.0 : f32 "
         "%r = arith.maximumf %s, %z : f32 %y = arith.mulf %r, %f : f32 %m = arith.mulf %w, %b : "
         "f32 %n = arith.addf %y, %m : f32 sluice.yield %n : f32} : (" +
         four + ", " + s2d4 + ", " + table + ") -> (" + s2d4 +
         ", !sluice.seq<@s2, 2, f32>) return %o : " + s2d4 + " }";
}

/// Tables of signed distances, clipped to 2 and to 1: rows that two heads of 2 share, whose
/// products are added to the scores before a factor, and a number per head after it.
std::string attentionInBothDirections() {
  std::string rows = "tensor<5x2xf32>", biases = "tensor<3x2xf32>";
  std::string types = s2d4 + ", " + s2d4 + ", " + s2d4 + ", " + s2d4 + ", " + rows + ", " + biases;
  return "(%q: " + s2d4 + ", %k: " + s2d4 + ", %a: " + rows + ", %e: " + biases + ") -> " + s2d4 +
         " { %o, %l = sluice.attention %q, %k, %k, %q, %a, %e attributes {heads = 2 : i64, "
         "kv_heads = 2 : i64, head_size = 2 : i64, query_column = 0 : i64, key_column = 0 : i64, "
         "value_column = 0 : i64, distance_bias, centered, distance = affine_map<(p, q) -> (p - q "
         "+ 15)>, mask = affine_set<(p, q)[n] : (n - 1 - q >= 0)>} {^bb0(%s: f32, %p: i32, %t: "
         "i32, %h: i32, %w: f32, %b: f32): %c = arith.constant 0.75 : f32 %d = arith.addf %s, %w : "
         "f32 %m = arith.mulf %d, %c : f32 %n = arith.addf %m, %b : f32 sluice.yield %n : f32} : "
         "(" +
         types + ") -> (" + s2d4 + ", !sluice.seq<@s2, 2, f32>) return %o : " + s2d4 + " }";
}

std::string norm(bool rms, bool bias) {
  std::string v = "tensor<4xf32>";
  return "(%x: " + s2d4 + ", %g: " + v + (bias ? ", %b: " + v : "") + ") -> " + s2d4 +
         " { %y, %m, %r = sluice.norm %x, %g" + (bias ? ", %b" : "") + " {epsilon = 1.0e-2 : f64" +
         (rms ? ", rms" : "") + "} : (" + s2d4 + ", " + v + (bias ? ", " + v : "") + ") -> (" +
         s2d4 + ", !sluice.seq<@s2, 0, f32>, !sluice.seq<@s2, 0, f32>) return %y : " + s2d4 + " }";
}

std::string head(bool bias, const std::string &more = "") {
  return "(%x: " + s1d4 + ", %w: tensor<5x4xf32>, %t: " + tokens +
         (bias ? ", %b: tensor<5xf32>" : "") + ") -> " + losses +
         " { %l = sluice.cross_entropy %x, %w, %t" + (bias ? ", %b" : "") + " {offset = 1 : i64" +
         more + "} : (" + s1d4 + ", tensor<5x4xf32>, " + tokens + (bias ? ", tensor<5xf32>" : "") +
         ") -> " + losses + " return %l : " + losses + " }";
}

/// A row's incoming gradient depends on its loss.
std::string squaredLosses() {
  return "(%x: " + s1d4 + ", %w: tensor<5x4xf32>, %t: " + tokens + ") -> " + losses +
         " { %l = sluice.cross_entropy %x, %w, %t {offset = 1 : i64} : (" + s1d4 +
         ", tensor<5x4xf32>, " + tokens + ") -> " + losses +
         " %m = sluice.map(%l) {^bb0(%f: f32): %g = arith.mulf %f, %f : f32 sluice.yield %g : f32} "
         ": (" +
         losses + ") -> " + losses + " return %m : " + losses + " }";
}

/// Logits against distributions, without the first rows.
std::string softLoss(const std::string &more) {
  return "(%z: " + s1d4 + ", %t: " + tokens + ") -> " + losses +
         " { %l = sluice.soft_loss %z, %t against \"teacher\"" + more + " : (" + s1d4 + ", " +
         tokens + ") -> " + losses + " return %l : " + losses + " }";
}

/// Rows that choose among the rows of both texts.
std::string contrast(const std::string &more) {
  std::string number = "!sluice.seq<@s2, 0, f32>";
  return "(%x: " + s2d4 + ", %v: " + s2d4 + ") -> " + number + " { %l = sluice.contrast %x, %v" +
         more + " : (" + s2d4 + ", " + s2d4 + ") -> " + number + " return %l : " + number + " }";
}

std::string linearTwice() {
  return "(%x: " + s2d4 + ", %w: tensor<4x4xf32>, %b: tensor<4xf32>) -> " + s2d4 +
         " { %y = sluice.linear %x, %w, %b : (" + s2d4 + ", tensor<4x4xf32>, tensor<4xf32>) -> " +
         s2d4 + " %z = sluice.linear %y, %w, %b : (" + s2d4 +
         ", tensor<4x4xf32>, tensor<4xf32>) -> " + s2d4 + " return %z : " + s2d4 + " }";
}

/// Embedding and head tied; shift, average, a coarse map, repeat, sum with the skip.
std::string hourglass(int by) {
  return "(%t: " + tokens + ", %e: tensor<5x4xf32>, %w: tensor<4x4xf32>) -> " + losses +
         " { %x = sluice.embed %t, %e : (" + tokens + ", tensor<5x4xf32>) -> " + s1d4 +
         " %s = sluice.shift %x by " + std::to_string(by) + " : (" + s1d4 + ") -> " + s1d4 +
         " %c = sluice.shorten %s factor 4 : (" + s1d4 + ") -> " + s4d4 +
         " %d = sluice.linear %c, %w : (" + s4d4 + ", tensor<4x4xf32>) -> " + s4d4 +
         " %u = sluice.upsample %d factor 4 : (" + s4d4 + ") -> " + s1d4 +
         " %y = sluice.map(%u, %x) {^bb0(%f: f32, %g: f32): %h = math.tanh %f : f32 %i = "
         "arith.addf %h, %g : f32 "
         "sluice.yield %i : f32} : (" +
         s1d4 + ", " + s1d4 + ") -> " + s1d4 +
         " %l = sluice.cross_entropy %y, %e, %t {offset = 1 : i64} : (" + s1d4 +
         ", tensor<5x4xf32>, " + tokens + ") -> " + losses + " return %l : " + losses + " }";
}

/// A shift whose first rows are a tensor.
std::string start(const std::string &type, int by) {
  return "(%x: " + type + ", %r: tensor<4xf32>) -> " + type + " { %y = sluice.start %x, %r by " +
         std::to_string(by) + " : (" + type + ", tensor<4xf32>) -> " + type +
         " return %y : " + type + " }";
}

/// The gradient of the result is a repeat, which continues past the last row, as does its operand,
/// the shift.
std::string startReadPastTheEnd() {
  return "(%x: " + s1d4 + ", %r: tensor<4xf32>) -> " + s4d4 + " { %s = sluice.shift %x by 1 : (" +
         s1d4 + ") -> " + s1d4 + " %y = sluice.start %s, %r by 2 : (" + s1d4 +
         ", tensor<4xf32>) -> " + s1d4 + " %c = sluice.shorten %y factor 4 : (" + s1d4 + ") -> " +
         s4d4 + " return %c : " + s4d4 + " }";
}

/// Two norms with one gain and bias, learned first rows of two shifts by one tensor, and one table
/// by position, on two scales.
std::string sharedParameters() {
  std::string statistic1 = "!sluice.seq<@s1, 0, f32>", statistic2 = "!sluice.seq<@s2, 0, f32>";
  auto norm = [](const std::string &to, const std::string &from, const std::string &type,
                 const std::string &statistic) {
    return " %" + to + ", %m" + to + ", %r" + to + " = sluice.norm %" + from +
           ", %g, %b {epsilon = 1.0e-2 : f64} : (" + type + ", tensor<4xf32>, tensor<4xf32>) -> (" +
           type + ", " + statistic + ", " + statistic + ")";
  };
  auto start = [](const std::string &to, const std::string &from, const std::string &type, int by) {
    return " %" + to + " = sluice.start %" + from + ", %f by " + std::to_string(by) + " : (" +
           type + ", tensor<4xf32>) -> " + type;
  };
  auto add = [](const std::string &to, const std::string &from, const std::string &type) {
    return " %p" + to + " = sluice.position %e : (tensor<16x4xf32>) -> " + type + " %" + to +
           " = sluice.map(%" + from + ", %p" + to +
           ") {^bb0(%v: f32, %w: f32): %i = arith.addf %v, %w : f32 sluice.yield %i : f32} : (" +
           type + ", " + type + ") -> " + type;
  };
  return "(%x: " + s1d4 +
         ", %g: tensor<4xf32>, %b: tensor<4xf32>, %f: tensor<4xf32>, %e: tensor<16x4xf32>) -> " +
         s2d4 + " {" + add("x1", "x", s1d4) + norm("x2", "x1", s1d4, statistic1) +
         start("x3", "x2", s1d4, 1) + " %c = sluice.shorten %x3 factor 2 : (" + s1d4 + ") -> " +
         s2d4 + add("x4", "c", s2d4) + start("x5", "x4", s2d4, 2) +
         norm("x6", "x5", s2d4, statistic2) + norm("x7", "x6", s2d4, statistic2) +
         " return %x7 : " + s2d4 + " }";
}

/// A repeat read past the end of its scale: through a shift by a group, from the next group.
std::string shiftedRepeat() {
  return "(%x: " + s4d4 + ") -> " + s2d4 + " { %u = sluice.upsample %x factor 4 : (" + s4d4 +
         ") -> " + s1d4 + " %s = sluice.shift %u by 1 : (" + s1d4 + ") -> " + s1d4 +
         " %c = sluice.shorten %s factor 2 : (" + s1d4 + ") -> " + s2d4 + " return %c : " + s2d4 +
         " }";
}

/// Two consumers of one repeat, one of which reads it past the end of its scale when the length is
/// odd.
std::string repeatReadTwice() {
  return "(%x: " + s4d4 + ") -> (" + s2d4 + ", " + s1d4 +
         ") { %u = sluice.upsample %x factor 4 : (" + s4d4 + ") -> " + s1d4 +
         " %c = sluice.shorten %u factor 2 : (" + s1d4 + ") -> " + s2d4 +
         " %e = sluice.map(%u) {^bb0(%f: f32): %g = math.tanh %f : f32 sluice.yield %g : f32} : (" +
         s1d4 + ") -> " + s1d4 + " return %c, %e : " + s2d4 + ", " + s1d4 + " }";
}

/// Groups of which the first is outside, and the last reads past the end of its scale backward.
std::string shiftedMax() {
  return "(%x: " + s1d4 + ") -> " + s4d4 + " { %s = sluice.shift %x by 6 : (" + s1d4 + ") -> " +
         s1d4 + " %y = sluice.shorten %s factor 4 max : (" + s1d4 + ") -> " + s4d4 +
         " return %y : " + s4d4 + " }";
}

/// Windows of 6 of groups of 4, the first two of which begin before the sequence.
std::string shiftedWindow(const std::string &op, const std::string &kind, const std::string &to) {
  return "(%x: " + s1d4 + ") -> " + to + " { %s = sluice.shift %x by 3 : (" + s1d4 + ") -> " +
         s1d4 + " %y = sluice." + op + " %s factor 4 window 6" + kind + " : (" + s1d4 + ") -> " +
         to + " return %y : " + to + " }";
}

/// A repeat read past the end of its scale by windows.
std::string windowOfRepeat() {
  return "(%x: " + s4d4 + ") -> " + s2d4 + " { %u = sluice.upsample %x factor 4 : (" + s4d4 +
         ") -> " + s1d4 + " %s = sluice.shift %u by 1 : (" + s1d4 + ") -> " + s1d4 +
         " %c = sluice.shorten %s factor 2 window 5 : (" + s1d4 + ") -> " + s2d4 +
         " return %c : " + s2d4 + " }";
}

/// Windows whose gradient is a repeat, which continues past their last row.
std::string windowReadPastTheEnd() {
  return "(%x: " + s1d4 + ") -> " + s4d4 + " { %c = sluice.shorten %x factor 2 window 4 : (" +
         s1d4 + ") -> " + s2d4 + " %d = sluice.shorten %c factor 2 sum : (" + s2d4 + ") -> " +
         s4d4 + " return %d : " + s4d4 + " }";
}

/// h[p] = a[p] h[p - 1] + b[p], of 2 columns.
std::string linearRecurrence(const std::string &attributes) {
  return "(%x: " + s1d4 + ") -> !sluice.seq<@s1, 2, f32> { %h = sluice.recurrence %x " +
         attributes +
         " { ^bb0(%a: f32, %b: f32, %before: f32): %m = arith.mulf %a, %before : f32 "
         "%n = arith.addf %m, %b : f32 sluice.yield %n : f32 } : (" +
         s1d4 + ") -> !sluice.seq<@s1, 2, f32> return %h : !sluice.seq<@s1, 2, f32> }";
}

/// An LSTM of one column, both states of which are read; rows are reset by the signs of %r.
std::string lstm(const std::string &attributes, bool resets) {
  std::string state = "!sluice.seq<@s1, 1, f32>", weight = "tensor<4x1xf32>";
  std::string gate = "{ ^bb0(%i: f32, %f: f32, %g: f32, %o: f32, %h: f32, %c: f32): "
                     "%si = math.tanh %i : f32 %sf = math.tanh %f : f32 %tg = math.tanh %g : f32 "
                     "%so = math.tanh %o : f32 %kept = arith.mulf %sf, %c : f32 "
                     "%new = arith.mulf %si, %tg : f32 %cell = arith.addf %kept, %new : f32 "
                     "%tc = math.tanh %cell : f32 %y = arith.mulf %so, %tc : f32 "
                     "sluice.yield %y, %cell : f32, f32 }";
  return "(%x: " + s1d4 + ", %u: " + weight + ", %r: " + state + ") -> (" + state + ", " + state +
         ") { %large = sluice.map(%r) { ^bb0(%v: f32): %z = arith.constant 0.0 : f32 "
         "%one = arith.constant 1.0 : f32 %is = arith.cmpf ogt, %v, %z : f32 "
         "%bit = arith.select %is, %one, %z : f32 sluice.yield %bit : f32 } : (" +
         state + ") -> " + state + " %bits = sluice.sum_columns %large : (" + state +
         ") -> !sluice.seq<@s1, 0, f32> %h, %c, %s = sluice.recurrence %x" +
         (resets ? " reset %bits" : "") + " weight %u " + attributes + gate + " : (" + s1d4 +
         (resets ? ", !sluice.seq<@s1, 0, f32>, " : ", ") + weight + ") -> (" + state + ", " +
         state + ", " + s1d4 + ") return %h, %c : " + state + ", " + state + " }";
}

/// Rows at the places 0, 1 and 2 in turn, of which the last has no columns.
std::string place() {
  std::string wide = "!sluice.seq<@s1, 8, f32>";
  return "(%x: " + s1d4 + ", %n: " + losses + ") -> " + wide +
         " { %i = sluice.map(%n) { ^bb0(%v: f32): %p = "
         "dispatch.position %t = arith.constant 3 : i32 %r = arith.remsi %p, %t : i32 %f = "
         "arith.sitofp %r : i32 to f32 sluice.yield %f : f32 } : (" +
         losses + ") -> " + losses + " %y = sluice.place %x at %i : (" + s1d4 + ", " + losses +
         ") -> " + wide + " return %y : " + wide + " }";
}

std::vector<Case> cases() {
  std::string v = "tensor<5x4xf32>";
  return {
      {"embed", differences,
       "(%t: " + tokens + ", %e: " + v + ") -> " + s1d4 + " { %x = sluice.embed %t, %e : (" +
           tokens + ", " + v + ") -> " + s1d4 + " return %x : " + s1d4 + " }"},
      {"position", differences,
       "(%e: tensor<16x4xf32>) -> " + s1d4 + " { %x = sluice.position %e : (tensor<16x4xf32>) -> " +
           s1d4 + " return %x : " + s1d4 + " }"},
      {"map_product", differences,
       getLazyMap(
           "%y = arith.mulf %x, %r : f32 %z = arith.addf %y, %x : f32 sluice.yield %z : f32")},
      {"map_quotient", differences,
       getLazyMap(
           "%e = math.exp %r : f32 %y = arith.divf %x, %e : f32 %z = arith.subf %y, %e : f32 "
           "sluice.yield %z : f32")},
      {"map_silu_gate", differences,
       getLazyMap(
           "%o = arith.constant 1.0 : f32 %n = arith.negf %x : f32 %e = math.exp %n : f32 %d = "
           "arith.addf %e, %o : f32 "
           "%s = arith.divf %x, %d : f32 %z = arith.mulf %s, %r : f32 sluice.yield %z : f32")},
      {"map_gelu", constants,
       getLazyMap(
           "%c = arith.constant 0.70710678 : f32 %h = arith.constant 0.5 : f32 %o = "
           "arith.constant 1.0 : f32 "
           "%m = arith.mulf %x, %c : f32 %e = math.erf %m : f32 %a1 = arith.addf %e, %o : f32 "
           "%p = arith.mulf %x, %a1 : f32 %q = arith.mulf %p, %h : f32 %z = arith.addf %q, %r : "
           "f32 sluice.yield %z : f32")},
      {"map_dropout", differences,
       getLazyMap(
           "%u = dispatch.random {id = 3 : i64, width = 4 : i64} : f32 %rate = arith.constant "
           "0.25 : f32 "
           "%k = arith.cmpf oge, %u, %rate : f32 %zero = arith.constant 0.0 : f32 %t = math.tanh "
           "%x : f32 "
           "%d = arith.select %k, %t, %zero : f32 %z = arith.addf %d, %r : f32 sluice.yield %z : "
           "f32")},
      {"layer_norm", differences, norm(false, true)},
      {"rms_norm", differences, norm(true, false)},
      {"rms_norm_bias", differences, norm(true, true)},
      {"linear_twice", differences, linearTwice()},
      {"attention_causal", differences, attention(2, "p - q >= 0", scaled)},
      {"attention_grouped_rotary", differences, attention(1, "p - q >= 0", scaled, true)},
      {"attention_window_capped", differences,
       attention(2, "p - q - 1 >= 0, q - p + 3 >= 0", capped)},
      {"attention_every_third", differences,
       attention(1, "p - q - 1 >= 0, q - p + 6 >= 0, (p - q - 1) mod 3 == 0, q - 1 >= 0", scaled)},
      {"attention_both_ways", differences, attention(2, "n - 1 - q >= 0", scaled, true)},
      {"attention_apart", differences, attentionOver("s2", false, "p - q >= 0")},
      {"attention_over_a_finer_scale", differences,
       attentionOver("s1", true, "2 * p - q >= 0, q - 2 * p + 4 >= 0")},
      {"attention_over_a_coarser_scale", differences,
       attentionOver("s4", false, "p - 2 * q >= 0",
                     ", dropout = 0.375 : f32, random_id = 9 : i64")},
      {"attention_by_distance", differences, attentionByDistance()},
      {"attention_by_product", differences, attentionByProduct()},
      {"attention_in_both_directions", differences, attentionInBothDirections()},
      {"attention_dropout", differences,
       attention(1, "p - q >= 0", scaled, false, ", dropout = 0.375 : f32, random_id = 9 : i64")},
      {"shift", differences, rescale("shift %x by 3", s1d4, s1d4)},
      {"shift_back", differences, rescale("shift %x by -2", s1d4, s1d4)},
      {"recurrence_linear", differences, linearRecurrence("")},
      {"recurrence_reset_every", differences,
       linearRecurrence("attributes {reset_at = 1 : i64, reset_every = 3 : i64}")},
      {"recurrence_reversed", differences, linearRecurrence("attributes {reversed}")},
      {"lstm", differences, lstm("", false)},
      {"lstm_reset", differences, lstm("", true)},
      {"lstm_reset_every", differences, lstm("attributes {reset_every = 4 : i64} ", false)},
      {"lstm_reversed_reset", differences, lstm("attributes {reversed} ", true)},
      {"start", differences, start(s1d4, 3)},
      {"start_beyond_the_sequence", differences, start(s4d4, 5)},
      {"start_read_past_the_end", differences, startReadPastTheEnd()},
      {"shared_parameters", differences, sharedParameters()},
      {"shorten_average", differences, rescale("shorten %x factor 4", s1d4, s4d4)},
      {"shorten_third", constants,
       rescale("shorten %x factor 3", s2d4, "!sluice.seq<@s6, 4, f32>")},
      {"shorten_sum", differences, rescale("shorten %x factor 2 sum", s2d4, s4d4)},
      {"shorten_max", differences, rescale("shorten %x factor 4 max", s1d4, s4d4)},
      {"shifted_max", differences, shiftedMax()},
      {"upsample", differences, rescale("upsample %x factor 2", s4d4, s2d4)},
      {"total", differences, rescale("total %x", s2d4, s2d4)},
      {"sum_columns", differences, rescale("sum_columns %x", s1d4, losses)},
      {"repeat_columns", differences, rescale("repeat_columns %x", losses, s1d4)},
      {"fit_wider", differences, rescale("fit %x at 3", s1d4, "!sluice.seq<@s1, 9, f32>")},
      {"fit_narrower", differences, rescale("fit %x at -1", s2d4, "!sluice.seq<@s2, 2, f32>")},
      {"place", differences, place()},
      {"fold", differences, rescale("fold %x factor 2", s2d4, "!sluice.seq<@s4, 8, f32>")},
      {"shorten_maximum_of_a_region", differences,
       rescale("shorten %x factor 4 combine identity 0xFF800000 {^bb0(%s: f32, %l: f32): %m = "
               "arith.maximumf %s, %l : f32 sluice.yield %m : f32}",
               s1d4, s4d4)},
      {"shorten_window_whole", constants, rescale("shorten %x factor 2 window 6", s1d4, s2d4)},
      {"shorten_window_part", constants, rescale("shorten %x factor 2 window 5", s1d4, s2d4)},
      {"shorten_window_gap", differences, rescale("shorten %x factor 4 window 3 sum", s1d4, s4d4)},
      {"shorten_window_moving", constants, rescale("shorten %x factor 1 window 3", s2d4, s2d4)},
      {"shorten_window_max", differences, rescale("shorten %x factor 4 window 6 max", s1d4, s4d4)},
      {"shorten_window_shifted", constants, shiftedWindow("shorten", "", s4d4)},
      {"shorten_window_max_shifted", differences, shiftedWindow("shorten", " max", s4d4)},
      {"fold_window", differences,
       rescale("fold %x factor 2 window 3", s2d4, "!sluice.seq<@s4, 12, f32>")},
      {"fold_window_gap", differences,
       rescale("fold %x factor 4 window 2", s1d4, "!sluice.seq<@s4, 8, f32>")},
      {"fold_window_moving", differences,
       rescale("fold %x factor 1 window 3", s2d4, "!sluice.seq<@s2, 12, f32>")},
      {"fold_window_shifted", differences, shiftedWindow("fold", "", "!sluice.seq<@s4, 24, f32>")},
      {"window_of_a_repeat", constants, windowOfRepeat()},
      {"window_read_past_the_end", differences, windowReadPastTheEnd()},
      {"unfold", differences, rescale("unfold %x factor 2", "!sluice.seq<@s4, 8, f32>", s2d4)},
      {"head", differences, head(false)},
      {"head_bias", differences, head(true)},
      {"head_from_row_3", differences, head(true, ", first = 3 : i64")},
      {"head_smoothed", differences, head(true, ", smoothing = 0.25 : f32")},
      {"losses_squared", differences, squaredLosses()},
      {"soft_loss", differences, softLoss("")},
      {"soft_loss_from_row_3", differences, softLoss(" {first = 3 : i64}")},
      {"contrast", differences, contrast("")},
      {"contrast_in_parts", differences, contrast(" {parts = 3 : i64}")},
      {"hourglass", differences, hourglass(3)},
      {"hourglass_shift_1", differences, hourglass(1)},
      {"shifted_repeat", differences, shiftedRepeat()},
      {"repeat_read_twice", differences, repeatReadTwice()},
  };
}

INSTANTIATE_TEST_SUITE_P(Ops, GradientTest, ::testing::ValuesIn(cases()),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
