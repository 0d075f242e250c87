// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tables that editors show say what the reader says: its own messages list the keys and values
// that it knows.

#include "sluice/Spec/Schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

using namespace sluice::spec;

namespace {

using Set = std::set<std::string>;

/// Far from every name, so that the reader lists what it knows instead of guessing.
const std::string nonsense = "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqq";

/// Every word in double quotes.
Set quoted(const std::string &text) {
  Set words;
  for (size_t at = text.find('"'); at != std::string::npos; at = text.find('"', at)) {
    size_t end = text.find('"', at + 1);
    words.insert(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return words;
}

/// An object of a spec: the text around its members, and values for the keys that it needs.
struct Place {
  std::string before, after;
  std::vector<std::pair<std::string, std::string>> needs;
  const std::vector<KeyInfo> *keys;
};

const std::string head = R"({"sluice": 1, "vocabulary": 9, "context": 8, "batch": 2, "width": 12)";
const std::string body = R"({"op": "embedding", "to": "a"}, )";

Place placeOf(Op op) {
  std::vector<std::pair<std::string, std::string>> needs = {
      {"op", '"' + std::string(name(op)) + '"'}};
  auto need = [&](const char *key, const char *value) { needs.emplace_back(key, value); };
  switch (op) {
  case Op::Layer:
  case Op::Layers:
  case Op::Hourglass:
  case Op::TopDown:
  case Op::BottomUp:
    need("heads", "2");
    break;
  case Op::Shift:
    need("by", "1");
    break;
  case Op::Shorten:
  case Op::Upsample:
    need("factor", "1");
    break;
  case Op::Add:
    need("with", "\"a\"");
    break;
  case Op::Replace:
    need("with", "\"a\"");
    need("block", "2");
    break;
  case Op::Attend:
    need("from", "\"a\"");
    need("over", "\"s\"");
    need("segments", "\"w\"");
    need("heads", "2");
    break;
  case Op::Dropout:
    need("rate", "0.5");
    break;
  case Op::Loss:
    need("name", "\"bag\"");
    break;
  case Op::Boundaries:
    need("name", "\"words\"");
    need("rule", "\"whitespace\"");
    break;
  case Op::Dynamic:
  case Op::Blt:
    need("layers", "[1, 1, 1]");
    need("boundaries", R"({"rule": "whitespace"})");
    break;
  case Op::SpaceByte:
  case Op::Hnet:
    need("layers", "[1, 1, 1]");
    break;
  case Op::Megabyte:
    need("layers", "[1, 1]");
    need("patch", "2");
    break;
  case Op::BlockTransformer:
    need("layers", "[1, 1]");
    need("block", "2");
    break;
  default:
    break;
  }
  if (op == Op::Layers) {
    need("count", "2");
  }
  if (op == Op::Hourglass) {
    need("hierarchy", "\"1@1 1@2 1@1\"");
  }
  if (op == Op::BottomUp) {
    need("hierarchy", "\"1@1 1@2\"");
  }
  if (op == Op::TopDown) {
    need("hierarchy", "\"1@2 1@1\"");
  }
  std::string before = op == Op::Embedding ? "" : body;
  if (op == Op::Attend) {
    before += R"({"op": "boundaries", "name": "w", "rule": "whitespace"}, )"
              R"({"op": "shorten", "segments": "w", "to": "s"}, )";
  }
  std::string after =
      R"(, {"op": "head")" + std::string(op == Op::TopDown ? R"(, "first": 1})" : "}");
  std::string defaults =
      op >= Op::Dynamic ? R"(, "defaults": {"heads": 2})" : ""; // of stages that are lists
  return {head + defaults + R"(, "stages": [)" + before + "{",
          "}" + (op == Op::Head ? "" : after) + "]}", needs, &keysOf(op)};
}

Place placeOf(Section section) {
  const std::string stages = R"(, "stages": [{"op": "embedding"}, {"op": "head"}]})";
  const auto *keys = &keysOf(section);
  switch (section) {
  case Section::Spec:
    return {"{",
            "}",
            {{"sluice", "1"},
             {"vocabulary", "9"},
             {"context", "8"},
             {"batch", "2"},
             {"width", "12"},
             {"stages", R"([{"op": "embedding"}, {"op": "head"}])"}},
            keys};
  case Section::Defaults:
    return {head + R"(, "defaults": {)", "}" + stages, {}, keys};
  case Section::Precision:
    return {head + R"(, "precision": {)", "}" + stages, {}, keys};
  case Section::Training:
    return {head + R"(, "training": {)", "}" + stages, {}, keys};
  case Section::Schedule:
    return {head + R"(, "training": {"schedule": {)", "}}" + stages, {}, keys};
  case Section::Fall:
    return {
        head + R"(, "training": {"schedule": {"then": {)", "}}}" + stages, {{"steps", "8"}}, keys};
  case Section::Mask:
    return {head + R"(, "defaults": {"mask": {)", "}}" + stages, {{"window", "[0, 4]"}}, keys};
  case Section::Rotary:
    return {head + R"(, "defaults": {"rotary": {)", "}}" + stages, {{"base", "100"}}, keys};
  case Section::Relative:
    return {head + R"(, "defaults": {"relative": {)", "}}" + stages, {{"bias", "8"}}, keys};
  case Section::Lsh:
    return {head + R"(, "defaults": {"lsh": {)", "}}" + stages, {{"buckets", "8"}}, keys};
  case Section::Scale:
    return {head + R"(, "defaults": {"scales": [{)",
            "}]}" + stages,
            {{"factor", "2"}, {"tokens", "[0, 4]"}},
            keys};
  case Section::Source:
    return {head + R"(, "stages": [)" + body + R"({"op": "layer", "heads": 2, "over": [{)",
            R"(}]}, {"op": "head"}]})",
            {{"stream", "\"a\""}},
            keys};
  }
  return {};
}

std::vector<Place> allPlaces() {
  std::vector<Place> places;
  for (Op op : allOps()) {
    places.push_back(placeOf(op));
  }
  for (Section section : {Section::Spec, Section::Defaults, Section::Precision, Section::Training,
                          Section::Schedule, Section::Fall, Section::Mask, Section::Rotary,
                          Section::Relative, Section::Source, Section::Scale, Section::Lsh}) {
    places.push_back(placeOf(section));
  }
  return places;
}

/// The reader's message for an object that has what it needs and `key`; empty where it is valid.
std::string messageFor(const Place &place, const std::string &key, const std::string &value) {
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
  Diagnostic error;
  return readText(place.before + members + place.after, "x.json", error) ? "" : error.message;
}

TEST(Schema, ObjectsOfTheTestAreValid) {
  for (const Place &place : allPlaces()) {
    EXPECT_EQ(messageFor(place, "", ""), "") << place.before;
  }
}

TEST(Schema, KeysAreThoseOfTheReader) {
  for (const Place &place : allPlaces()) {
    std::string message = messageFor(place, nonsense, "1");
    size_t at = message.find("known keys: ");
    ASSERT_NE(at, std::string::npos) << message;
    Set known;
    for (const KeyInfo &key : *place.keys) {
      known.insert(std::string(key.name));
    }
    EXPECT_EQ(quoted(message.substr(at)), known) << message;
  }
}

TEST(Schema, ValuesAreThoseOfTheReader) {
  for (const Place &place : allPlaces()) {
    for (const KeyInfo &key : *place.keys) {
      std::string name(key.name), message = messageFor(place, name, '"' + nonsense + '"');
      size_t end = message.find(" for \"" + name + '"'), kinds = message.find("known kinds: ");
      Set expected = end == std::string::npos ? Set() : quoted(message.substr(0, end));
      if (kinds != std::string::npos) { // of the key "op"
        expected = quoted(message.substr(kinds));
      }
      for (const char *inside : {"window", "tokens", "block", "base", "buckets"}) {
        if (std::ranges::find(key.words, inside) == key.words.end()) {
          expected.erase(inside); // masks, rotations and hashes may be objects too
        }
      }
      EXPECT_EQ(Set(key.words.begin(), key.words.end()), expected) << message;
    }
  }
}

/// Defaults that are values; others are words: "heads", "file stem".
bool isLiteral(const KeyInfo &key) {
  std::string_view text = key.otherwise;
  return !key.words.empty() || text == "true" || text == "false" || text.starts_with('[') ||
         text.starts_with('{') || (text.find_first_not_of("0123456789.e-") == std::string::npos);
}

TEST(Schema, DefaultsAreValid) {
  for (const Place &place : allPlaces()) {
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

TEST(Schema, RequiredIsWhatTheReaderNeeds) {
  for (const Place &place : allPlaces()) {
    for (const KeyInfo &key : *place.keys) {
      Place without = place;
      std::erase_if(without.needs, [&](const auto &need) { return need.first == key.name; });
      bool missing = messageFor(without, "", "").find(", found none; add it") != std::string::npos;
      bool inStage = place.before.find("\"stages\": [") != std::string::npos;
      bool required = key.otherwise == "required" ||
                      (inStage && key.otherwise.starts_with("required")); // heads
      EXPECT_EQ(missing, required) << key.name << " in " << place.before;
    }
  }
}

TEST(Schema, DocumentationSaysTheSame) {
  std::vector<std::string> rows;
  for (const char *page : {"spec.md", "segments.md"}) {
    std::ifstream in(std::string(DOCUMENTS) + page);
    for (std::string line; std::getline(in, line);) {
      rows.push_back(line);
    }
  }
  for (const Place &place : allPlaces()) {
    for (const KeyInfo &key : *place.keys) {
      std::string name = '`' + std::string(key.name) + '`';
      bool described = false, withDefault = !isLiteral(key) || key.otherwise == "required";
      for (const std::string &row : rows) {
        bool names = row.find(name) != std::string::npos;
        described |= names;
        withDefault |= names && row.find(key.otherwise) != std::string::npos;
      }
      bool inside = key.name == "window" || key.name == "base" || key.name == "kind" ||
                    key.name == "steps"; // written as JSON there
      EXPECT_TRUE(described || inside) << name;
      EXPECT_TRUE(withDefault || inside) << name << " by default " << key.otherwise;
      EXPECT_FALSE(key.meaning.empty() || key.type.empty() || key.otherwise.empty()) << name;
    }
  }
}

TEST(Schema, EveryOpHasAMeaning) {
  ASSERT_EQ(allOps().size(), std::variant_size_v<Settings>);
  for (Op op : allOps()) {
    EXPECT_FALSE(meaning(op).empty()) << name(op);
  }
}

} // namespace
