// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hover, completion, symbols and ranges, over one small spec. `|` marks the cursor.

#include "sluice/Editor/Answers.h"
#include "sluice/Driver/Driver.h"
#include "sluice/Editor/CodeActions.h"
#include "sluice/Editor/Describe.h"

#include <gtest/gtest.h>

using namespace sluice;
using namespace sluice::editor;
using nlohmann::json;

namespace {

const std::string head =
    R"({"sluice": 1, "name": "n", "vocabulary": 9, "context": 10, "batch": 2, "width": 4,)"
    R"( "defaults": {"heads": 2}, "stages": [{"op": "embedding", "to": "fine"}, )";
const std::string rest = R"(, {"op": "upsample", "factor": 4}, {"op": "add", "with": "fine"}, )"
                         R"({"op": "head"}]})";

struct Cursor {
  explicit Cursor(std::string marked) : offset(marked.find('|')) {
    document = std::make_unique<Document>(marked.erase(offset, 1));
  }
  size_t offset;
  std::unique_ptr<Document> document;
};

std::string hover(const std::string &marked) {
  Cursor at(marked);
  json result = hoverAt(*at.document, at.offset, "x.json", nullptr);
  return result.is_null() ? "" : result["contents"]["value"].get<std::string>();
}

std::vector<std::string> labels(const std::string &marked) {
  Cursor at(marked);
  std::vector<std::string> result;
  for (const json &item : completionsAt(*at.document, at.offset)) {
    result.push_back(item["label"]);
  }
  return result;
}

/// The text after accepting the completion `label`.
std::string completed(const std::string &marked, const std::string &label) {
  Cursor at(marked);
  for (const json &item : completionsAt(*at.document, at.offset)) {
    if (item["label"] == label) {
      const json &range = item["textEdit"]["range"];
      auto offset = [&](const char *end) {
        return at.document->lines.offset(
            {range[end]["line"].get<size_t>(), range[end]["character"].get<size_t>()});
      };
      std::string text = at.document->text;
      return text.replace(offset("start"), offset("end") - offset("start"),
                          item["textEdit"]["newText"].get<std::string>());
    }
  }
  return "";
}

CausalVerdict check(const ParsedSpec &spec, const std::atomic<bool> &) {
  return driver::check({.spec = spec.file, .text = spec.text, .replay = false}).verdict;
}

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

TEST(Hover, StageShowsFactorShapeAndWeights) {
  std::string text = hover(head + R"({"op": "sho|rten", "factor": 4, "method": "linear"})" + rest);
  EXPECT_TRUE(has(text, "**shorten** (stage 1)")) << text;
  EXPECT_TRUE(has(text, "scale factor 4")) << text;
  EXPECT_TRUE(has(text, "`[2, 3, 4]` = [batch, ceil(context / 4), width]")) << text;
  EXPECT_TRUE(has(text, "`stages.1.weight` `[4, 16]`")) << text;
  EXPECT_TRUE(has(text, "68 parameters")) << text;
  EXPECT_TRUE(has(text, "`factor`: fine positions")) << text;
}

TEST(Hover, HeadGivesLogits) {
  std::string text =
      hover(head + R"({"op": "shorten", "factor": 4}, {"op": "upsample", "factor": 4}, )"
                   R"(|{"op": "head"}]})");
  EXPECT_TRUE(has(text, "`[2, 10, 9]` = [batch, context, vocabulary]")) << text;
}

TEST(Hover, CompositeStageShowsItsExpansion) {
  std::string text =
      hover(head + R"({"op|": "hourglass", "hierarchy": "2@1 1@2 0@1"}, {"op": "head"}]})");
  EXPECT_TRUE(
      has(text, "expands to 2 x layer, norm, shift 1, shorten 2, layer, norm, upsample 2, add\n"))
      << text;
  EXPECT_TRUE(has(text, "more\n")) << text;
}

/// Boundaries give bits, their shorten stages rows of segments, and losses nats.
TEST(Hover, SegmentsAndLossesHaveTheirOwnShapes) {
  std::string cut = R"({"op": "boundaries", "name": "w", "rule": "every", "factor": 4}, )";
  std::string after = R"(, {"op": "upsample", "segments": "w"}, {"op": "head"}]})";
  EXPECT_TRUE(has(hover(head + "|" + cut + R"({"op": "shorten", "segments": "w"})" + after),
                  "`[2, 10]` = [batch, context] bits, at most 3 a row\n- no weights"));
  EXPECT_TRUE(has(hover(head + cut + R"(|{"op": "shorten", "segments": "w"})" + after),
                  "rows are the segments of `w`, as many as each text has"));
  EXPECT_TRUE(
      has(hover(head + R"({"op": "shorten", "factor": 4}, |{"op": "loss", "name": "coarse"}, )"
                       R"({"op": "upsample", "factor": 4}, {"op": "head"}]})"),
          "reads scale factor 4\n- result `[2, 10]` = [batch, context] nats"));
}

/// Rows of another scale, or on the axis of an input, are counted there; segments are named.
TEST(Hover, RowsAreCountedOnTheStreamsOwnAxis) {
  std::string ofInput =
      R"({"sluice": 1, "vocabulary": 9, "context": 10, "batch": 2, "width": 4, )"
      R"("inputs": {"source": {"context": 7}}, "stages": [{"op": "embedding", )"
      R"("to": "tokens"}, {"op": "embedding", "input": "source"}, |{"op": "norm", )"
      R"("to": "memory"}, {"op": "layer", "heads": 2, "from": "tokens", )"
      R"("over": "memory"}, {"op": "head"}]})";
  EXPECT_TRUE(has(hover(ofInput), "`[2, 7, 4]` = [batch, context of source, width]"));
  std::string cut = R"(|{"op": "boundaries", "name": "w", "rule": "every", "factor": 2}, )"
                    R"({"op": "shorten", "segments": "w"}, {"op": "upsample", "segments": "w"})";
  EXPECT_TRUE(has(hover(head + R"({"op": "shorten", "factor": 4}, )" + cut + rest),
                  "`[2, 3]` = [batch, ceil(context / 4)] bits, at most 3 a row"));
  EXPECT_TRUE(has(hover(head +
                        R"({"op": "boundaries", "name": "v", "rule": "every", "factor": 4}, )"
                        R"({"op": "shorten", "segments": "v"}, )" +
                        cut + R"(, {"op": "upsample", "segments": "v"}, {"op": "head"}]})"),
                  "a bit for each segment of `v`, at most 3 a row"));
}

/// Shows the expansion at the minimum of the sampled factors.
TEST(Hover, DrawnFactorsShowTheMinimum) {
  EXPECT_TRUE(
      has(hover(head + R"(|{"op": "hourglass", "hierarchy": "0@1 1@{2,3} 0@1"}, {"op": "head"}]})"),
          "expands to shift 1, shorten 2, layer, norm, upsample 2, add\n"));
}

/// A check that fails leaves the sizes of the model in its hover text.
TEST(Hover, ShowsSizesOfModelWithoutVerdict) {
  Document document(head + R"({"op": "head"}]})");
  const std::atomic<bool> never = false;
  Findings found = examine(
      document.text, "x.json",
      [](const ParsedSpec &, const std::atomic<bool> &) -> CausalVerdict {
        throw std::runtime_error("out of luck");
      },
      never);
  ASSERT_TRUE(found.error);
  size_t name = document.text.find("\"name\"");
  std::string text = hoverAt(document, name, "x.json", &found)["contents"]["value"];
  EXPECT_TRUE(has(text, "**n**: 72 parameters, 2 stages, 10 tokens a row\n")) << text;
}

TEST(Hover, ShowsMeaningOfStageInBrokenSpec) {
  std::string text = hover(head + R"({"op": "sh|ift" "by")");
  EXPECT_TRUE(has(text, "y[p] = x[p - by]")) << text;
  EXPECT_TRUE(has(text, "once the spec is valid")) << text;
}

TEST(Hover, KeyShowsTypeMeaningAndDefault) {
  std::string text = hover(head + R"({"op": "shorten", "factor": 4, "met|hod": "linear"})" + rest);
  EXPECT_TRUE(
      has(text,
          "- values: `average`, `linear`, `max`, `convolution`, `concatenate`, `stack`\n- default: "
          "average"))
      << text;
  EXPECT_EQ(hover(head + R"({"op": "shorten", "factor": 4, "method": "li|near"})" + rest), text);
  EXPECT_EQ(hover(head + R"({"op": "shift", "unknown|": 4})" + rest), "");
}

TEST(Hover, ModelShowsItsVerdict) {
  std::string text = head + R"({"op": "shift", "by": 3}, {"op": "shorten", "factor": 4}, )"
                            R"({"op": "upsample", "factor": 4}, {"op": "add", "with": "fine"}, )"
                            R"({"op": "layer"}, {"op": "head", "tied": true}]})";
  Document document(text);
  size_t stages = text.find("\"stages\"");
  auto value = [&](const Findings *findings) {
    return hoverAt(document, stages, "x.json", findings)["contents"]["value"].get<std::string>();
  };
  EXPECT_TRUE(has(value(nullptr), "being checked"));
  const std::atomic<bool> never = false;
  Findings found = examine(text, "x.json", check, never);
  EXPECT_TRUE(has(value(&found), "proved causal for every length"));
  EXPECT_TRUE(has(value(&found), " parameters, 7 stages"));
  EXPECT_EQ(buildDiagnostics(found, document, "x"), json::array());
}

/// The advised edit, if the editor requests fixes near the error.
TEST(CodeActions, OfferTheAdvisedEdit) {
  std::string text = head + R"({"op": "shift", "by": 2}, {"op": "shorten", "factor": 4}, )"
                            R"({"op": "upsample", "factor": 4}, {"op": "add", "with": "fine"}, )"
                            R"({"op": "layer"}, {"op": "head", "tied": true}]})";
  Document document(text);
  const std::atomic<bool> never = false;
  Findings found = examine(text, "x.json", check, never);
  json error = buildDiagnostics(found, document, "x").at(0);
  EXPECT_TRUE(has(error["message"].get<std::string>(), "; advice: shift by 3, not 2, at x.json:"));
  json actions = codeActionsAt(document, "x", error["range"], nullptr, found);
  ASSERT_EQ(actions.size(), 1U);
  size_t at = text.find(R"("by": 2)") + 6;
  json edit = {{"range", toJson(document.lines.range(at, at + 1))}, {"newText", "3"}};
  EXPECT_EQ(actions[0]["edit"]["changes"]["x"], json::array({edit}));
  EXPECT_EQ(actions[0]["diagnostics"], json::array({error}));
  EXPECT_EQ(codeActionsAt(document, "x", error["range"], {"refactor"}, found), json::array());
  json elsewhere = toJson({{99, 0}, {99, 0}});
  EXPECT_EQ(codeActionsAt(document, "x", elsewhere, nullptr, found), json::array());
  found.verdict->fix.reset();
  EXPECT_EQ(codeActionsAt(document, "x", error["range"], nullptr, found), json::array());
}

TEST(Completion, OffersAbsentKeys) {
  std::vector<std::string> keys = {"from",   "to",       "frozen", "share", "method",
                                   "window", "segments", "width",  "start"};
  EXPECT_EQ(labels(head + R"({"op": "shorten", "factor": 4, |})" + rest), keys);
  EXPECT_EQ(labels(head + R"({"op": "shorten", "factor": 4, "me|"})" + rest), keys);
  EXPECT_EQ(labels(head + "{|"), std::vector<std::string>{"op"});
  EXPECT_EQ(labels("{\"widt|").size(), 12u);
}

TEST(Completion, ReplacesTheTypedPrefix) {
  EXPECT_EQ(completed(R"({"wi|": 4})", "width"), R"({"width": 4})");
  EXPECT_EQ(completed(R"({"wi|)", "width"), R"({"width": )");
  EXPECT_EQ(completed(R"({"training": {"optimizer": "|"}})", "adamw"),
            R"({"training": {"optimizer": "adamw"}})");
  EXPECT_EQ(completed(R"({"defaults": {"bias": |}})", "false"), R"({"defaults": {"bias": false}})");
}

TEST(Completion, OffersOpsValuesAndStreams) {
  auto isStage = [](const spec::ObjectInfo &object) { return object.isStage; };
  EXPECT_EQ(labels(head + R"({"op": "|"})").size(),
            static_cast<size_t>(std::ranges::count_if(spec::getObjects(), isStage)));
  EXPECT_EQ(labels(R"({"defaults": {"activation": |)"),
            (std::vector<std::string>{"relu", "gelu", "gelu_tanh", "swiglu", "relu_squared"}));
  EXPECT_EQ(
      labels(head + R"({"op": "add", "with": "|", "to": "later"}, {"op": "head", "to": "x"}]})"),
      std::vector<std::string>{"fine"});
  EXPECT_EQ(labels(R"({"width": |})"), std::vector<std::string>());
  EXPECT_EQ(labels("|{}"), std::vector<std::string>());
}

TEST(Symbols, AreTheStages) {
  Document document(head + R"({"op": "layer"}, 3, {}]})");
  json symbols = buildSymbols(document);
  ASSERT_EQ(symbols.size(), 3u);
  EXPECT_EQ(symbols[0]["name"], "0 embedding");
  EXPECT_EQ(symbols[0]["detail"], "to fine");
  EXPECT_EQ(symbols[1]["name"], "1 layer");
  EXPECT_EQ(symbols[2]["name"], "3 (no op)");
}

Range rangeIn(const std::string &text, unsigned line, unsigned column) {
  return rangeAt(Document(text), {"x", line, column});
}

TEST(Ranges, CoverTheNamedRange) {
  EXPECT_EQ(rangeIn(R"({"width": 12, "name": "b"})", 1, 2), (Range{{0, 1}, {0, 8}}));    // a key
  EXPECT_EQ(rangeIn(R"({"width": 12, "name": "b"})", 1, 11), (Range{{0, 10}, {0, 12}})); // a number
  EXPECT_EQ(rangeIn(R"({"h": "2@1 8@4 2@1"})", 1, 12), (Range{{0, 11}, {0, 14}}));       // a level
  EXPECT_EQ(rangeIn(R"([{"op": 1}])", 1, 2), (Range{{0, 1}, {0, 10}})); // a stage on one line
  EXPECT_EQ(rangeIn("[\n{\n}]", 2, 1), (Range{{1, 0}, {1, 1}}));        // a longer one: its bracket
  EXPECT_EQ(rangeIn("{\"a\": 1\n \"b\"}", 2, 2), (Range{{1, 1}, {1, 4}}));
  EXPECT_EQ(rangeIn("{\"a\": /", 1, 7), (Range{{0, 6}, {0, 7}}));
  EXPECT_EQ(rangeIn("{\"a\"", 1, 5), (Range{{0, 3}, {0, 4}})); // the end: the text before it
  EXPECT_EQ(rangeIn("{", 1, 2), (Range{{0, 0}, {0, 1}}));
  EXPECT_EQ(rangeIn("", 1, 1), (Range{{0, 0}, {0, 0}}));
  EXPECT_EQ(rangeIn("{}\n", 0, 0), (Range{{0, 0}, {0, 2}})); // the whole file: its first line
}

TEST(Ranges, CountCodeUnits) {
  // Each clef is 4 bytes and 2 units.
  std::string text = "{\"\xF0\x9D\x84\x9E\xF0\x9D\x84\x9E\": 1, \"x\": 2}";
  EXPECT_EQ(rangeIn(text, 1, 17), (Range{{0, 12}, {0, 15}}));
}

TEST(Describe, GroupsDigitsOfLargeNumbers) {
  mlir::MLIRContext context;
  spec::Diagnostic error;
  std::optional<ParsedSpec> spec =
      parseSpec(context,
                R"({"sluice": 1, "vocabulary": 50000, "context": 1024, "batch": 1, "width": 512,)"
                R"( "stages": [{"op": "embedding"}, {"op": "head", "tied": true}]})",
                "big.json", error);
  ASSERT_TRUE(spec);
  EXPECT_EQ(describeModel(*spec), "**big**: 25,600,000 parameters, 2 stages, 1,024 tokens a row\n");
  EXPECT_EQ(describeStage(*spec, 2), "");
}

} // namespace
