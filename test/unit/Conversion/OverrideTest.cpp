// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Specs.h"

using namespace sluice;
using namespace sluice::spec;

namespace {

/// The tests edit line 3.
std::string specWith(const std::string &line) {
  return "{\n  \"sluice\": 1, \"vocabulary\": 256, \"context\": 8, \"batch\": 2, \"width\": 16,\n" +
         line +
         "\n  \"stages\": [\n    { \"op\": \"embedding\" },\n"
         "    { \"op\": \"layer\", \"heads\": 2 },\n    { \"op\": \"head\" }\n  ]\n}\n";
}

std::vector<SpecOverride> parse(const std::vector<std::string> &written) {
  std::vector<SpecOverride> settings;
  for (const std::string &each : written) {
    std::string mistake;
    std::optional<SpecOverride> setting = parseSetting(each, mistake);
    EXPECT_TRUE(setting) << mistake;
    settings.push_back(setting.value_or(SpecOverride{}));
  }
  return settings;
}

/// The changed text, or the error.
std::string change(const std::string &text, const std::vector<std::string> &written) {
  Diagnostic error;
  std::optional<ParsedSpec> spec =
      parseSpec(getContext(), text, "spec.json", error, parse(written));
  return spec ? spec->text : error.format();
}

std::string getMistake(const std::string &written) {
  std::string mistake;
  EXPECT_FALSE(parseSetting(written, mistake)) << written;
  return mistake;
}

TEST(Override, ReplacesOrAddsAndKeepsEveryOtherByte) {
  EXPECT_EQ(change(specWith("\"training\": { \"clip\": 2 },"), {"training.clip=0.5"}),
            specWith("\"training\": { \"clip\": 0.5 },"));
  EXPECT_EQ(change(specWith("\"training\": {},"), {"training.clip=0.5"}),
            specWith("\"training\": { \"clip\": 0.5 },"));
  EXPECT_EQ(change(specWith("\"training\": {\"clip\": 1},"), {"training.epsilon=1e-6"}),
            specWith("\"training\": { \"epsilon\": 1e-6,\"clip\": 1},"));
  std::string added = specWith("").insert(1, " \"training\": { \"schedule\": { \"warmup\": 3 } },");
  EXPECT_EQ(change(specWith(""), {"training.schedule.warmup=3"}), added);
}

TEST(Override, ReportsInvalidUtf8KeysAsUnknown) {
  EXPECT_NE(change(specWith(""), {"stages.1.fac\xefor=2"}).find("fac\uFFFDor"), std::string::npos)
      << change(specWith(""), {"stages.1.fac\xefor=2"});
}

TEST(Override, ReplacesCompleteValuesOfAnyKind) {
  std::string text = specWith("\"name\": \"a \\\" , } ]\", \"training\": {\"betas\": [0.8, 0.9]},");
  EXPECT_EQ(change(text, {"name=b"}),
            specWith("\"name\": \"b\", \"training\": {\"betas\": [0.8, 0.9]},"));
  EXPECT_EQ(change(text, {"training.betas=[0.5, 0.6]", "name=x"}),
            specWith("\"name\": \"x\", \"training\": {\"betas\": [0.5, 0.6]},"));
  EXPECT_EQ(change(text, {"training.betas.1=0.99", "name=x"}),
            specWith("\"name\": \"x\", \"training\": {\"betas\": [0.8, 0.99]},"));
  Diagnostic error;
  std::optional<ParsedSpec> spec =
      parseSpec(getContext(), specWith(""), "spec.json", error,
                parse({"stages.1={\"op\": \"hourglass\", \"hierarchy\": \"1@1\", \"heads\": 2}",
                       "stages.1.hierarchy=1@1 2@2 1@1", "context=16", "context=32"}));
  ASSERT_TRUE(spec) << error.format();
  EXPECT_EQ(getStage<HourglassOp>(*spec, 1).getHierarchy(), "1@1 2@2 1@1");
  EXPECT_EQ(spec->getModel().getLength(), 32); // the later one
}

TEST(Override, ParsesWordsAsStringsAndJsonAsJson) {
  EXPECT_EQ(parse({"a=true"})[0].value, "true");
  EXPECT_EQ(parse({"a=gelu"})[0].value, "\"gelu\"");
  EXPECT_EQ(parse({"a=2@1 8@4 2@1"})[0].value, "\"2@1 8@4 2@1\"");
  EXPECT_EQ(parse({"a=\"1\""})[0].value, "\"1\"");
  EXPECT_EQ(parse({"a.0.b=x=y"})[0].value, "\"x=y\"");
  EXPECT_EQ(parse({"a=[1,\n2]"})[0].value, "[1, 2]"); // lines of the spec stay
  EXPECT_NE(getMistake("width").find("expected KEY=VALUE"), std::string::npos);
  EXPECT_NE(getMistake("=3").find("expected KEY=VALUE"), std::string::npos);
  EXPECT_NE(getMistake("a..b=3").find("expected KEY=VALUE"), std::string::npos);
  EXPECT_NE(getMistake("a=[1,").find("--set a: expected JSON or a plain word"), std::string::npos);
}

TEST(Override, ErrorsNameTheFlagAndTheLocation) {
  std::string text = specWith("\"training\": { \"clip\": 2 },");
  auto begins = [&](const std::vector<std::string> &written, const std::string &start) {
    std::string error = change(text, written);
    EXPECT_EQ(error.substr(0, start.size()), start);
  };
  begins({"training.clip=-1"}, "spec.json:3:23: --set training.clip=-1: expected");
  begins({"widht=3"}, "spec.json:1:3: --set widht=3: ");
  begins({"stages.9.op=layer"},
         "spec.json:4:13: --set stages.9.op=layer: expected an index from 0 to 2, found \"9\"");
  begins({"stages.01.op=layer"},
         "spec.json:4:13: --set stages.01.op=layer: expected an index from 0 to 2, found \"01\"");
  begins({"stages.x.op=layer"}, "spec.json:4:13: --set stages.x.op=layer: expected an index");
  begins({"width.a=1"}, "spec.json:2:70: --set width.a=1: expected an object or an array that "
                        "holds \"a\", found 16");
  begins({"stages.1.heads=3", "name=x"}, "spec.json:6:31: --set stages.1.heads=3: ");
  // The width does not fit the stage.
  begins({"width=17", "name=x"}, "spec.json:6:31: --set width=17 --set name=x: ");
}

TEST(Override, ReportsMistakesOfTheSpecInTheSpec) {
  EXPECT_EQ(change("{", {"width=3"}).find("--set"), std::string::npos);
  EXPECT_EQ(change("[]", {"width=3"}).find("--set"), std::string::npos);
  std::string error = change(specWith("\"clip\": 3,"), {"width=32"});
  EXPECT_NE(error.find("\"clip\""), std::string::npos) << error;
  EXPECT_EQ(error.find("--set"), std::string::npos) << error;
  EXPECT_NE(change(specWith("\"seed\": -1,"), {"seed=1"}).find("\"seed\": 1"), std::string::npos);
}

TEST(Override, ReadsTheChangedSpec) {
  Diagnostic error;
  std::string path = SPEC_MODELS_DIR "/tiny/vanilla.json";
  std::optional<ParsedSpec> changed =
      parseSpecFile(getContext(), path, error, {computeSetting("bf16")});
  ASSERT_TRUE(changed) << error.format();
  EXPECT_EQ(getOnly<PrecisionOp>(*changed).getCompute(), StorageType::bf16);
  EXPECT_NE(changed->text.find("\"compute\": \"bf16\""), std::string::npos);
  ParsedSpec original = readGoodFile(path);
  EXPECT_EQ(getOnly<PrecisionOp>(original).getCompute(), StorageType::f32);
  EXPECT_FALSE(parseSpecFile(getContext(), "/nowhere.json", error, {computeSetting("bf16")}));
}

} // namespace
