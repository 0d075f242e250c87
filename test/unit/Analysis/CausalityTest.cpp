// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Verdicts over the shipped models and random chains of stages; each is compared with an
// enumeration of paths at every small length. The corpus, mutants and random specs of every kind:
// test/fuzz.
#include "../Papers.h"
#include "../Specs.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Explain/CheckCausality.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/Verdict.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace sluice;
using namespace sluice::test;

namespace {

const std::string source = SLUICE_SOURCE_DIR;

std::vector<std::string> specsUnder(const std::string &folder) {
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

/// Twice the coarsest factor (the product of all) and the largest shift, in tokens.
int64_t lengthsToEnumerate(func::FuncOp function) {
  int64_t factor = 1, shift = 0;
  function.walk([&](Operation *op) {
    if (op->getNumResults() == 0 || !isa<SequenceType>(op->getResult(0).getType())) {
      return;
    }
    int64_t f = getFactor(op, cast<SequenceType>(op->getResult(0).getType()));
    factor = std::max(factor, f);
    if (auto shiftOp = dyn_cast<ShiftOp>(op)) {
      shift = std::max(shift, f * static_cast<int64_t>(shiftOp.getBy()));
    }
  });
  return 2 * factor + shift;
}

/// True if a length up to this one has a leak or a row that later tokens change.
bool enumerationFindsLeak(ModuleOp module) {
  for (StringRef name : {"evaluate", "train"}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    for (int64_t length = 1; function && length <= lengthsToEnumerate(function); ++length) {
      if (findLeakAt(function, length, /*missing=*/true)) {
        return true;
      }
    }
  }
  return false;
}

CausalVerdict checkBoth(const std::string &path) {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = importSpec(parseValidFile(context, path));
  CausalVerdict verdict = checkCausality(*module, /*replay=*/true);
  // The ends of segments are not enumerated here: SegmentProofTest walks all boundaries.
  auto evaluate = module->lookupSymbol<func::FuncOp>("evaluate");
  if (evaluate.getBody().getOps<SegmentOp>().empty()) {
    EXPECT_EQ(verdict.kind != VerdictKind::Proved, enumerationFindsLeak(*module))
        << verdict.message;
  }
  return verdict;
}

} // namespace

class Causal : public ::testing::TestWithParam<std::string> {};

TEST_P(Causal, IsProved) {
  CausalVerdict verdict = checkBoth(GetParam());
  EXPECT_EQ(verdict.kind, VerdictKind::Proved) << verdict.message;
  std::vector<std::string> modes = {"eval", "train"};
  bool endsInContrast = llvm::StringRef(GetParam()).ends_with("tiny/contrast.json") ||
                        llvm::StringRef(GetParam()).ends_with("-iem-1.json");
  if (!endsInContrast) {
    modes.push_back("generate");
  }
  EXPECT_EQ(verdict.modes, modes);
  EXPECT_FALSE(verdict.witness);
}

/// LeakyVariantsTest.cpp proves every row of the papers; this test enumerates one of each kind.
std::vector<std::string> modelsToEnumerate() {
  std::vector<std::string> specs = specsUnder("models");
  llvm::erase_if(specs, [](const std::string &spec) {
    return std::filesystem::path(spec).parent_path().filename() == "papers" &&
           !isRepresentative(spec);
  });
  return specs;
}

INSTANTIATE_TEST_SUITE_P(Models, Causal, ::testing::ValuesIn(modelsToEnumerate()));

TEST(Causality, ProvesAllGoldenModelsExceptBidirectional) {
  for (const std::string &path : specsUnder("test/golden")) {
    bool leaks = path.ends_with("bidirectional.json");
    CausalVerdict verdict = checkBoth(path);
    EXPECT_EQ(verdict.kind, leaks ? VerdictKind::Leak : VerdictKind::Proved)
        << path << ": " << verdict.message;
  }
}

namespace {

std::string pick(std::mt19937 &generator, std::vector<std::string> choices) {
  return choices[generator() % choices.size()];
}

/// A random chain of stages between embedding and head; shifts are often one too small or one too
/// large.
std::string randomSpec(std::mt19937 &generator) {
  std::string stages;
  std::vector<int64_t> factors;
  auto stage = [&](const std::string &text) { stages += "    { " + text + " },\n"; };
  auto filler = [&] {
    stage(
        pick(generator,
             {R"("op": "norm")", R"("op": "layer")", R"("op": "layer", "mask": {"window": [0, 2]})",
              R"("op": "layer", "mask": {"window": [1, 4]})", R"("op": "shift", "by": 1)"}));
  };
  int64_t levels = 1 + static_cast<int64_t>(generator() % 2);
  for (int64_t i = 0; i < levels; ++i) {
    int64_t k = 2 + static_cast<int64_t>(generator() % 3);
    int64_t by = std::max<int64_t>(0, k - 2 + static_cast<int64_t>(generator() % 3));
    stage("\"op\": \"shift\", \"by\": " + std::to_string(by));
    if (generator() % 5 == 0) {
      filler();
    }
    stage("\"op\": \"shorten\", \"method\": \"" + pick(generator, {"average", "linear"}) +
          "\", \"factor\": " + std::to_string(k));
    if (generator() % 2 == 0) {
      filler();
    }
    factors.push_back(k);
  }
  while (!factors.empty()) {
    stage("\"op\": \"upsample\", \"factor\": " + std::to_string(factors.back()));
    factors.pop_back();
    if (generator() % 3 == 0) {
      filler();
    }
  }
  return R"({"sluice": 1, "vocabulary": 5, "context": 64, "batch": 1, "width": 2,
  "defaults": {"heads": 1, "feed_forward": 2}, "stages": [
    { "op": "embedding", "to": "fine" },
)" + stages +
         "    { \"op\": \"add\", \"with\": \"fine\" },\n    { \"op\": \"head\" }]}";
}

} // namespace

TEST(Causality, RandomSpecsAgreeWithEnumeration) {
  std::mt19937 generator(11);
  int proved = 0, refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string text = randomSpec(generator);
    MLIRContext context(MLIRContext::Threading::DISABLED);
    OwningOpRef<ModuleOp> module = importSpec(parseValidSpec(context, text));
    CausalVerdict verdict = checkCausality(*module, /*replay=*/false);
    ASSERT_NE(verdict.kind, VerdictKind::NotProved) << text << verdict.message;
    ASSERT_EQ(verdict.kind == VerdictKind::Leak, enumerationFindsLeak(*module))
        << text << verdict.message;
    (verdict.kind == VerdictKind::Proved ? proved : refused) += 1;
  }
  EXPECT_GT(proved, 60);
  EXPECT_GT(refused, 60);
}

TEST(Causality, ModelWithoutLossIsNotProved) {
  MLIRContext context;
  OwningOpRef<ModuleOp> module =
      importSpec(parseValidFile(context, source + "/models/tiny/vanilla.json"));
  module->lookupSymbol("evaluate")->erase();
  EXPECT_EQ(checkCausality(*module).kind, VerdictKind::NotProved);
}

TEST(Causality, ProofOfDeepModelsIsFast) {
  std::string text =
      R"({"sluice": 1, "vocabulary": 5, "context": 64, "batch": 1, "width": 2, "stages": [
    { "op": "embedding" },
    { "op": "hourglass", "hierarchy": "200@1 200@4 200@1", "heads": 1, "feed_forward": 2 },
    { "op": "head" }]})";
  MLIRContext context(MLIRContext::Threading::DISABLED);
  EXPECT_EQ(checkCausality(importVariants(parseValidSpec(context, text))).kind,
            VerdictKind::Proved);
}
