// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares the independent checker's decisions about segments with every bit string; prover and
// checker must agree on specs with segments.
#include "Corpus.h"
#include "Graph.h"

#include <gtest/gtest.h>
#include <random>
#include <regex>

using namespace certify;

namespace {

using EndList = std::vector<int64_t>;

/// Every increasing e of positions before `length`.
std::vector<EndList> everyString(size_t length) {
  std::vector<EndList> all;
  for (size_t bits = 0; bits < (size_t{1} << length); ++bits) {
    EndList ends;
    for (size_t i = 0; i < length; ++i) {
      if (bits >> i & 1) {
        ends.push_back(static_cast<int64_t>(i));
      }
    }
    all.push_back(std::move(ends));
  }
  return all;
}

/// At p; none if a segment does not end.
std::optional<int64_t> at(const Expression &e, const EndList &ends, int64_t p) {
  if (e.parts.empty()) {
    return e.kind == Expression::Constant ? e.number : p;
  }
  std::optional<int64_t> x = at(e.parts[0], ends, p);
  std::optional<int64_t> y = e.kind == Expression::Sum ? at(e.parts[1], ends, p) : x;
  if (!x || !y) {
    return std::nullopt;
  }
  switch (e.kind) {
  case Expression::Sum:
    return *x + *y;
  case Expression::Multiple:
    return *x * e.number;
  case Expression::Floor:
    return floorDivide(*x, e.number);
  default:
    return *x < 0                                   ? x
           : *x < static_cast<int64_t>(ends.size()) ? std::optional(ends[static_cast<size_t>(*x)])
                                                    : std::nullopt;
  }
}

/// max(-1, ...)
std::optional<int64_t> at(const Bound &bound, const EndList &ends, int64_t p) {
  int64_t most = -1;
  for (const Expression &candidate : bound.candidates) {
    std::optional<int64_t> value = at(candidate, ends, p);
    if (!value) {
      return value;
    }
    most = std::max(most, *value);
  }
  return most;
}

std::string randomCandidate(std::mt19937_64 &generator) {
  auto pick = [&](auto... texts) {
    std::string all[] = {texts...};
    return all[generator() % sizeof...(texts)];
  };
  std::string inner = pick("p", "p + 1", "p - 1", "p - 2", "2*p", "floor(p/2)", "floor((p + 1)/2)");
  std::string end = pick("e7(" + inner + ")", "e7(" + inner + ")", inner);
  return pick(end, end, end + " + 1", end + " - 1", "floor(" + end + "/2)", "2*(" + end + ")");
}

TEST(SegmentBounds, ComparisonsAgreeWithEnumerationOfBoundaries) {
  std::mt19937_64 generator(3);
  std::vector<EndList> strings = everyString(9);
  int holding = 0, failing = 0, unseen = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::string more = generator() % 2 == 0 ? ", " + randomCandidate(generator) : "";
    Bound left = parseBound("max(-1, " + randomCandidate(generator) + ")");
    Bound right = parseBound("max(-1, " + randomCandidate(generator) + more + ")");
    bool fails = false;
    for (size_t i = 0; i < strings.size() && !fails; ++i) {
      for (int64_t p = 0; p < 9; ++p) {
        std::optional<int64_t> x = at(left, strings[i], p), y = at(right, strings[i], p);
        fails |= x && y && *x > *y;
      }
    }
    bool holds = isNeverAbove(left, right);
    EXPECT_FALSE(holds && fails) << "trial " << trial;
    ++(holds ? holding : fails ? failing : unseen);
  }
  EXPECT_GT(holding, 40);
  EXPECT_GT(failing, 100);
  EXPECT_LE(unseen, 8); // what only a longer string shows
}

/// Segment c(t) - by ends by t if by >= 1.
TEST(SegmentBounds, RowsReadClosedSegments) {
  for (int64_t by : {0, 1, 2}) {
    ModelGraph graph;
    graph.values.resize(4);
    graph.values[0].op = &findOp("pool_segments");
    graph.values[3].op = &findOp("spread_segments");
    graph.values[3].operands = {0, 1, 2};
    graph.values[3].reads = {parseRelation(spellPattern(graph.values[3], 0, by))};
    EndsRead read(graph, 3, 0);
    Bound end = parseBound("max(-1, e2(p))");
    EXPECT_EQ(read.isNeverAbove(end, parseBound("max(-1, p)")), by >= 1);
    EXPECT_EQ(read.isNeverAbove(end, parseBound("max(-1, p - 1)")), by >= 2);
  }
}

//===----------------------------------------------------------------------===//
// Specs
//===----------------------------------------------------------------------===//

TEST(SegmentSpecs, CertifiesProvedSpecs) {
  int proved = 0;
  for (const std::string &path : sluice::test::specsUnder("test/causality/segments")) {
    sluice::test::CorpusCase subject = sluice::test::readCase(path);
    certify::Answer answer = subject.check();
    auto has = [&](const char *word) { return path.find(word) != std::string::npos; };
    // No stage reads results of cuts that look ahead.
    int refused = has("labels-own") || has("rates-own") ? 2 : 1;
    EXPECT_EQ(answer.status, subject.proved ? 0 : refused) << path << answer.message;
    EXPECT_EQ(subject.proved, !has("own") && !has("from-ahead") && !has("dropped")) << path;
    proved += subject.proved ? 1 : 0;
  }
  EXPECT_EQ(proved, 33);
}

/// A row that needs the end of a segment does not exist at the previous end.
TEST(SegmentSpecs, RejectsBoundBeforeTheSegmentEnd) {
  std::string root = std::string(SLUICE_SOURCE_DIR) + "/test/causality/segments/";
  sluice::test::CorpusCase subject = sluice::test::readCase(root + "words.json");
  ASSERT_TRUE(subject.proved);
  const std::regex bound("bound [0-9]+ max\\(-1.*(e[0-9]+)\\(p\\)");
  auto at = subject.certificate.text.cbegin(), end = subject.certificate.text.cend();
  int changed = 0;
  for (std::smatch found; std::regex_search(at, end, found, bound); at = found[0].second) {
    std::string text(subject.certificate.text.cbegin(), found[1].second);
    text += "(p - 1" + std::string(found[1].second + 2, end);
    certify::Answer answer = subject.checkText(text);
    EXPECT_EQ(answer.status, 1) << found[0] << answer.message;
    ++changed;
  }
  EXPECT_GT(changed, 5);
}

TEST(SegmentSpecs, ProverAndCheckerAgreeOnRandomSpecs) {
  std::mt19937_64 generator(9);
  auto pick = [&](auto... texts) {
    std::string all[] = {texts...};
    return all[generator() % sizeof...(texts)];
  };
  int proved = 0, refused = 0;
  for (int i = 0; i < 60; ++i) {
    std::string before = pick("", R"({"op": "layer"},)", R"({"op": "shift", "by": 1},)");
    std::string bits = pick(R"("rule": "whitespace")", R"("rule": "every", "factor": 2)",
                            R"("rule": "whitespace", "predictor": 2)",
                            R"("predictor": 2, "prior": 0.5, "prior_logit": true)");
    std::string method =
        pick(R"(, "method": "average")", R"(, "method": "average")", R"(, "method": "last")");
    if (bits.find("prior") != std::string::npos) {
      method = "";
    }
    std::string inside = pick("", R"({"op": "layer"},)", R"({"op": "shift", "by": 1},)",
                              R"({"op": "shift", "by": 1}, {"op": "layer", "dropout": 0.1},)");
    std::string text = R"({"sluice": 1, "vocabulary": 40, "context": 12, "batch": 1, "width": 4,
      "defaults": {"heads": 1, "feed_forward": 2}, "stages": [{"op": "embedding", "to": "x"},)" +
                       before + R"({"op": "boundaries", "name": "words", )" + bits +
                       R"(}, {"op": "shorten", "segments": "words")" + method + "}," + inside +
                       R"({"op": "upsample", "segments": "words", "by": )" + pick("0", "1", "2") +
                       R"(}, {"op": "add", "with": "x"}, {"op": "head"}]})";
    sluice::test::CorpusCase subject = sluice::test::makeCase("random", text);
    certify::Answer answer = subject.check();
    EXPECT_EQ(answer.status, subject.proved ? 0 : 1) << text << answer.message;
    ++(subject.proved ? proved : refused);
  }
  EXPECT_GT(proved, 20);
  EXPECT_GT(refused, 5);
}

} // namespace
