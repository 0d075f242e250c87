// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Maps of weights: patterns, rules and errors.
#include "Fixture.h"

#include "sluice/Runtime/Import/ImportWeights.h"
#include "sluice/Support/Error.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

NamePattern parsePattern(const std::string &text) {
  std::string problem;
  std::optional<NamePattern> pattern = NamePattern::parse(text, problem);
  EXPECT_TRUE(pattern) << problem;
  return pattern.value();
}

/// Returns the name that `to` gives for `name`; empty if `from` does not match.
std::string rename(const std::string &from, const std::string &to, const std::string &name) {
  std::optional<NameMatch> match = parsePattern(from).match(name);
  return match ? parsePattern(to).fill(*match).value_or("none") : "";
}

TEST(NamePattern, MatchesNumbersAndText) {
  EXPECT_EQ(rename("h.{i}.w", "stages.{i+1}.w", "h.9.w"), "stages.10.w");
  EXPECT_EQ(rename("h.{i}.{j}.w", "{2*j+1}.{i-1}", "h.3.4.w"), "9.2");
  EXPECT_EQ(rename("h.{i}.*.w", "*.{i}", "h.3.a.b.w"), "a.b.3");
  EXPECT_EQ(rename("{i}_{j}", "{i}-{j}", "12_3"), "12-3");
  EXPECT_EQ(rename("{i}.{i}", "{i}", "12.12"), "12");
  EXPECT_EQ(rename("*", "*", ""), "");
  EXPECT_EQ(rename("h.{i}", "{i-1}", "h.0"), "none");
}

TEST(NamePattern, LimitsPlaceholders) {
  std::string many, problem;
  for (int i = 0; i < 17; ++i) {
    many += "{i}.";
  }
  for (const std::string &text :
       {many, std::string(1001, 'a'), std::string("{i}{j}"), std::string("{i}*")}) {
    EXPECT_FALSE(NamePattern::parse(text, problem)) << text;
  }
  EXPECT_TRUE(NamePattern::parse(many.substr(4), problem));
}

TEST(NamePattern, RejectsOtherNames) {
  for (const char *name : {"h..w", "h.01.w", "h.-1.w", "h.1.v", "h.1.ww", "g.1.w", "h.1",
                           "h.1234567890.w", "h.1.w\n"}) {
    EXPECT_EQ(rename("h.{i}.w", "{i}", name), "") << name;
  }
  EXPECT_EQ(rename("{i}.{i}", "{i}", "12.13"), "");
}

TEST(NamePattern, LongNamesTakeLittleTime) {
  std::string name(1 << 20, 'a');
  EXPECT_FALSE(parsePattern("*b").match(name));
  EXPECT_TRUE(parsePattern("a*a").match(name));
}

TEST(NamePattern, RejectsOtherTexts) {
  for (const char *text : {"", "{", "}", "{}", "{i", "i}", "{0*i}", "{i+}", "{i+x}", "{1}", "{i i}",
                           "{a*i}", "**", "a*b*"}) {
    std::string problem;
    EXPECT_FALSE(NamePattern::parse(text, problem)) << text;
    EXPECT_TRUE(problem.starts_with("expected ")) << problem;
  }
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

/// A state dict of tensors that count from 0.
class StateBuilder {
public:
  StateBuilder &add(const std::string &name, const std::vector<int64_t> &shape, float first = 0) {
    size_t count = 1;
    for (int64_t extent : shape) {
      count *= static_cast<size_t>(extent);
    }
    numbers.emplace_back(count);
    std::iota(numbers.back().begin(), numbers.back().end(), first);
    names.emplace_back(name, shape);
    return *this;
  }
  ImportedWeights import(const std::string &rules, std::vector<WeightShape> weights = {}) const {
    std::string text =
        "{\"sluice_map\": 1, \"sizes\": {\"head\": 4}, \"rules\": [\n" + rules + "]}";
    std::vector<NamedTensor> tensors;
    std::vector<std::vector<float>> data = numbers;
    for (size_t i = 0; i < names.size(); ++i) {
      tensors.push_back({names[i].first, names[i].second, data[i]});
    }
    std::vector<uint8_t> bytes = encodeSafetensors(tensors);
    StateFile file{"state", SafetensorsFile(bytes, "state")};
    std::optional<ImportModel> model;
    if (!weights.empty()) {
      model = {"spec", std::move(weights)};
    }
    return importWeights(parseWeightMap(text, "map"), std::span(&file, 1), model);
  }
  std::string reject(const std::string &rules, const std::vector<WeightShape> &weights = {}) const {
    return userError([&] { import(rules, weights); });
  }

private:
  std::vector<std::pair<std::string, std::vector<int64_t>>> names;
  std::vector<std::vector<float>> numbers;
};

using Numbers32 = std::vector<float>;

TEST(ImportWeights, TransposesAndCuts) {
  // Columns 0 to 5 of two rows become three weights of two rows.
  ImportedWeights result =
      StateBuilder()
          .add("w", {2, 6})
          .import(R"({"from": "w", "transpose": true, "to": ["a", "b", "c"]})");
  ASSERT_EQ(result.weights.size(), 3u);
  EXPECT_EQ(result.weights[1].name, "b");
  EXPECT_EQ(result.weights[1].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(result.weights[0].data, (Numbers32{0, 6, 1, 7}));
  EXPECT_EQ(result.weights[1].data, (Numbers32{2, 8, 3, 9}));
  EXPECT_EQ(result.weights[2].data, (Numbers32{4, 10, 5, 11}));
}

TEST(ImportWeights, TransposesEverySize) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {1, 33}, {31, 32}, {65, 67}}) {
    ImportedWeights result = StateBuilder()
                                 .add("w", {rows, columns})
                                 .import(R"({"from": "w", "transpose": true, "to": "v"})");
    const ImportedWeight &weight = result.weights.front();
    ASSERT_EQ(weight.shape, (std::vector<int64_t>{columns, rows}));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        ASSERT_EQ(weight.data[static_cast<size_t>(j * rows + i)],
                  static_cast<float>(i * columns + j));
      }
    }
  }
}

TEST(ImportWeights, CutsByPartsAlongEitherAxis) {
  ImportedWeights rows =
      StateBuilder().add("w", {4, 2}).import(R"({"from": "w", "to": ["a", "b"], "parts": [3, 1]})");
  EXPECT_EQ(rows.weights[0].data, (Numbers32{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(rows.weights[1].data, (Numbers32{6, 7}));
  ImportedWeights columns =
      StateBuilder().add("w", {2, 4}).import(R"({"from": "w", "to": ["a", "b"], "axis": 1})");
  EXPECT_EQ(columns.weights[0].data, (Numbers32{0, 1, 4, 5}));
  EXPECT_EQ(columns.weights[1].data, (Numbers32{2, 3, 6, 7}));
}

TEST(ImportWeights, CutsByTheShapesOfTheModel) {
  ImportedWeights result =
      StateBuilder()
          .add("w", {4, 2})
          .import(R"({"from": "w", "to": ["a", "b"]})", {{"b", {3, 2}}, {"a", {1, 2}}});
  EXPECT_EQ(result.weights[0].name, "b"); // in the model's order
  EXPECT_EQ(result.weights[0].data, (Numbers32{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(result.weights[1].data, (Numbers32{0, 1}));
}

TEST(ImportWeights, JoinsInTheOrderOfTheRule) {
  StateBuilder state;
  state.add("h.0.a", {1, 2})
      .add("h.0.b", {2, 2}, 10)
      .add("h.1.a", {1, 2}, 20)
      .add("h.1.b", {1, 2}, 30);
  ImportedWeights result = state.import(R"({"from": ["h.{i}.b", "h.{i}.a"], "to": "w.{i}"})");
  EXPECT_EQ(result.weights[0].data, (Numbers32{10, 11, 12, 13, 0, 1}));
  EXPECT_EQ(result.weights[1].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(result.used, 4u);
  ImportedWeights beside = StateBuilder()
                               .add("a", {2, 1})
                               .add("b", {2, 2}, 10)
                               .import(R"({"from": ["a", "b"], "to": "w", "axis": 1})");
  EXPECT_EQ(beside.weights[0].data, (Numbers32{0, 10, 11, 1, 12, 13}));
}

TEST(ImportWeights, InterleavesTheHalvesOfHeads) {
  ImportedWeights result =
      StateBuilder().add("w", {8}).import(R"({"from": "w", "to": "v", "rotate_half": "head"})");
  EXPECT_EQ(result.weights[0].data, (Numbers32{0, 2, 1, 3, 4, 6, 5, 7}));
  ImportedWeights fused = StateBuilder()
                              .add("w", {8, 1})
                              .import(R"({"from": "w", "to": ["q", "v"], "rotate_half": [4, 0]})");
  EXPECT_EQ(fused.weights[0].data, (Numbers32{0, 2, 1, 3}));
  EXPECT_EQ(fused.weights[1].data, (Numbers32{4, 5, 6, 7}));
}

TEST(ImportWeights, HeadsAreHeadsOfTheModel) {
  StateBuilder state = StateBuilder().add("w", {8});
  const char *rule = R"({"from": "w", "to": "v", "rotate_half": "head"})"; // heads of 4
  for (std::optional<int64_t> known : {std::optional<int64_t>(4), std::optional<int64_t>()}) {
    EXPECT_EQ(state.import(rule, {{"v", {8}, known}}).weights[0].data,
              (Numbers32{0, 2, 1, 3, 4, 6, 5, 7}));
  }
  EXPECT_EQ(
      state.reject(rule, {{"v", {8}, 2}}),
      "state: tensor \"w\": expected heads of 2 for \"rotate_half\" of map:2:1, the head size "
      "of \"v\" of spec, found 4; give the model's head size (--size), or the spec the state's "
      "heads (--set)");
  EXPECT_EQ(state.reject(rule, {{"v", {8}, 0}}),
            "state: tensor \"w\": expected queries or keys of a layer with \"rotary\" for "
            "\"rotate_half\" of map:2:1, found \"v\" of spec; give the spec \"rotary\" (--set), or "
            "leave \"rotate_half\" out");
}

TEST(ImportWeights, FillsWhatTheStateLacks) {
  ImportedWeights result =
      StateBuilder()
          .add("a.0", {2}, 5)
          .import(R"({"from": "a.{i}", "to": "w.{i}"}, {"fill": 0.5, "to": "w.{i}"})",
                  {{"w.0", {2}}, {"w.1", {2}}});
  EXPECT_EQ(result.weights[0].data, (Numbers32{5, 6}));
  EXPECT_EQ(result.weights[1].data, (Numbers32{0.5, 0.5}));
  EXPECT_EQ(result.filled, 1u);
}

TEST(ImportWeights, DropsCopiesAlone) {
  StateBuilder state;
  state.add("table", {2}).add("head", {2});
  std::string rules = R"({"from": "table", "to": "w"}, {"drop": "head", "copy_of": "table"})";
  EXPECT_EQ(state.import(rules).dropped, 1u);
  StateBuilder other;
  other.add("table", {2}).add("head", {2}, 1);
  EXPECT_NE(other.reject(rules).find("state: tensor \"head\": expected the numbers of \"table\""),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// A file with one tensor "w" of this type.
std::vector<uint8_t> buildFile(const std::string &type, size_t count, std::vector<uint8_t> data) {
  std::string header = "{\"w\":{\"dtype\":\"" + type + "\",\"shape\":[" + std::to_string(count) +
                       "],\"data_offsets\":[0," + std::to_string(data.size()) + "]}}";
  uint64_t length = header.size();
  std::vector<uint8_t> file(8);
  std::memcpy(file.data(), &length, 8);
  file.insert(file.end(), header.begin(), header.end());
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

template <typename T> std::vector<uint8_t> toBytes(const std::vector<T> &numbers) {
  std::vector<uint8_t> bytes(numbers.size() * sizeof(T));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

TEST(ImportWeights, RoundsF64ToNearest) {
  // Halfway between two f32 the even one, and otherwise the nearer one.
  std::vector<double> numbers = {1 + 0x1p-24, 1 + 0x3p-24, 1 + 0x1p-24 + 0x1p-50, 0x1p-149, -0.1};
  std::vector<uint8_t> file = buildFile("F64", numbers.size(), toBytes(numbers));
  EXPECT_EQ(SafetensorsFile(file, "state").convert("w"),
            (Numbers32{1, 1 + 0x1p-22F, 1 + 0x1p-23F, 0x1p-149F, -0.1F}));
  std::vector<uint8_t> large = buildFile("F64", 2, toBytes(std::vector<double>{0, 1e39}));
  EXPECT_NE(userError([&] {
              SafetensorsFile(large, "state").convert("w");
            }).find("expected numbers that are finite in f32, found inf at element 1"),
            std::string::npos);
}

TEST(ImportWeights, WidensHalvesAndRejectsIntegers) {
  std::vector<uint8_t> half = buildFile("F16", 2, toBytes(std::vector<uint16_t>{0x3c01, 0x8001}));
  EXPECT_EQ(SafetensorsFile(half, "state").convert("w"), (Numbers32{1 + 0x1p-10F, -0x1p-24F}));
  std::vector<uint8_t> brain = buildFile("BF16", 1, toBytes(std::vector<uint16_t>{0x3f81}));
  EXPECT_EQ(SafetensorsFile(brain, "state").convert("w"), (Numbers32{1 + 0x1p-7F}));
  std::vector<uint8_t> integers = buildFile("I64", 1, std::vector<uint8_t>(8));
  EXPECT_NE(userError([&] {
              SafetensorsFile(integers, "state").convert("w");
            }).find("expected dtype F32, F16, BF16 or F64, found \"I64\""),
            std::string::npos);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST(ImportWeights, ReportsWhatDoesNotFit) {
  StateBuilder state;
  state.add("h.0.w", {2, 4}).add("h.1.w", {2, 4}).add("x", {3});
  const std::string drop = R"(, {"drop": "x"})", move = R"({"from": "h.{i}.w", "to": "w.{i}"})";
  const std::vector<WeightShape> wide = {{"w.0", {2, 4}}, {"w.1", {2, 4}}};
  struct RejectedRules {
    std::string rules;
    std::vector<WeightShape> weights;
    std::string message;
  };
  const RejectedRules cases[] = {
      {move, {}, "state: tensor \"x\" [3]: expected a rule of map for it, found none;"},
      {R"({"drop": "x"})",
       {},
       "\"h.0.w\" [2,4]: expected a rule of map for it, found none (and 1 other like it)"},
      {R"({"from": "y", "to": "v"})",
       {},
       "map:2:1: expected a tensor of the state with a name such as \"y\", found none"},
      {move + drop,
       {{"w.0", {2, 4}}},
       "found \"w.1\" for tensor \"h.1.w\", which it does not have"},
      {move + drop,
       {{"w.0", {2, 4}}, {"w.1", {4, 2}}},
       "tensor \"h.1.w\": expected shape [4,2] for \"w.1\" of spec, found [2,4] by map:2:1; add "
       "\"transpose\": true"},
      {move + drop,
       {{"w.0", {2, 4}}, {"w.1", {2, 4}}, {"v", {1}}},
       "map: expected a rule that gives \"v\" [1] of spec, found none"},
      {move + ", " + move + drop, wide,
       "map:2:37: expected each weight once, found \"w.0\" for a second time; the first rule for "
       "it is at map:2:1"},
      {move + R"(, {"drop": "*"})", wide,
       "expected \"drop\" to name tensors that no rule uses, found \"h.0.w\""},
      {R"({"from": "x", "transpose": true, "to": "v"})",
       {},
       "tensor \"x\": expected two dimensions to transpose"},
      {R"({"from": "x", "to": ["a", "b"]})", {}, "expected an extent that 2 weights divide"},
      {R"({"from": "x", "to": ["a", "b"], "parts": [1, 1]})",
       {},
       "expected 2 along \"axis\": 0, the sum of the parts [1,1]"},
      {R"({"from": "x", "to": ["a", "b"], "axis": 1})", {}, "expected at least 2 dimensions"},
      {R"({"from": "x", "to": "v", "parts": [3], "axis": 1})",
       {},
       "expected at least 2 dimensions"},
      {R"({"from": ["h.0.w", "x"], "to": "v"})",
       {},
       "tensor \"x\": expected shape [2,4], to be joined with \"h.0.w\""},
      {R"({"from": ["h.{i}.w", "g.{i}.w"], "to": "v.{i}"})",
       {},
       "expected a tensor \"g.0.w\" to join with \"h.0.w\", found none"},
      {R"({"from": "x", "to": "v", "rotate_half": 2})", {}, "expected rows of whole heads of 2"},
      {R"({"fill": 0, "to": "v"}, {"drop": "*"})",
       {},
       "expected a model, whose shapes \"fill\" needs"},
      {R"({"fill": 0, "to": "u"}, {"drop": "*"})", wide,
       "expected a weight of spec with a name such as \"u\""},
      {R"({"drop": "x", "copy_of": "y"})",
       {},
       "expected \"copy_of\" to name a tensor of the state, found \"y\""},
      {R"({"drop": "x", "copy_of": "x"})",
       {},
       "expected \"copy_of\" to name another tensor than the dropped one, found \"x\""},
      {R"({"from": "x", "to": "__metadata__"})",
       {},
       "expected \"to\" to give names of weights, found \"__metadata__\""},
  };
  for (const RejectedRules &each : cases) {
    std::string message = state.reject(each.rules, each.weights);
    EXPECT_NE(message.find(each.message), std::string::npos) << each.rules << "\n" << message;
    EXPECT_NE(message.find("; "), std::string::npos) << message; // a remedy
  }
}

TEST(WeightMap, RejectsOtherTexts) {
  auto wrap = [](const std::string &rule) {
    return "{\"sluice_map\": 1, \"rules\": [" + rule + "]}";
  };
  const std::pair<std::string, std::string> cases[] = {
      {"", "map:1:1: expected an object with a map of weights"},
      {"[]", "map:1:1: expected a map of weights ({ ... }), found an empty array"},
      {"{}", "expected the key \"sluice_map\", the version of this format, 1, found none"},
      {R"({"sluice_map": 2})",
       "map:1:16: expected an integer from 1 to 1 for \"sluice_map\", found 2"},
      {R"({"sluice_map": 1})", "expected the key \"rules\", an array of rules, found none"},
      {R"({"sluice_map": 1, "rules": []})",
       "expected an array of rules for \"rules\", found an empty array"},
      {R"({"sluice_map": 1, "rule": []})",
       "map:1:19: expected a key of a map of weights, found \"rule\"; did you mean \"rules\"?"},
      {R"({"sluice_map": 1, "sizes": {"a": 0}, "rules": []})", "expected an integer from 1 to"},
      {R"({"sluice_map": 1, "sizes": {"a": null}, "rules": []})", "give --size a=N"},
      {R"({"sluice_map": 1, "prefixes": [""], "rules": []})",
       "expected texts of at least one character"},
      {wrap("1"), "expected a rule ({ ... }), found 1"},
      {wrap("{}"), "expected one of \"from\", \"drop\" and \"fill\" in a rule, found none"},
      {wrap(R"({"from": "a", "drop": "b"})"), "in a rule, found several"},
      {wrap(R"({"from": "a"})"), "expected the key \"to\""},
      {wrap(R"({"from": "a", "to": "b", "transposed": true})"),
       "found \"transposed\"; did you mean \"transpose\"?"},
      {wrap(R"({"from": "a", "to": "b", "transpose": 1})"),
       "expected true or false for \"transpose\", found 1"},
      {wrap(R"({"from": "a", "to": "b", "axis": 2})"),
       "expected an integer from 0 to 1 for \"axis\", found 2"},
      {wrap(R"({"from": "a.{i}", "to": "b"})"),
       "expected every placeholder of \"a.{i}\" in each name of \"to\", found one without \"{i}\""},
      {wrap(R"({"from": "a", "to": "b.{i}"})"),
       "expected placeholders of \"a\" in \"to\", found \"{i}\""},
      {wrap(R"({"from": "a.{i+1}", "to": "b.{i}"})"), "move the arithmetic to \"to\""},
      {wrap(R"({"from": [], "to": "b"})"), "expected a name or an array of names for \"from\""},
      {wrap(R"({"from": "a", "to": ["b", "c"], "parts": [1]})"),
       "expected an array with a size for each name of \"to\""},
      {wrap(R"({"from": "a", "to": ["b", "c"], "rotate_half": 4})"),
       "an array with a head size, or 0, for each name"},
      {wrap(R"({"from": "a", "to": "b", "rotate_half": 3})"),
       "expected an even head size for \"rotate_half\", found 3"},
      {wrap(R"({"from": "a", "to": "b", "rotate_half": "size"})"),
       "found \"size\"; known sizes: none"},
      {wrap(R"({"drop": "a", "to": "b"})"), "expected a key of a rule with \"drop\", found \"to\""},
      {wrap(R"({"drop": "a", "copy_of": "*"})"), "expected the name of one tensor"},
      {wrap(R"({"fill": "0", "to": "b"})"), "expected a number for \"fill\", found \"0\""},
      {wrap(R"({"fill": 1e300, "to": "b"})"), "finite in f32"},
      {wrap(R"({"fill": 0, "to": "b", "optional": true})"), "found \"optional\""},
  };
  for (const auto &[text, expected] : cases) {
    std::string message = userError([&] { parseWeightMap(text, "map"); });
    EXPECT_NE(message.find(expected), std::string::npos) << text << "\n" << message;
  }
}

TEST(WeightMap, TakesSizesOfTheCommandLine) {
  std::string text = R"({"sluice_map": 1, "sizes": {"head": 4}, "rules": [
    {"from": "a", "to": "b", "rotate_half": "head"}]})";
  EXPECT_EQ(parseWeightMap(text, "map").rules[0].rotatedHeads[0], 4);
  EXPECT_EQ(parseWeightMap(text, "map", {{"head", 16}}).rules[0].rotatedHeads[0], 16);
  EXPECT_NE(
      userError([&] { parseWeightMap(text, "map", {{"heads", 16}}); })
          .find("--size heads=16: expected a name of \"sizes\" in map, found \"heads\"; did you "
                "mean \"head\"?"),
      std::string::npos);
}

TEST(ImportWeights, RejectsTwoTensorsOfOneName) {
  StateBuilder state;
  std::vector<float> data = {1};
  std::vector<NamedTensor> tensors = {{"p.a", {1}, data}, {"a", {1}, data}};
  std::vector<uint8_t> bytes = encodeSafetensors(tensors);
  StateFile file{"state", SafetensorsFile(bytes, "state")};
  WeightMap map = parseWeightMap(
      R"({"sluice_map": 1, "prefixes": ["p."], "rules": [{"from": "a", "to": "b"}]})", "map");
  EXPECT_NE(userError([&] {
              importWeights(map, std::span(&file, 1), std::nullopt);
            }).find("expected one tensor \"a\", found \"p.a\" and, in state, \"a\""),
            std::string::npos);
}

} // namespace
