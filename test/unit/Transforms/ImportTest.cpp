// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Specs become modules that verify, contain the declared tensors, and lower to entries.
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Transforms/Passes.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <set>

using namespace mlir;
using namespace sluice;

static const std::string source = SLUICE_SOURCE_DIR;

static LogicalResult makeEntries(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.addPass(createExpandSoftTargets());
  passes.addPass(createConvertFactors());
  passes.addPass(createDifferentiate());
  passes.addPass(createFormDispatches());
  passes.addPass(createBuildEntries());
  return passes.run(module);
}

static std::vector<std::string> specsUnder(const std::string &folder) {
  std::vector<std::string> result;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(source + "/" + folder)) {
    bool isReference = entry.path().stem() == "lsh-bidirectional"; // no kernel sorts rows
    if (entry.path().extension() == ".json" && !isReference &&
        entry.path().parent_path().filename() != "expected") {
      result.push_back(entry.path().string());
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

/// Returns the names of the origins of a function's model ops, without reads of parameters, or of
/// its dispatches. Expects every one of these ops and reads to have an origin.
static std::set<std::string> collectOrigins(func::FuncOp function) {
  std::set<std::string> names;
  for (Operation &op : function.getBody().front()) {
    bool isOfModel = isa<SluiceDialect>(op.getDialect()) && !isa<BeginBackwardOp>(op);
    if (isOfModel || isa<dispatch::KernelInterface>(op)) {
      SmallVector<OriginAttr> origins = getOrigins(op.getLoc());
      EXPECT_FALSE(origins.empty())
          << function.getSymName().str() << ": " << op.getName().getStringRef().str();
      for (OriginAttr origin : isa<ReadOp>(op) ? SmallVector<OriginAttr>() : origins) {
        names.insert(origin.getName());
      }
    }
  }
  return names;
}

class EverySpec : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySpec, LowersToEntries) {
  MLIRContext context;
  spec::Diagnostic error;
  std::optional<ParsedSpec> spec = parseSpecFile(context, GetParam(), error);
  ASSERT_TRUE(spec) << error.format();
  OwningOpRef<ModuleOp> module = importSpec(*spec);
  ASSERT_TRUE(succeeded(verify(*module)));
  int64_t elements = 0;
  for (auto parameter : module->getOps<ParameterOp>()) {
    elements +=
        parameter.getFrozen() ? 0 : cast<RankedTensorType>(parameter.getType()).getNumElements();
  }
  EXPECT_EQ(elements, spec->countParameters());
  auto evaluate = module->lookupSymbol<func::FuncOp>("evaluate");
  std::set<std::string> origins = collectOrigins(evaluate);
  ASSERT_TRUE(succeeded(makeEntries(*module)));
  std::set<std::string> kept = collectOrigins(module->lookupSymbol<func::FuncOp>("evaluate"));
  for (const std::string &origin : origins) {
    EXPECT_TRUE(kept.contains(origin)) << "no dispatch of @evaluate has the origin " << origin;
  }
  collectOrigins(module->lookupSymbol<func::FuncOp>("gradient"));
  bool predicts = !spec->getModel().getBody().getOps<spec::HeadOp>().empty();
  if (predicts) {
    collectOrigins(module->lookupSymbol<func::FuncOp>("predict"));
  }
  EXPECT_EQ(module->lookupSymbol("predict") != nullptr, predicts);
  for (StringRef entry : {"gradient", "evaluate", "update", "initialize"}) {
    EXPECT_TRUE(module->lookupSymbol<func::FuncOp>(entry)) << entry.str();
  }
  spec::PrecisionOp precision = *spec->getModel().getBody().getOps<spec::PrecisionOp>().begin();
  EXPECT_EQ(module->lookupSymbol("prepare") != nullptr,
            precision.getCompute() == spec::StorageType::bf16);
  EXPECT_FALSE(module->lookupSymbol("train"));
}

INSTANTIATE_TEST_SUITE_P(Models, EverySpec, ::testing::ValuesIn(specsUnder("models")));
INSTANTIATE_TEST_SUITE_P(Goldens, EverySpec, ::testing::ValuesIn(specsUnder("test/golden")));

static std::string layerSpec(const std::string &settings) {
  return R"({"sluice": 1, "vocabulary": 9, "context": 8, "batch": 2, "width": 8, "stages": [
    {"op": "embedding"},
    {"op": "layer", "heads": 4, "key_value_heads": 2, )" +
         settings + "},\n    {\"op\": \"head\"}]}";
}

TEST(Import, OriginsAreStages) {
  MLIRContext context;
  spec::Diagnostic error;
  std::optional<ParsedSpec> spec =
      parseSpec(context, layerSpec("\"rotary\": true"), "test.json", error);
  ASSERT_TRUE(spec) << error.format();
  OwningOpRef<ModuleOp> module = importSpec(*spec);
  module->lookupSymbol<func::FuncOp>("evaluate").walk([&](AttentionOp op) {
    OriginAttr origin = getOrigin(op);
    ASSERT_TRUE(origin);
    EXPECT_EQ(origin.getStage(), "stages.1");
    EXPECT_EQ(origin.getPart(), "attention.mix");
    auto location = op.getLoc()->findInstanceOf<FileLineColLoc>();
    ASSERT_TRUE(location);
    EXPECT_EQ(location.getFilename().getValue(), "test.json");
    EXPECT_EQ(location.getLine(), 3u);
    EXPECT_EQ(location.getColumn(), 5u);
  });
}
