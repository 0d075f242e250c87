// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Specs become modules that verify, hold the tensors the spec declares, and go through the passes
// to entries. With SLUICE_DUMP_MODEL set to a spec's path, prints its module and that of the
// entries.
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Spec/Expansion.h"
#include "sluice/Transforms/ImportSpec.h"
#include "sluice/Transforms/Passes.h"
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

using namespace mlir;
using namespace sluice;

static const std::string source = SLUICE_SOURCE_DIR;

static spec::Model readModel(const std::string &path) {
  spec::Diagnostic error;
  std::optional<spec::Model> model = spec::readFile(path, error);
  EXPECT_TRUE(model) << error.format();
  return *model;
}

static spec::Model readModelText(const std::string &text) {
  spec::Diagnostic error;
  std::optional<spec::Model> model = spec::readText(text, "test.json", error);
  EXPECT_TRUE(model) << error.format();
  return *model;
}

static LogicalResult makeEntries(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.addPass(createConvertFactors());
  passes.addPass(createDifferentiate());
  passes.addPass(createFormDispatches());
  passes.addPass(createBuildEntries());
  return passes.run(module);
}

static std::vector<std::string> specsUnder(const std::string &folder) {
  std::vector<std::string> result;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(source + "/" + folder)) {
    if (entry.path().extension() == ".json" &&
        entry.path().parent_path().filename() != "expected") {
      result.push_back(entry.path().string());
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

class EverySpec : public ::testing::TestWithParam<std::string> {};

TEST_P(EverySpec, BecomesEntries) {
  MLIRContext context;
  spec::Model model = readModel(GetParam());
  OwningOpRef<ModuleOp> module = importSpec(context, model);
  ASSERT_TRUE(succeeded(verify(*module)));
  int64_t elements = 0;
  for (auto parameter : module->getOps<ParameterOp>()) {
    elements +=
        parameter.getFrozen() ? 0 : cast<RankedTensorType>(parameter.getType()).getNumElements();
  }
  EXPECT_EQ(elements, spec::parameterCount(model));
  ASSERT_TRUE(succeeded(makeEntries(*module)));
  for (StringRef entry : {"gradient", "evaluate", "predict", "update", "initialize"}) {
    EXPECT_TRUE(module->lookupSymbol<func::FuncOp>(entry)) << entry.str();
  }
  EXPECT_EQ(module->lookupSymbol("prepare") != nullptr,
            model.precision.compute == spec::NumberType::Bf16);
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

TEST(Import, PacksQueryKeyValue) {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = importSpec(context, readModelText(layerSpec("\"head_size\": 6")));
  auto weight = module->lookupSymbol<ParameterOp>("stages.1.attention.qkv.weight");
  ASSERT_TRUE(weight);
  auto type = cast<RankedTensorType>(weight.getType());
  EXPECT_EQ(type.getShape(), ArrayRef<int64_t>({(4 + 2 * 2) * 6, 8}));
  EXPECT_EQ(weight.getSizes(), ArrayRef<int64_t>({24, 12, 12}));
  EXPECT_EQ(cast<StringAttr>(weight.getNames()[1]).getValue(), "stages.1.attention.key.weight");
  EXPECT_TRUE(weight.getDecay());
  auto bias = module->lookupSymbol<ParameterOp>("stages.1.attention.qkv.bias");
  ASSERT_TRUE(bias);
  EXPECT_EQ(cast<RankedTensorType>(bias.getType()).getShape(), ArrayRef<int64_t>({48}));
  EXPECT_FALSE(bias.getDecay());
}

static int64_t countRandom(func::FuncOp function, llvm::DenseSet<int64_t> &ids) {
  int64_t count = 0;
  function.walk([&](dispatch::RandomOp random) {
    ids.insert(random.getId());
    ++count;
  });
  function.walk([&](AttentionOp attention) {
    if (attention.getDropout().convertToFloat() > 0) {
      ids.insert(attention.getRandomId());
      ++count;
    }
  });
  return count;
}

TEST(Import, DropoutIsOnlyTrained) {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = importSpec(
      context, readModelText(layerSpec("\"dropout\": 0.25, \"attention_dropout\": 0.5")));
  ASSERT_TRUE(succeeded(verify(*module)));
  llvm::DenseSet<int64_t> ids;
  EXPECT_EQ(countRandom(module->lookupSymbol<func::FuncOp>("evaluate"), ids), 0);
  EXPECT_EQ(countRandom(module->lookupSymbol<func::FuncOp>("predict"), ids), 0);
  EXPECT_EQ(countRandom(module->lookupSymbol<func::FuncOp>("train"), ids), 3);
  EXPECT_EQ(ids.size(), 3u);
  ASSERT_TRUE(succeeded(makeEntries(*module)));
  EXPECT_FALSE(module->lookupSymbol("train"));
  EXPECT_TRUE(module->lookupSymbol("gradient"));
}

TEST(Import, LocationsAreStages) {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = importSpec(context, readModelText(layerSpec("\"rotary\": true")));
  module->lookupSymbol<func::FuncOp>("evaluate").walk([&](AttentionOp op) {
    auto name = dyn_cast<NameLoc>(op.getLoc());
    ASSERT_TRUE(name);
    EXPECT_EQ(name.getName().getValue(), "stages.1.attention.mix");
    auto location = dyn_cast<FileLineColLoc>(name.getChildLoc());
    ASSERT_TRUE(location);
    EXPECT_EQ(location.getFilename().getValue(), "test.json");
    EXPECT_EQ(location.getLine(), 3u);
    EXPECT_EQ(location.getColumn(), 5u);
  });
}

TEST(Import, Dump) {
  const char *path = std::getenv("SLUICE_DUMP_MODEL");
  if (!path) {
    GTEST_SKIP() << "SLUICE_DUMP_MODEL is not set";
  }
  MLIRContext context;
  OwningOpRef<ModuleOp> module = importSpec(context, readModel(path));
  module->print(llvm::outs());
  ASSERT_TRUE(succeeded(makeEntries(*module)));
  module->print(llvm::outs());
}
