// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Spec/Override.h"

#include <gtest/gtest.h>

using namespace sluice::spec;

namespace {

std::string bf16(const std::string &text) { return withCompute(text, "spec.json", "bf16"); }

TEST(Override, ReplacesOrAddsComputeAndNothingElse) {
  EXPECT_EQ(
      bf16("{\n  \"precision\": { \"residual\": \"f32\", \"compute\": \"f32\" },\n \"x\": 1 }"),
      "{\n  \"precision\": { \"residual\": \"f32\", \"compute\": \"bf16\" },\n \"x\": 1 }");
  EXPECT_EQ(
      bf16("{\n  \"x\": {\"compute\": \"f32\"}, \"precision\": {\"residual\": \"f32\"} }"),
      "{\n  \"x\": {\"compute\": \"f32\"}, \"precision\": { \"compute\": \"bf16\",\"residual\": "
      "\"f32\"} }");
  EXPECT_EQ(bf16("{\"precision\": {}}"), "{\"precision\": { \"compute\": \"bf16\" }}");
  EXPECT_EQ(bf16("\n {\n\"x\": 1}"), "\n { \"precision\": { \"compute\": \"bf16\" },\n\"x\": 1}");
  EXPECT_EQ(bf16("{}"), "{ \"precision\": { \"compute\": \"bf16\" } }");
}

TEST(Override, LeavesMistakesToTheReader) {
  for (const char *text : {"[]", "{", "{\"precision\": 3}", "{\"precision\": {\"compute\": 16}}"}) {
    EXPECT_EQ(bf16(text), text);
  }
}

TEST(Override, ReadsTheChangedSpec) {
  Diagnostic error;
  std::string path = SPEC_MODELS_DIR "/tiny/vanilla.json";
  std::optional<Model> changed = readFileWithCompute(path, "bf16", error);
  ASSERT_TRUE(changed) << error.format();
  EXPECT_EQ(changed->precision.compute, NumberType::Bf16);
  EXPECT_NE(changed->text.find("\"compute\": \"bf16\""), std::string::npos);
  EXPECT_EQ(readFile(path, error)->precision.compute, NumberType::F32);
  EXPECT_FALSE(readFileWithCompute("/nowhere.json", "bf16", error));
}

} // namespace
