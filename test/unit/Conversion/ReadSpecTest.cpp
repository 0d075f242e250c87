// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The reader of specs gives its messages, and every shipped model.
#include "Specs.h"

#include "sluice/Conversion/ReadSpec.h"

#include "mlir/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

using namespace sluice;

namespace {

class BadSpec : public testing::TestWithParam<std::string> {};

TEST_P(BadSpec, GivesItsMessage) {
  std::filesystem::path file = std::filesystem::path(SPEC_ERRORS_DIR) / GetParam();
  mlir::MLIRContext context;
  spec::Diagnostic error;
  auto model = readSpec(context, readAll(file.string() + ".json"), GetParam() + ".json", error);
  ASSERT_FALSE(model) << "accepted";
  EXPECT_EQ(error.format() + "\n", readAll(file.string() + ".expected"));
}
INSTANTIATE_TEST_SUITE_P(Corpus, BadSpec, testing::ValuesIn(listSpecs(SPEC_ERRORS_DIR)),
                         toTestName);

class ShippedModel : public testing::TestWithParam<std::string> {};

TEST_P(ShippedModel, IsReadAndPrinted) {
  mlir::MLIRContext context;
  spec::Diagnostic error;
  std::filesystem::path file = std::filesystem::path(SPEC_MODELS_DIR) / (GetParam() + ".json");
  auto model = readSpec(context, readAll(file), file.string(), error);
  ASSERT_TRUE(model) << error.format();
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*model)));
  std::string text;
  llvm::raw_string_ostream out(text);
  model->print(out);
  EXPECT_NE(text.find("spec.head"), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(Models, ShippedModel, testing::ValuesIn(listSpecs(SPEC_MODELS_DIR)),
                         toTestName);

/// Stages after a composite one name segments that a stage inside it makes, of each level.
TEST(InnerSegments, AreNamedByLaterStages) {
  const char *const composites[][2] = {
      {R"({"op": "dynamic", "layers": [1, 1, 1], "boundaries": {"rule": "whitespace"}})",
       "dynamic"},
      {R"({"op": "blt", "layers": [1, 1, 1], "boundaries": {"rule": "whitespace", "name": "words"}})",
       "words"},
      {R"({"op": "spacebyte", "layers": [1, 1, 1]})", "spacebyte"},
      {R"({"op": "hnet", "layers": [1, [1, 1, 1], 1], "width": [8, 16]})", "hnet"}};
  for (auto [composite, name] : composites) {
    std::string method =
        std::string(name) == "hnet" || std::string(name) == "spacebyte" ? "first" : "last";
    std::string text =
        R"({"sluice": 1, "vocabulary": 256, "context": 16, "batch": 2, "width": 8, "defaults": {"heads": 2}, "stages": [
      {"op": "embedding"}, )" +
        std::string(composite) + R"(, {"op": "shorten", "segments": ")" + name +
        R"(", "method": ")" + method + R"("}, {"op": "layer"}, {"op": "upsample", "segments": ")" +
        name + R"("}, {"op": "head"}]})";
    mlir::MLIRContext context;
    spec::Diagnostic error;
    EXPECT_TRUE(readSpec(context, text, "spec.json", error)) << error.format();
  }
}

/// A method that does not fit such segments is found once they are expanded.
TEST(InnerSegments, MethodsAreVerified) {
  std::string text =
      R"({"sluice": 1, "vocabulary": 256, "context": 16, "batch": 2, "width": 8, "defaults": {"heads": 2}, "stages": [
      {"op": "embedding"}, {"op": "spacebyte", "layers": [1, 1, 1]},
      {"op": "shorten", "segments": "spacebyte", "method": "last"}, {"op": "upsample", "segments": "spacebyte"}, {"op": "head"}]})";
  mlir::MLIRContext context;
  spec::Diagnostic error, old;
  EXPECT_FALSE(readSpec(context, text, "spec.json", error));
  EXPECT_FALSE(spec::readText(text, "spec.json", old));
  EXPECT_EQ(error.format(), old.format());
}

} // namespace
