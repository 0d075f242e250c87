// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Models with data-dependent scales, proved or rejected: compared with all boundaries of short
// sequences and with the float64 reference.
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Dialect/Sluice/Reference.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/SegmentWalk.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/Losses.h"

#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace sluice;

namespace {

const std::string header = R"(
module attributes {sluice.batch = 1 : i64, sluice.context = 12 : i64, sluice.vocabulary = 5 : i64} {
  sluice.axis @tokens
  sluice.scale @s1 on @tokens factor 1
  sluice.axis @words segments of @s1 capacity 12
  sluice.scale @w1 on @words factor 1
  sluice.scale @w2 on @words factor 2
  sluice.axis @phrases segments of @w1 capacity 12
  sluice.scale @f1 on @phrases factor 1
  sluice.parameter @w : tensor<5x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 5>}
  sluice.parameter @b : tensor<1x4xf32> {initial = "normal", names = ["b"], sizes = array<i64: 1>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<5x4xf32>
    %u = sluice.read @b : tensor<1x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 4, f32>
)";

/// "!sluice.seq<@s1, 4, f32>"
std::string sequence(const std::string &scale, const std::string &rest = "4, f32") {
  return "!sluice.seq<@" + scale + ", " + rest + ">";
}

/// Text of a model, op by op. Every method returns the name of its result.
class ProofText {
public:
  std::string op(const std::string &what, const std::string &operands, const std::string &result) {
    std::string name = "%v" + std::to_string(count++);
    body += "    " + name + " = sluice." + what + " : (" + operands + ") -> " + result + "\n";
    return name;
  }
  std::string shift(const std::string &x, int64_t by, const std::string &type) {
    return by == 0 ? x : op("shift " + x + " by " + std::to_string(by), type, type);
  }
  std::string bits(const std::string &x, int64_t by, const std::string &scale) {
    std::string type = sequence(scale, "1, f32");
    std::string logits = op("linear " + x + ", %u", sequence(scale) + ", tensor<1x4xf32>", type);
    return shift(logits, by, type);
  }
  /// Counts and ends.
  std::pair<std::string, std::string> segment(const std::string &bits, const std::string &fine,
                                              const std::string &coarse) {
    std::string id = std::to_string(count++);
    body += "    %c" + id + ", %e" + id + " = sluice.segment " + bits + " : (" +
            sequence(fine, "1, f32") + ") -> (" + sequence(fine, "0, i32") + ", " +
            sequence(coarse, "0, i32") + ")\n";
    return {"%c" + id, "%e" + id};
  }
  std::string sum(const std::string &x, const std::string &y, const std::string &scale) {
    std::string name = "%v" + std::to_string(count++), type = sequence(scale);
    body += "    " + name + " = sluice.map(" + x + ", " + y +
            ") {\n    ^bb0(%i: f32, %j: f32):\n      %k = arith.addf %i, %j : f32\n"
            "      sluice.yield %k : f32\n    } : (" +
            type + ", " + type + ") -> " + type + "\n";
    return name;
  }
  std::string attention(const std::string &x, const std::string &scale) {
    std::string name = "%v" + std::to_string(count++), type = sequence(scale);
    body +=
        "    " + name + ", " + name + "_lse = sluice.attention " + x + ", " + x + ", " + x +
        " attributes {heads = 1, kv_heads = 1, head_size = 4, query_column = 0, key_column = "
        "0, value_column = 0, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {\n"
        "    ^bb0(%s: f32, %i: i32, %j: i32, %h: i32):\n      sluice.yield %s : f32\n    } : (" +
        type + ", " + type + ", " + type + ") -> (" + type + ", " + sequence(scale, "1, f32") +
        ")\n";
    return name;
  }
  /// Segments, by their last rows, over their own rows of `x`.
  std::string attend(const std::string &x, const std::string &counts, const std::string &ends,
                     const std::string &fine, const std::string &coarse) {
    std::string cut = sequence(fine, "0, i32") + ", " + sequence(coarse, "0, i32");
    std::string query = op("select_segments " + x + ", " + counts + ", " + ends,
                           sequence(fine) + ", " + cut, sequence(coarse));
    std::string name = "%v" + std::to_string(count++), rows = sequence(fine);
    body += "    " + name + ", " + name + "_lse = sluice.attend_segments " + query + ", " + x +
            ", " + x + ", " + counts + ", " + ends + " heads 2 : (" + sequence(coarse) + ", " +
            rows + ", " + rows + ", " + cut + ") -> (" + sequence(coarse) + ", " +
            sequence(coarse, "2, f32") + ")\n";
    return name;
  }
  /// "pool", "starts", "select" or "attend"
  std::string pool(const std::string &how, const std::string &x, const std::string &bits,
                   const std::string &counts, const std::string &ends, const std::string &fine,
                   const std::string &coarse) {
    std::string cut = sequence(fine, "0, i32") + ", " + sequence(coarse, "0, i32");
    if (how == "attend") {
      return attend(x, counts, ends, fine, coarse);
    }
    return how == "select" ? op("select_segments " + x + ", " + counts + ", " + ends,
                                sequence(fine) + ", " + cut, sequence(coarse))
                           : op("pool_segments " + x + ", " + bits + ", " + counts + ", " + ends +
                                    (how == "starts" ? " {starts}" : ""),
                                sequence(fine) + ", " + sequence(fine, "1, f32") + ", " + cut,
                                sequence(coarse));
  }
  std::string spread(const std::string &y, const std::string &counts, const std::string &ends,
                     int64_t by, const std::string &fine, const std::string &coarse) {
    return op("spread_segments " + y + ", " + counts + ", " + ends + " by " + std::to_string(by),
              sequence(coarse) + ", " + sequence(fine, "0, i32") + ", " +
                  sequence(coarse, "0, i32"),
              sequence(fine));
  }
  std::string finish(const std::string &x) const {
    return header + body + "    %l = sluice.cross_entropy " + x +
           ", %w, %t {offset = 1} : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>, "
           "!sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>\n"
           "    return %l : !sluice.seq<@s1, 0, f32>\n  }\n}\n";
  }

private:
  std::string body;
  int count = 0;
};

/// Parameters of one model; the default is the minimum causal choice.
struct Choice {
  int64_t bitsBy = 0, countsBy = 0, by = 1;
  std::string pool = "pool";
  std::string inside =
      {}; ///< "attention", "shift", "back" (a shift by -1) or "repeat" (by 2) on segments
  bool isNested = false;
  int64_t innerBy = 1; ///< of the segments of segments
  int64_t rowsBy = 0;  ///< of the rows that are pooled

  std::string text() const;
};

std::string Choice::text() const {
  ProofText text;
  std::string bits = text.bits("%x", bitsBy, "s1");
  auto [counts, ends] = text.segment(bits, "s1", "w1");
  std::string rows =
      rowsBy == 0 ? "%x" : text.sum(text.shift("%x", rowsBy, sequence("s1")), "%x", "s1");
  std::string y = text.pool(pool, rows, bits, counts, ends, "s1", "w1");
  if (inside == "attention") {
    y = text.attention(y, "w1");
  } else if (inside == "repeat") {
    std::string half = text.op("shorten " + y + " factor 2", sequence("w1"), sequence("w2"));
    y = text.op("upsample " + half + " factor 2", sequence("w2"), sequence("w1"));
  } else if (!inside.empty()) {
    y = text.shift(y, inside == "shift" ? 1 : -1, sequence("w1"));
  }
  if (isNested) {
    std::string words = text.bits(y, 0, "w1");
    auto [wordCounts, wordEnds] = text.segment(words, "w1", "f1");
    std::string phrases = text.pool("pool", y, words, wordCounts, wordEnds, "w1", "f1");
    y = text.sum(y, text.spread(phrases, wordCounts, wordEnds, innerBy, "w1", "f1"), "w1");
  }
  std::string moved = text.shift(counts, countsBy, sequence("s1", "0, i32"));
  return text.finish(text.sum("%x", text.spread(y, moved, ends, by, "s1", "w1"), "s1"));
}

struct Parsed {
  explicit Parsed(const std::string &text) {
    context.loadDialect<SluiceDialect, func::FuncDialect, arith::ArithDialect>();
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
  }
  func::FuncOp evaluate() { return module->lookupSymbol<func::FuncOp>("evaluate"); }
  VerdictKind check() { return checkCausality(*module, /*replay=*/false).kind; }
  bool leaks() {
    Boundaries boundaries;
    int64_t longest = 0;
    return findSegmentLeak(evaluate(), boundaries, longest).has_value();
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};

VerdictKind getVerdict(const Choice &choice) { return Parsed(choice.text()).check(); }

TEST(SegmentProof, ProvesReadsOfClosedSegments) {
  EXPECT_EQ(getVerdict({}), VerdictKind::Proved);
  EXPECT_EQ(getVerdict({.inside = "attention"}), VerdictKind::Proved);
  EXPECT_EQ(getVerdict({.pool = "select"}), VerdictKind::Proved);
  EXPECT_EQ(getVerdict({.pool = "attend"}), VerdictKind::Proved);
  EXPECT_EQ(getVerdict({.pool = "attend", .rowsBy = 1}), VerdictKind::Proved);
  EXPECT_EQ(getVerdict({.by = 2, .pool = "starts"}), VerdictKind::Proved);
  EXPECT_EQ(getVerdict({.by = 2, .inside = "repeat"}), VerdictKind::Proved);
  EXPECT_EQ(getVerdict({.isNested = true}), VerdictKind::Proved);
}

TEST(SegmentProof, ReportsReadOfTheOpenSegment) {
  EXPECT_EQ(getVerdict({.by = 0}), VerdictKind::Leak);
  EXPECT_EQ(getVerdict({.by = 0, .pool = "attend"}), VerdictKind::Leak);
}

/// The last key is the first row after the segment.
TEST(SegmentProof, ReportsAttentionToTheNextSegment) {
  EXPECT_EQ(getVerdict({.pool = "attend", .rowsBy = -1}), VerdictKind::Leak);
  EXPECT_EQ(getVerdict({.by = 2, .pool = "attend", .rowsBy = -1}), VerdictKind::Proved);
}

TEST(SegmentProof, ReportsMeanThatReadsTheNextStart) {
  EXPECT_EQ(getVerdict({.by = 1, .pool = "starts"}), VerdictKind::Leak);
}

/// z[t] = y[c(t + 1) - 2] reads no later token, but its index reveals the bit of t + 1.
TEST(SegmentProof, ReportsBoundaryReadAhead) {
  EXPECT_EQ(getVerdict({.countsBy = -1, .by = 2}), VerdictKind::Leak);
}

TEST(SegmentProof, ProvesLaterBitsForLaterRows) {
  EXPECT_EQ(getVerdict({.bitsBy = -1}), VerdictKind::Leak);
  EXPECT_EQ(getVerdict({.bitsBy = -1, .countsBy = 1, .by = 1}), VerdictKind::Proved);
}

TEST(SegmentProof, ChecksNestedLevelAgainstItsSegments) {
  EXPECT_EQ(getVerdict({.isNested = true, .innerBy = 0}), VerdictKind::Leak);
  EXPECT_EQ(getVerdict({.by = 2, .isNested = true, .innerBy = 0}), VerdictKind::Leak);
}

/// A mean that includes the next segment, like "smoothing reversed".
TEST(SegmentProof, ReportsReadOfTheNextSegment) {
  EXPECT_EQ(getVerdict({.inside = "back"}), VerdictKind::Leak);
  EXPECT_EQ(getVerdict({.by = 2, .inside = "back"}), VerdictKind::Proved);
}

/// Segments shifted by one are read before their own end exists, unless they are stored.
TEST(SegmentProof, ProvesReadOfDelayedSegmentAtItsIndex) {
  EXPECT_EQ(getVerdict({.by = 0, .inside = "shift"}), VerdictKind::Proved);
}

TEST(SegmentProof, WitnessContainsTheBoundaries) {
  Parsed model(Choice{.by = 0}.text());
  CausalVerdict verdict = checkCausality(*model.module, /*replay=*/false);
  ASSERT_TRUE(verdict.witness);
  EXPECT_EQ(verdict.witness->row, 0);
  EXPECT_EQ(verdict.witness->token, 1);
  EXPECT_NE(verdict.message.find("where boundaries are at 1;"), std::string::npos)
      << verdict.message;
}

//===----------------------------------------------------------------------===//
// Random models
//===----------------------------------------------------------------------===//

Choice randomChoice(std::mt19937_64 &generator) {
  auto pick = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(generator() % static_cast<uint64_t>(most - least + 1));
  };
  const char *pools[] = {"pool", "starts", "select", "attend"};
  const char *insides[] = {"", "attention", "shift", "back", "repeat"};
  return {.bitsBy = pick(-1, 1),
          .countsBy = pick(-1, 1),
          .by = pick(0, 3),
          .pool = pools[pick(0, 3)],
          .inside = insides[pick(0, 4)],
          .isNested = pick(0, 3) == 0,
          .innerBy = pick(0, 2)};
}

/// Rows of the loss's input, in float64.
std::vector<double> evaluateRows(Parsed &model, std::vector<int32_t> tokens, int64_t rows) {
  reference::RuntimeValues setting;
  setting.length = static_cast<int64_t>(tokens.size()) - 1; // the last token is a target
  reference::Evaluator<double> evaluator(*model.module, setting);
  std::mt19937_64 generator(7);
  for (auto [name, count] : {std::pair("w", 20), std::pair("b", 4)}) {
    std::vector<double> numbers;
    for (int i = 0; i < count; ++i) {
      numbers.push_back(static_cast<double>(generator() >> 11) * 0x1p-51 - 2);
    }
    evaluator.setParameter(name, std::move(numbers));
  }
  evaluator.setTokens(model.evaluate().getArgument(0), std::move(tokens));
  EXPECT_TRUE(succeeded(evaluator.evaluate(model.evaluate())));
  std::vector<double> all = evaluator.getSequence(getLossOps(model.evaluate()).front().getInput());
  return {all.begin(), all.begin() + 4 * rows};
}

/// Rows before token j do not change when it changes, or when the sequence ends there.
void expectNoChange(Parsed &model, std::mt19937_64 &generator, const std::string &text) {
  constexpr int64_t length = 9;
  std::vector<int32_t> tokens;
  for (int64_t t = 0; t <= length; ++t) {
    tokens.push_back(static_cast<int32_t>(generator() % 5));
  }
  for (int64_t j = 1; j < length; ++j) {
    std::vector<int32_t> changed = tokens, cut(tokens.begin(), tokens.begin() + j + 1);
    changed[static_cast<size_t>(j)] = (tokens[static_cast<size_t>(j)] + 1) % 5;
    std::vector<double> rows = evaluateRows(model, tokens, j);
    ASSERT_EQ(rows, evaluateRows(model, changed, j)) << "token " << j << " of\n" << text;
    ASSERT_EQ(rows, evaluateRows(model, cut, j)) << "length " << j << " of\n" << text;
  }
}

TEST(SegmentProof, AgreesWithEnumerationAndReference) {
  int proved = 0, leaks = 0, neither = 0;
  std::mt19937_64 generator;
  for (int trial = 0; trial < 80; ++trial) {
    if (trial % 40 == 0) {
      generator.seed(4 + trial / 40);
    }
    std::string text = randomChoice(generator).text();
    Parsed model(text);
    VerdictKind kind = model.check();
    if (kind == VerdictKind::Proved) {
      ++proved;
      EXPECT_FALSE(model.leaks()) << text;
      expectNoChange(model, generator, text);
    } else {
      ++(model.leaks() ? leaks : neither);
    }
  }
  EXPECT_GE(proved, 16);
  EXPECT_GE(leaks, 30);
  EXPECT_LE(neither, 4); // counts read ahead of bits that arrive late do not exist yet
}

} // namespace
