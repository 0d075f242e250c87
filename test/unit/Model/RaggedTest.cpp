// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Batches whose texts have different numbers of segments: each has its required rows, and its
// results do not depend on the other texts.
#include "Harness.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <llvm/ADT/STLExtras.h>

using namespace sluice;
using namespace sluice::testing;

namespace {

constexpr int64_t texts = 4, context = 64;

std::string ragged(const Folder &folder, const std::string &stages, const std::string &more = "") {
  return folder.write("ragged.json", R"({"sluice": 1, "vocabulary": 48, "context": 64, "batch": 4,
      "width": 24, "defaults": {"heads": 2, "relative": "xl_shared"},)" +
                                         more + R"("stages": [
        {"op": "embedding"}, {"op": "layer", "to": "fine"},
        {"op": "boundaries", "name": "words", "rule": "whitespace"},
        {"op": "shorten", "segments": "words"},)" +
                                         stages + R"(
        {"op": "upsample", "segments": "words", "by": 1},
        {"op": "add", "with": "fine"}, {"op": "layer"}, {"op": "head"}]})");
}

const std::string plain = R"({"op": "layers", "count": 2},)",
                  nested = R"({"op": "layer", "to": "word"},
      {"op": "boundaries", "name": "groups", "rule": "every", "factor": 2},
      {"op": "shorten", "segments": "groups"}, {"op": "layer"},
      {"op": "upsample", "segments": "groups"}, {"op": "add", "with": "word"},)",
                  grouped = R"({"op": "layer", "to": "word"},
      {"op": "shift", "by": 2}, {"op": "shorten", "factor": 3}, {"op": "layer"},
      {"op": "upsample", "factor": 3}, {"op": "add", "with": "word"},)";

/// Segments of 3 tokens, of 9, none at all, and of 20: 21, 7, 0 and 3 of them.
Inputs raggedInputs() {
  Inputs inputs = randomInputs(48, texts, context, 9);
  const size_t every[texts] = {3, 9, context + 1, 20};
  for (size_t i = 0; i < inputs.tokens.size(); ++i) {
    int32_t &token = inputs.tokens[i];
    size_t row = i / (context + 1), at = i % (context + 1);
    bool isSpace = token == ' ' || (token >= 9 && token <= 13);
    token = at % every[row] == every[row] - 1 && at < context ? ' ' : isSpace ? 40 : token;
  }
  return inputs;
}

/// The batch in which every text is one of `inputs`.
Inputs repeatText(const Inputs &inputs, int64_t text) {
  Inputs copies = inputs;
  for (size_t i = 0; i < copies.tokens.size(); ++i) {
    copies.tokens[i] = inputs.tokens[size_t(text) * (context + 1) + i % (context + 1)];
  }
  return copies;
}

std::vector<float *> listTemporaries(Model &model) {
  std::vector<float *> all;
  for (const runtime::Buffer &buffer : model.plan().buffers) {
    if (buffer.kind == "activation") {
      runtime::Tensor seen;
      seen.offset = buffer.offset;
      seen.shape = {buffer.bytes / int64_t(sizeof(float))};
      for (float &number : model.executor().tensor(seen, runtime::Access::Edit)) {
        all.push_back(&number);
      }
    }
  }
  return all;
}

/// A model of the spec whose unwritten memory holds NaN; it gives the same gradients as one with
/// zeroed memory, on any number of threads.
void expectOwnRows(const std::string &artifact, const std::string &target,
                   const std::map<std::string, std::vector<int64_t>> &rows) {
  Inputs inputs = raggedInputs();
  Model clean(artifact, target);
  Tensors weights = randomWeights(clean.shapes(), 5);
  clean.setWeights(weights);
  ReferenceGradient expected = clean.gradient(inputs);
  for (const runtime::Executor::SegmentRows &axis : clean.executor().segmentRows()) {
    EXPECT_EQ(axis.computed, rows.at(axis.axis)) << axis.axis;
  }
  for (int threads : {1, 2}) {
    Model model(artifact, target, threads);
    model.setWeights(weights);
    std::vector<float *> temporaries = listTemporaries(model);
    for (float *number : temporaries) {
      *number = std::numeric_limits<float>::quiet_NaN();
    }
    ReferenceGradient found = model.gradient(inputs);
    EXPECT_EQ(found.losses, expected.losses);
    EXPECT_EQ(found.gradients, expected.gradients);
    EXPECT_TRUE(llvm::any_of(temporaries, [](float *number) { return std::isnan(*number); }))
        << "everything was computed";
    std::vector<double> losses = model.evaluate(inputs);
    for (int64_t text = 0; text < texts; ++text) {
      std::vector<double> alone = model.evaluate(repeatText(inputs, text));
      auto first = text * context;
      EXPECT_TRUE(std::equal(losses.begin() + first, losses.begin() + first + context,
                             alone.begin() + first))
          << "text " << text;
    }
  }
}

TEST(Ragged, HandlesRowsPerText) {
  for (const char *precision : {"", R"("precision": {"compute": "bf16"},)"}) {
    Folder folder;
    for (const auto &[target, artifact] : compileForAll(folder, ragged(folder, plain, precision),
                                                        /*allowLeak=*/false, someGenerationRows)) {
      SCOPED_TRACE(target + precision);
      expectOwnRows(artifact, target, {{"words", {22, 8, 1, 4}}});
    }
  }
}

/// Every second word ends a group. An open group has a row too.
TEST(Ragged, HandlesSegmentsOfSegments) {
  Folder folder;
  for (const auto &[target, artifact] :
       compileForAll(folder, ragged(folder, nested), /*allowLeak=*/false, someGenerationRows)) {
    SCOPED_TRACE(target);
    expectOwnRows(artifact, target, {{"words", {22, 8, 1, 4}}, {"groups", {11, 4, 1, 2}}});
  }
}

/// Groups of three words are complete.
TEST(Ragged, GroupsOfSegmentsAreComplete) {
  Folder folder;
  for (const auto &[target, artifact] :
       compileForAll(folder, ragged(folder, grouped), /*allowLeak=*/false, someGenerationRows)) {
    SCOPED_TRACE(target);
    expectOwnRows(artifact, target, {{"words", {24, 9, 3, 6}}});
  }
}

} // namespace
