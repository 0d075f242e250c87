// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares declarations of keys with the messages of the reader, which list its keys and values,
// and with the documentation.

#include "sluice/Dialect/Spec/Keys.h"
#include "sluice/Conversion/JsonToSpec.h"
#include "sluice/Conversion/ParseSpec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

using namespace sluice;
using namespace sluice::spec;

namespace {

using KeySet = std::set<std::string>;

/// Unlike every name, so that the reader lists its keys instead of guessing.
const std::string nonsense = "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqq";

/// Every word in double quotes.
KeySet quoted(const std::string &text) {
  KeySet words;
  for (size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at)) {
    size_t end = text.find('"', at + 1);
    words.insert(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return words;
}

using Needs = std::vector<std::pair<std::string, std::string>>;

/// An object of a spec: the text around its members, and values for its required keys.
struct KeyPlace {
  std::string before, after;
  Needs needs;
  const std::vector<KeyInfo> *keys;
};

const std::string head = R"({"sluice": 1, "vocabulary": 9, "context": 8, "batch": 2, "width": 12)";
const std::string body = R"({"op": "embedding", "to": "a"}, )";

/// Values of the required keys of a stage.
Needs getNeeds(const std::string &word) {
  static const std::map<std::string, Needs> needs = {
      {"layer", {{"heads", "2"}}},
      {"layers", {{"heads", "2"}, {"count", "2"}}},
      {"hourglass", {{"heads", "2"}, {"hierarchy", R"("1@1 1@2 1@1")"}}},
      {"bottom_up", {{"heads", "2"}, {"hierarchy", R"("1@1 1@2")"}}},
      {"top_down", {{"heads", "2"}, {"hierarchy", R"("1@2 1@1")"}}},
      {"shift", {{"by", "1"}}},
      {"shorten", {{"factor", "1"}}},
      {"upsample", {{"factor", "1"}}},
      {"add", {{"with", R"("a")"}}},
      {"replace", {{"with", R"("a")"}, {"block", "2"}}},
      {"clear", {{"block", "2"}}},
      {"fit", {{"width", "12"}}},
      {"contrast", {{"candidates", R"("a")"}, {"name", R"("bag")"}}},
      {"attention", {{"query", R"("a")"}, {"key", R"("a")"}, {"value", R"("a")"}, {"heads", "2"}}},
      {"attend", {{"from", R"("a")"}, {"over", R"("s")"}, {"segments", R"("w")"}, {"heads", "2"}}},
      {"graph_convolution", {{"edges", R"("e")"}}},
      {"rectified_attention", {{"from", R"("r")"}, {"words", R"("c")"}, {"heads", "2"}}},
      {"umst", {{"count", "1"}, {"segments", R"("w")"}, {"edges", R"("e")"}, {"heads", "2"}}},
      {"tnt", {{"count", "1"}, {"segments", R"("w")"}, {"heads", "2"}}},
      {"multi_stage",
       {{"layers", "[1, 1, 1]"}, {"segments", R"("w")"}, {"edges", R"("e")"}, {"heads", "2"}}},
      {"dropout", {{"rate", "0.5"}}},
      {"loss", {{"name", R"("bag")"}}},
      {"boundaries", {{"name", R"("words")"}, {"rule", R"("whitespace")"}}},
      {"dynamic", {{"layers", "[1, 1, 1]"}, {"boundaries", R"({"rule": "whitespace"})"}}},
      {"blt", {{"layers", "[1, 1, 1]"}, {"boundaries", R"({"rule": "whitespace"})"}}},
      {"spacebyte", {{"layers", "[1, 1, 1]"}}},
      {"hnet", {{"layers", "[1, 1, 1]"}}},
      {"megabyte", {{"layers", "[1, 1]"}, {"patch", "2"}}},
      {"block_transformer", {{"layers", "[1, 1]"}, {"block", "2"}}}};
  auto found = needs.find(word);
  return found == needs.end() ? Needs() : found->second;
}

KeyPlace getPlace(const ObjectInfo &stage) {
  std::string word(stage.word);
  Needs needs = getNeeds(word);
  needs.emplace(needs.begin(), "op", '"' + word + '"');
  std::string before = word == "embedding" ? "" : body;
  if (word == "attend") {
    before += R"({"op": "boundaries", "name": "w", "rule": "whitespace"}, )"
              R"({"op": "shorten", "segments": "w", "to": "s"}, )";
  }
  std::string settings = stage.find("local") ? R"(, "defaults": {"heads": 2})" : "";
  std::string next;
  bool readsEdges = word == "umst" || word == "multi_stage";
  bool readsWords = readsEdges || word == "rectified_attention" || word == "tnt";
  if (word == "graph_convolution" || readsWords) {
    settings = R"(, "inputs": {"s": {"context": 8}, "b": {"on": "s", "vocabulary": 2})";
    settings += readsEdges   ? R"(, "e": {"on": "b", "type": "edges"}})"
                : readsWords ? "}"
                             : R"(, "e": {"on": "s", "type": "edges"}})";
    before += R"({"op": "embedding", "input": "b"}, )";
    before += R"({"op": "embedding", "input": "s", "to": "r"}, )";
    next = R"(, {"op": "norm", "from": "a"})";
  }
  if (readsWords) {
    before += R"({"op": "boundaries", "name": "w", "rule": "bits", "bits": "b"}, )";
  }
  if (word == "rectified_attention") {
    before += R"({"op": "shorten", "segments": "w", "to": "c"}, )";
  }
  std::string after =
      next + R"(, {"op": "head")" + std::string(word == "top_down" ? R"(, "first": 1})" : "}");
  return {head + settings + R"(, "stages": [)" + before + "{",
          "}" + (word == "head" ? "" : after) + "]}", needs, &stage.keys};
}

std::vector<KeyPlace> getSections() {
  const std::string stages = R"(, "stages": [{"op": "embedding"}, {"op": "head"}]})";
  auto keys = [](std::string_view definition) { return &getObject(definition).keys; };
  return {
      {"{",
       "}",
       {{"sluice", "1"},
        {"vocabulary", "9"},
        {"context", "8"},
        {"batch", "2"},
        {"width", "12"},
        {"stages", R"([{"op": "embedding"}, {"op": "head"}])"}},
       keys("Spec_ModelOp")},
      {head + R"(, "defaults": {)", "}" + stages, {}, keys("DefaultsSection")},
      {head + R"(, "precision": {)", "}" + stages, {}, keys("Spec_PrecisionOp")},
      {head + R"(, "training": {)", "}" + stages, {}, keys("Spec_TrainingOp")},
      {head + R"(, "training": {"schedule": {)", "}}" + stages, {}, keys("Spec_ScheduleOp")},
      {head + R"(, "training": {"schedule": {"then": {)",
       "}}}" + stages,
       {{"steps", "8"}},
       keys("Spec_FallOp")},
      {head + R"(, "training": {"groups": [{)",
       "}]}" + stages,
       {{"match", R"("*.weight")"}},
       keys("Spec_GroupOp")},
      {head + R"(, "defaults": {"mask": {)",
       "}}" + stages,
       {{"window", "[0, 4]"}},
       keys("MaskSection")},
      {head + R"(, "defaults": {"rotary": {)",
       "}}" + stages,
       {{"base", "100"}},
       keys("RotarySection")},
      {head + R"(, "defaults": {"relative": {)",
       "}}" + stages,
       {{"bias", "8"}},
       keys("RelativeSection")},
      {head + R"(, "defaults": {"lsh": {)", "}}" + stages, {{"buckets", "8"}}, keys("LshSection")},
      {head + R"(, "defaults": {"scales": [{)",
       "}]}" + stages,
       {{"factor", "2"}, {"tokens", "[0, 4]"}},
       keys("ScaleSection")},
      {head + R"(, "stages": [)" + body + R"({"op": "layer", "heads": 2, "over": [{)",
       R"(}]}, {"op": "head"}]})",
       {{"stream", R"("a")"}},
       keys("SourceSection")}};
}

std::vector<KeyPlace> getAllPlaces() {
  std::vector<KeyPlace> places = getSections();
  for (const ObjectInfo &object : getObjects()) {
    if (object.isStage) {
      places.push_back(getPlace(object));
    }
  }
  return places;
}

/// The reader's message for an object with its required keys and `key`; empty if valid.
std::string messageFor(const KeyPlace &place, const std::string &key, const std::string &value) {
  std::string members;
  for (const auto &[name, needed] : place.needs) {
    if (name != key) {
      members += '"' + name + "\": " + needed + ", ";
    }
  }
  if (!key.empty()) {
    members += '"' + key + "\": " + value;
  } else if (!members.empty()) {
    members.resize(members.size() - 2);
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  spec::Diagnostic error;
  return readSpec(context, place.before + members + place.after, "x.json", error) ? ""
                                                                                  : error.message;
}

TEST(Keys, BelongToValidObjects) {
  for (const KeyPlace &place : getAllPlaces()) {
    EXPECT_EQ(messageFor(place, "", ""), "") << place.before;
  }
}

TEST(Keys, AreKnownToTheReader) {
  for (const KeyPlace &place : getAllPlaces()) {
    std::string message = messageFor(place, nonsense, "1");
    size_t at = message.find("known keys: ");
    ASSERT_NE(at, std::string::npos) << message;
    KeySet known;
    for (const KeyInfo &key : *place.keys) {
      known.insert(std::string(key.name));
    }
    EXPECT_EQ(quoted(message.substr(at)), known) << message;
  }
}

TEST(Keys, MatchTheValuesOfTheReader) {
  for (const KeyPlace &place : getAllPlaces()) {
    for (const KeyInfo &key : *place.keys) {
      std::string name(key.name), message = messageFor(place, name, '"' + nonsense + '"');
      size_t end = message.find(" for \"" + name + '"'), kinds = message.find("known kinds: ");
      KeySet expected = end == std::string::npos ? KeySet() : quoted(message.substr(0, end));
      if (kinds != std::string::npos) { // of the key "op"
        expected = quoted(message.substr(kinds));
      }
      for (const char *inside : {"window", "tokens", "block", "base", "buckets"}) {
        if (std::ranges::find(key.words, inside) == key.words.end()) {
          expected.erase(inside); // masks, rotations and hashes may be objects too
        }
      }
      EXPECT_EQ(KeySet(key.words.begin(), key.words.end()), expected) << message;
    }
  }
}

/// Defaults that are values; others are words: "heads", "file stem".
bool isLiteral(const KeyInfo &key) {
  std::string_view text = key.otherwise;
  return !key.words.empty() || text == "true" || text == "false" || text.starts_with('[') ||
         text.starts_with('{') || (text.find_first_not_of("0123456789.e-") == std::string::npos);
}

TEST(Keys, HaveValidDefaults) {
  for (const KeyPlace &place : getAllPlaces()) {
    for (const KeyInfo &key : *place.keys) {
      if (key.otherwise.starts_with("required") || !isLiteral(key)) {
        continue;
      }
      std::string value(key.otherwise);
      EXPECT_EQ(
          messageFor(place, std::string(key.name), key.words.empty() ? value : '"' + value + '"'),
          "");
    }
  }
}

TEST(Keys, AreRequiredByTheReader) {
  for (const KeyPlace &place : getAllPlaces()) {
    for (const KeyInfo &key : *place.keys) {
      KeyPlace without = place;
      std::erase_if(without.needs, [&](const auto &need) { return need.first == key.name; });
      bool missing = messageFor(without, "", "").find(", found none; add it") != std::string::npos;
      bool inStage = place.before.find("\"stages\": [") != std::string::npos;
      bool required = key.otherwise == "required" ||
                      (inStage && key.otherwise.starts_with("required")); // heads
      EXPECT_EQ(missing, required) << key.name << " in " << place.before;
    }
  }
}

TEST(Keys, AreDocumented) {
  std::vector<std::string> rows;
  for (const char *page : {"spec.md", "segments.md"}) {
    std::ifstream in(std::string(DOCUMENTS) + page);
    for (std::string line; std::getline(in, line);) {
      rows.push_back(line);
    }
  }
  for (const KeyPlace &place : getAllPlaces()) {
    for (const KeyInfo &key : *place.keys) {
      std::string name = '`' + std::string(key.name) + '`';
      bool described = false, withDefault = !isLiteral(key) || key.otherwise == "required";
      for (const std::string &row : rows) {
        bool names = row.find(name) != std::string::npos;
        described |= names;
        withDefault |= names && row.find(key.otherwise) != std::string::npos;
      }
      bool inside = key.name == "window" || key.name == "base" || key.name == "kind" ||
                    key.name == "steps" || key.name == "signed_bias" ||
                    key.name == "vectors"; // written as JSON there
      EXPECT_TRUE(described || inside) << name;
      EXPECT_TRUE(withDefault || inside) << name << " by default " << key.otherwise;
      EXPECT_FALSE(key.meaning.empty() || key.type.empty() || key.otherwise.empty()) << name;
    }
  }
}

/// Each stage op of the dialect has an entry, with a sentence for hover texts.
TEST(Keys, AreListedForEveryStage) {
  mlir::MLIRContext context;
  context.loadDialect<SpecDialect>();
  size_t stages = 0;
  for (mlir::RegisteredOperationName op : context.getRegisteredOperationsByDialect("spec")) {
    if (op.hasInterface<StageInterface>()) {
      ++stages;
      const ObjectInfo *object = findStage(std::string_view(op.stripDialect()));
      ASSERT_TRUE(object) << op.getStringRef().str();
      EXPECT_FALSE(object->sentence.empty()) << op.getStringRef().str();
    }
  }
  EXPECT_EQ(stages, static_cast<size_t>(std::ranges::count_if(
                        getObjects(), [](const ObjectInfo &object) { return object.isStage; })));
}

} // namespace
