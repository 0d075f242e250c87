// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Advice about rejected specs: every suggested edit is applied and proved.
#include "sluice/Explain/SpecFix.h"
#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/Verdict.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace sluice;

namespace {

CausalVerdict advise(const std::string &text, int64_t operations = mostFixOperations) {
  spec::Diagnostic error;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::optional<ParsedSpec> spec = parseSpec(context, text, "a.json", error);
  if (!spec) {
    ADD_FAILURE() << error.format();
    return {};
  }
  CausalVerdict verdict = checkCausality(importVariants(*spec), /*replay=*/false);
  findFix(*spec, verdict, operations);
  return verdict;
}

bool isProved(const std::string &text) {
  spec::Diagnostic error;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  std::optional<ParsedSpec> spec = parseSpec(context, text, "a.json", error);
  return spec && checkCausality(importVariants(*spec), /*replay=*/false).isProved();
}

std::string buildSpec(const std::string &stages) {
  return R"({"sluice": 1, "vocabulary": 7, "context": 64, "batch": 1, "width": 4,
"defaults": {"heads": 2, "feed_forward": 4}, "stages": [
{"op": "embedding", "to": "x"},
)" + stages +
         "\n{\"op\": \"head\"}]}";
}

const std::string coarse =
    R"({"op": "shorten", "factor": 4}, {"op": "upsample", "factor": 4}, {"op": "add", "with": "x"},
{"op": "layer"},)";

} // namespace

TEST(Fixes, PreferSmallChanges) {
  std::pair<std::string, std::string> cases[] = {
      {R"({"op": "shift", "by": 1},)" + coarse, "shift by 3, not 1, at a.json:4:23"},
      {coarse, "add a shift by 3 directly before the shorten at a.json:4:1"},
      {R"({"op": "shift", "by": 3}, {"op": "norm"},)" + coarse,
       "move the shift at a.json:4:1 to directly after the norm at a.json:4:27"},
      {R"({"op": "layer", "mask": "bidirectional"},)",
       "write \"mask\": \"causal\", not \"bidirectional\", at a.json:4:25"},
      {R"({"op": "hourglass", "hierarchy": "1@1 1@4 1@1", "shifted": "output", "shift": 1},)",
       "write \"shift\": 3, not 1, at a.json:4:79"},
      {R"({"op": "boundaries", "name": "w", "rule": "labels"},
{"op": "shorten", "segments": "w"}, {"op": "upsample", "segments": "w"}, {"op": "add", "with": "x"},)",
       "add \"predictor\": 4 to the boundaries at a.json:4:1"},
  };
  for (const auto &[stages, words] : cases) {
    CausalVerdict verdict = advise(buildSpec(stages));
    ASSERT_TRUE(verdict.fix) << stages << verdict.noFix;
    EXPECT_EQ(verdict.fix->words, words);
    EXPECT_TRUE(isProved(verdict.fix->text)) << verdict.fix->text;
  }
}

/// Rows of an input that may look ahead: the edit removes the stage that reads them and the input,
/// since a spec has no unread input.
TEST(Fixes, RemoveAnInputWithItsOnlyReader) {
  const std::string head = R"({"sluice": 1, "vocabulary": 7, "context": 64, "batch": 1, "width": 4,
"defaults": {"heads": 2, "feed_forward": 4},
"inputs": {)",
                    stages = R"(},
"stages": [{"op": "embedding", "to": "x"},
{"op": "embedding", "input": "rows"}, {"op": "add", "with": "x"}, {"op": "layer"},
{"op": "head")",
                    rows = R"("rows": {"axis": "tokens", "role": "input", "width": 3})";
  const std::string words =
      R"(remove the embedding at a.json:5:1, with the input "rows", which no other stage reads)";
  for (const auto &[inputs, last] :
       {std::pair(rows, std::string("}]}")),
        std::pair(R"("w": {"axis": "tokens", "role": "weight"}, )" + rows,
                  std::string(R"(, "weights": "w"}]})"))}) {
    CausalVerdict verdict = advise(head + inputs + stages + last);
    ASSERT_TRUE(verdict.fix) << verdict.message << verdict.noFix;
    EXPECT_EQ(verdict.message.find("not enough by itself"), std::string::npos) << verdict.message;
    EXPECT_EQ(verdict.fix->words, words);
    EXPECT_TRUE(isProved(verdict.fix->text)) << verdict.fix->text;
    EXPECT_EQ(verdict.fix->text.find("\"rows\""), std::string::npos) << verdict.fix->text;
  }
}

TEST(Fixes, CombineTwoEditsWhereOneIsNotEnough) {
  CausalVerdict verdict = advise(buildSpec(R"({"op": "layer", "mask": "bidirectional"},
{"op": "shift", "by": 2},)" + coarse));
  ASSERT_TRUE(verdict.fix) << verdict.noFix;
  EXPECT_EQ(verdict.fix->words,
            "write \"mask\": \"causal\", not \"bidirectional\", at a.json:4:25; then shift by 3, "
            "not 2, at a.json:5:23");
  EXPECT_TRUE(isProved(verdict.fix->text)) << verdict.fix->text;
}

TEST(Fixes, StopAtTheirBudget) {
  std::string text = buildSpec(coarse);
  CausalVerdict stopped = advise(text, 1);
  EXPECT_FALSE(stopped.fix);
  EXPECT_NE(stopped.noFix.find("none of the edits tried makes the spec causal"), std::string::npos);
  EXPECT_NE(stopped.noFix.find("as many as a search may"), std::string::npos) << stopped.noFix;
  EXPECT_EQ(advise(text).fix->text, advise(text).fix->text) << "the same each time";
}

TEST(Fixes, ProveModelsOfTheCorpus) {
  int fixed = 0;
  for (const auto &entry : std::filesystem::directory_iterator(std::string(SLUICE_SOURCE_DIR) +
                                                               "/test/causality/leaky")) {
    spec::Diagnostic error;
    if (entry.path().extension() != ".json") {
      continue;
    }
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    std::optional<ParsedSpec> spec = parseSpecFile(context, entry.path().string(), error);
    ASSERT_TRUE(spec) << error.format();
    CausalVerdict verdict = advise(spec->text);
    ASSERT_TRUE(verdict.fix) << entry.path() << verdict.noFix;
    EXPECT_TRUE(isProved(verdict.fix->text)) << entry.path() << verdict.fix->words;
    ++fixed;
  }
  EXPECT_GT(fixed, 80);
}
