// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluation of windows of different lengths in one batch: the losses of each are those that it has
// alone, bit for bit.
#include "Harness.h"
#include "Specs.h"
#include "sluice/Runtime/Evaluator.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace sluice::testing;
using namespace sluice::runtime;

namespace {

class RaggedScore : public ::testing::TestWithParam<Family> {};

TEST_P(RaggedScore, IsThatOfTheWindowAlone) {
  Folder folder;
  std::string spec = folder.write(std::string(GetParam().name) + ".json", GetParam().text);
  for (const auto &[target, artifact] : compileForAll(folder, spec)) {
    Model model(artifact, target, 2);
    model.setWeights(randomWeights(model.shapes(), 7));
    Executor &executor = model.executor();
    int64_t context = model.plan().model.context;
    // One file ends in a window of every length, behind whole ones.
    for (int64_t rest = 1; rest <= context; rest += std::max<int64_t>(1, context / 5)) {
      Inputs inputs = randomInputs(model.plan().model.vocabulary, 1, context + rest, 3);
      std::vector<uint8_t> text(inputs.tokens.begin(), inputs.tokens.end());
      std::vector<float> together, alone;
      evaluate(executor, {{"text", text}}, {.window = context, .stride = context}, {},
               [&](std::span<const float> losses) {
                 together.insert(together.end(), losses.begin(), losses.end());
               });
      for (int64_t start : {int64_t(0), context}) {
        int64_t length = std::min(context, static_cast<int64_t>(text.size()) - 1 - start);
        std::ranges::fill(executor.tokens(), 1);
        std::copy_n(text.begin() + start, length + 1, executor.tokens().begin());
        executor.scalarI64("length") = length;
        executor.scalarI64("rows") = 1;
        executor.run("evaluate");
        std::span<const float> losses = executor.outputRow("losses", 0);
        alone.insert(alone.end(), losses.begin(), losses.begin() + length);
      }
      EXPECT_TRUE(together == alone) << target << ", a last window of " << rest;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, RaggedScore, ::testing::ValuesIn(families()),
                         [](const auto &info) { return std::string(info.param.name); });

} // namespace
