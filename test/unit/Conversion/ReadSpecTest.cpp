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

} // namespace
