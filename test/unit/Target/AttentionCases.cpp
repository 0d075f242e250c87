// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cases of attention: their masks, scores and shapes, and their IR.
#include "AttentionReference.h"

#include <cmath>
#include <numeric>

using namespace sluice::test;

MaskRelation sluice::test::causal() {
  return {"affine_set<(p, q)[n] : (p - q >= 0)>",
          [](int64_t p, int64_t q, int64_t) { return q <= p; }};
}

MaskRelation sluice::test::window(int64_t size) {
  return {"affine_set<(p, q)[n] : (p - q >= 0, q - p + " + std::to_string(size - 1) + " >= 0)>",
          [=](int64_t p, int64_t q, int64_t) { return q <= p && q > p - size; }};
}

MaskRelation sluice::test::everything() {
  return {"affine_set<(p, q)[n] : (n - 1 - q >= 0)>",
          [](int64_t, int64_t, int64_t) { return true; }};
}

MaskRelation sluice::test::betweenScales(int64_t a, int64_t b, int64_t begin, int64_t end) {
  auto text = [](int64_t number) { return std::to_string(number); };
  std::string ahead = text(a) + " * p - " + text(b) + " * q";
  return {"affine_set<(p, q)[n] : (" + ahead + " - " + text(b * begin) + " >= 0, " +
              text(b * end - 1) + " - (" + ahead + ") >= 0)>",
          [=](int64_t p, int64_t q, int64_t) {
            int64_t newest = a * p / b;
            return q <= newest - begin && q > newest - end;
          }};
}

AttentionCase sluice::test::onScales(int64_t a, int64_t b, int64_t begin, int64_t end) {
  constexpr int64_t tokens = 150;
  AttentionCase c{"scales " + std::to_string(a) + " and " + std::to_string(b),
                  2,
                  (tokens + a - 1) / a,
                  4,
                  2,
                  8,
                  tokens - 3,
                  2,
                  betweenScales(a, b, begin, end),
                  scaled(0.25)};
  c.factor = a;
  c.keyFactor = b;
  c.keyPositions = (tokens + b - 1) / b;
  c.tensors = 2 + a % 2;
  return c;
}

AttentionCase sluice::test::withTerms(AttentionCase c, bool distances, int64_t biasRows) {
  c.distances = distances;
  c.biasRows = biasRows;
  return c;
}

AttentionCase sluice::test::inBothDirections(AttentionCase c, bool distances, bool biases,
                                             int64_t tableRows) {
  c.distanceOffset = c.keys() - 1;
  c.distancePositions = c.positions + c.keys() - 1;
  c.tableRows = tableRows;
  return withTerms(c, distances, biases ? tableRows : 0);
}

AttentionCase sluice::test::onGivenAxis(int64_t heads, int64_t kvHeads, int64_t head) {
  AttentionCase c{"given axis", 4, 70, heads, kvHeads, head, 70, 4, everything(), scaled(0.25)};
  c.factor = c.keyFactor = 0;
  c.keyPositions = 70;
  c.keyCounts = {70, 0, 33, 64};
  c.tensors = 2;
  return c;
}

AttentionCase sluice::test::acrossScales(int64_t a, int64_t b, bool isComplete, int64_t biasRows) {
  int64_t step = std::gcd(a, b);
  AttentionCase c = onScales(a, b, 0, 1000);
  c.name += isComplete ? " by their ends" : "";
  c.distanceQuery = a / step;
  c.distanceKey = b / step;
  c.distancePositions = (150 + step - 1) / step;
  if (isComplete) {
    c.distanceOffset = (a - b) / step;
    c.relation = {"affine_set<(p, q)[n] : (p * " + std::to_string(a) + " - q * " +
                      std::to_string(b) + " + " + std::to_string(a - b) + " >= 0)>",
                  [a, b](int64_t p, int64_t q, int64_t) { return b * (q + 1) <= a * (p + 1); }};
  }
  return withTerms(c, true, biasRows);
}

AttentionCase sluice::test::overGivenKeys() {
  AttentionCase c{"given keys", 4, 70, 4, 2, 8, 67, 3, everything(), scaled(0.25)};
  c.keyPositions = 90;
  c.keyFactor = 0;
  c.keyCounts = {90, 0, 33, 64};
  c.tensors = 2;
  return c;
}

Score sluice::test::scaled(double factor) {
  std::string constant = "%c = arith.constant " + std::to_string(factor) + " : f32\n";
  return {constant + "%r = arith.mulf %s, %c : f32\n", constant + "%r = arith.mulf %g, %c : f32\n",
          [=](double s, int64_t, int64_t, int64_t) { return s * factor; },
          [=](double, int64_t, int64_t, int64_t) { return factor; }};
}

Score sluice::test::softCap(double cap) {
  std::string tanhOf = "%c = arith.constant " + std::to_string(cap) + " : f32\n" +
                       "%sc = arith.divf %s, %c : f32\n%th = math.tanh %sc : f32\n";
  return {tanhOf + "%r = arith.mulf %th, %c : f32\n",
          tanhOf + "%one = arith.constant 1.0 : f32\n%tt = arith.mulf %th, %th : f32\n"
                   "%slope = arith.subf %one, %tt : f32\n%r = arith.mulf %g, %slope : f32\n",
          [=](double s, int64_t, int64_t, int64_t) { return cap * std::tanh(s / cap); },
          [=](double s, int64_t, int64_t, int64_t) { return 1 - std::pow(std::tanh(s / cap), 2); }};
}

// s + (h + 1) / 8 (q - p)
Score sluice::test::linearBias() {
  return {R"(%one = arith.constant 1 : i32
%eighth = arith.constant 0.125 : f32
%h1 = arith.addi %h, %one : i32
%hf = arith.sitofp %h1 : i32 to f32
%slope = arith.mulf %hf, %eighth : f32
%distance = arith.subi %q, %p : i32
%df = arith.sitofp %distance : i32 to f32
%bias = arith.mulf %slope, %df : f32
%r = arith.addf %s, %bias : f32
)",
          "%zero = arith.constant 0.0 : f32\n%r = arith.addf %g, %zero : f32\n",
          [](double s, int64_t p, int64_t q, int64_t h) {
            return s + double(h + 1) / 8 * double(q - p);
          },
          [](double, int64_t, int64_t, int64_t) { return 1.0; }};
}

Score sluice::test::gated(double factor) {
  std::string gate = "%c = arith.constant " + std::to_string(factor) +
                     " : f32\n%one = arith.constant 1.0 : f32\n%nw = arith.negf %w : f32\n" +
                     "%ew = math.exp %nw : f32\n%den = arith.addf %one, %ew : f32\n" +
                     "%fac = arith.divf %c, %den : f32\n";
  auto sigmoid = [](double w) { return 1 / (1 + std::exp(-w)); };
  return {gate + "%r = arith.mulf %s, %fac : f32\n",
          gate + "%r = arith.mulf %g, %fac : f32\n%sh = arith.divf %ew, %den : f32\n"
                 "%rs = arith.mulf %r, %s : f32\n%byw = arith.mulf %rs, %sh : f32\n",
          nullptr,
          nullptr,
          [=](double s, double w) { return factor * s * sigmoid(w); },
          [=](double, double w) { return factor * sigmoid(w); },
          [=](double s, double w) { return factor * s * sigmoid(w) * sigmoid(-w); }};
}

std::string sluice::test::termArguments(const Score &score, bool distances, bool hasBias) {
  return std::string(!distances    ? ""
                     : score.joint ? ", %w: f32"
                                   : ", %own: f32") +
         (hasBias ? ", %e: f32" : "");
}

std::string sluice::test::sumOfTerms(const Score &score, bool distances) {
  return distances && !score.joint ? "%s = arith.addf %dot, %own : f32\n" : "";
}

static std::string tensor(int64_t a, int64_t b, int64_t c, bool bf16 = false) {
  return "tensor<" + std::to_string(a) + "x" + std::to_string(b) + "x" + std::to_string(c) +
         (bf16 ? "xbf16>" : "xf32>");
}

int64_t AttentionCase::getFirstColumn(int64_t part) const {
  int64_t column = 0;
  for (int64_t before = 0; before < part; ++before) {
    column +=
        getTensorIndex(before) == getTensorIndex(part) ? (before == 0 ? heads : kvHeads) * head : 0;
  }
  return column;
}

int64_t AttentionCase::width(int64_t tensor) const {
  int64_t columns = 0;
  for (int64_t part = 0; part < 3; ++part) {
    columns += getTensorIndex(part) == tensor ? (part == 0 ? heads : kvHeads) * head : 0;
  }
  return columns;
}

static std::string distanceText(const AttentionCase &c) {
  auto number = [](int64_t value) { return std::to_string(value); };
  return c.distancePositions == 0
             ? ""
             : ", distance = affine_map<(p, q) -> (p * " + number(c.distanceQuery) + " - q * " +
                   number(c.distanceKey) + " + " + number(c.distanceOffset) + ")>";
}

static std::string attributes(const AttentionCase &c) {
  auto number = [](int64_t value) { return std::to_string(value); };
  auto domain = [&](int64_t positions, int64_t factor) {
    return "#dispatch.domain<batch = " + number(c.batch) + ", positions = " + number(positions) +
           ", factor = " + number(factor) + ">";
  };
  return "{domain = " + domain(c.positions, c.factor) +
         (c.keyPositions > 0 ? ", key_domain = " + domain(c.keyPositions, c.keyFactor) : "") +
         ", heads = " + number(c.heads) + " : i64, kv_heads = " + number(c.kvHeads) +
         " : i64, head_size = " + number(c.head) +
         " : i64, query_column = 0 : i64, key_column = " + number(c.getFirstColumn(1)) +
         " : i64, value_column = " + number(c.getFirstColumn(2)) +
         " : i64, mask = " + c.relation.text + ", dropout = " + std::to_string(c.dropout) +
         " : f32, random_id = " + number(c.randomId) + " : i64" +
         (c.biasRows > 0 ? ", distance_bias" : "") + (c.tableRows > 0 ? ", centered" : "") +
         distanceText(c) + "}";
}

/// A bias is added to the score's result.
static std::string region(const AttentionCase &c, const std::string &body, bool derivative) {
  bool hasBias = c.biasRows > 0, adds = c.distances && !c.score.joint;
  std::string yielded = "%r", types = "f32", end;
  if (derivative && c.distances) {
    yielded += adds ? ", %r" : ", %byw";
    types += ", f32";
  }
  if (derivative && hasBias) {
    yielded += ", %g";
    types += ", f32";
  } else if (hasBias) {
    end = "%b = arith.addf %r, %e : f32\n";
    yielded = "%b";
  }
  return std::string("{\n^bb0(") + (adds ? "%dot" : "%s") + ": f32, %p: i32, %q: i32, %h: i32" +
         termArguments(c.score, c.distances, hasBias) + (derivative ? ", %g: f32" : "") + "):\n" +
         sumOfTerms(c.score, c.distances) + body + end + "dispatch.yield " + yielded + " : " +
         types + "\n}";
}

namespace {

/// Queries, keys and values as operands.
struct Operands {
  std::string arguments, names, types;
  std::string termArguments, termNames, termTypes; ///< each after a comma
  std::vector<std::string> gradients;              ///< types
};

} // namespace

static Operands getOperandRecords(const AttentionCase &c) {
  Operands operands;
  for (int64_t i = 0; i < c.tensors; ++i) {
    operands.arguments += "%x" + std::to_string(i) + ": " +
                          tensor(c.batch, c.getValueRows(i), c.width(i), c.bf16) +
                          (i + 1 < c.tensors ? ", " : "");
    operands.gradients.push_back(tensor(c.batch, c.getValueRows(i), c.width(i), c.bf16Results()));
  }
  for (int64_t part = 0; part < 3; ++part) {
    int64_t of = c.getTensorIndex(part);
    operands.names += (part > 0 ? ", %x" : "%x") + std::to_string(of);
    operands.types +=
        (part > 0 ? ", " : "") + tensor(c.batch, c.getValueRows(of), c.width(of), c.bf16);
  }
  for (int64_t term = 0; term < c.terms(); ++term) {
    bool isTable = c.biasRows > 0 && term + 1 == c.terms();
    bool isShared = !isTable && term == 1 && c.tableRows > 0;
    std::string name = ", %t" + std::to_string(term);
    std::string type =
        isTable ? "tensor<" + std::to_string(c.biasRows) + "x" + std::to_string(c.heads) + "xf32>"
        : isShared ? "tensor<" + std::to_string(c.tableRows) + "x" + std::to_string(c.head) +
                         (c.bf16 ? "xbf16>" : "xf32>")
                   : tensor(c.batch, c.termRows(term), c.termWidth(term), c.bf16);
    operands.termNames += name;
    operands.termArguments += name + ": " + type;
    operands.termTypes += ", " + type;
    operands.gradients.push_back(isTable ? tensor(c.batch, c.biasParts(), c.heads)
                                         : tensor(c.batch, c.termRows(term), c.termWidth(term),
                                                  c.bf16Results() && !isShared));
  }
  return operands;
}

/// The counts' type, or nothing.
static std::string countsType(const AttentionCase &c) {
  return c.keyCounts.empty() ? "" : "tensor<" + std::to_string(c.batch) + "xi64>";
}

std::string AttentionCase::forwardText() const {
  Operands operands = getOperandRecords(*this);
  std::string arguments = operands.arguments + operands.termArguments;
  std::string names = operands.names + operands.termNames;
  std::string types = operands.types + operands.termTypes;
  if (std::string counts = countsType(*this); !counts.empty()) {
    arguments += ", %n: " + counts;
    names += ", %n";
    types += ", " + counts;
  }
  std::string out = tensor(batch, positions, heads * head, bf16Results());
  std::string logs = tensor(batch, positions, heads);
  return "func.func @f(" + arguments + ") -> (" + out + ", " + logs + ") {\n" +
         "%o:2 = dispatch.attention " + names + " attributes " + attributes(*this) +
         region(*this, score.text, false) + " : (" + types + ") -> (" + out + ", " + logs +
         ")\nreturn %o#0, %o#1 : " + out + ", " + logs + "\n}";
}

std::string AttentionCase::backwardText() const {
  Operands operands = getOperandRecords(*this);
  std::string out = tensor(batch, positions, heads * head, bf16Results()),
              change = tensor(batch, positions, heads * head, bf16), result, values;
  int64_t count = tensors + terms();
  for (int64_t i = 0; i < count; ++i) {
    result += (i > 0 ? ", " : "") + operands.gradients[i];
    values += (i > 0 ? ", %y#" : "%y#") + std::to_string(i);
  }
  std::string logs = tensor(batch, positions, heads);
  std::string table = "tensor<" + std::to_string(positions) + "x" + std::to_string(head) + "xf32>";
  std::string counts = countsType(*this), argument = counts.empty() ? "" : ", %n: " + counts;
  std::string types = operands.types + ", " + out + ", " + logs + ", " + change +
                      operands.termTypes + (rotary ? ", " + table : "") +
                      (counts.empty() ? "" : ", " + counts);
  return "func.func @f(" + operands.arguments + ", %o: " + out + ", %l: " + logs +
         ", %d: " + change + operands.termArguments + ", %t: " + table + argument + ") -> (" +
         result + ") {\n%y:" + std::to_string(count) + " = dispatch.attention_backward " +
         operands.names + ", %o, %l, %d" + operands.termNames + (rotary ? ", %t" : "") +
         (counts.empty() ? "" : ", %n") + " attributes " + attributes(*this) +
         region(*this, score.text, false) + " derivative " +
         region(*this, score.derivativeText, true) + " : (" + types + ") -> (" + result +
         ")\nreturn " + values + " : " + result + "\n}";
}
