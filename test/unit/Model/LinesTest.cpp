// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Batches whose lines have different numbers of tokens and of rows of named inputs: the rows that
// are computed stop at each line's own count, and a line's numbers do not depend on the others.
#include "Harness.h"

#include "sluice/Runtime/Device/Emulator/EmulatorDevice.h"
#include "sluice/Runtime/Plan/Artifact.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <llvm/ADT/STLExtras.h>
#include <nlohmann/json.hpp>

using namespace sluice;
using namespace sluice::testing;

namespace {

/// Lines of a batch: every length from 1 to the context occurs about equally often, and every
/// number of an input's tokens from 0 to its capacity.
Inputs randomLines(const runtime::Plan &plan, uint64_t seed) {
  int64_t rows = plan.model.batch, context = plan.model.context;
  Inputs inputs = randomInputs(plan.model.vocabulary, rows, context, seed);
  std::map<std::string, std::pair<int64_t, int64_t>> axes;
  for (const auto &[name, given] : plan.given) {
    axes[name] = {given.capacity, given.vocabulary};
  }
  inputs.given = randomGiven(axes, rows, seed + 1);
  for (int64_t row = 0; row < rows; ++row) {
    inputs.scored.push_back(1 + (row * 7 + 3) * context / (7 * rows) % context);
  }
  return inputs;
}

/// The batch whose row `to` is line `from` of `inputs`, among `rows` lines; all others are line
/// `other`.
Inputs moveLine(const Inputs &inputs, int64_t from, int64_t to, int64_t rows, int64_t other) {
  Inputs moved = inputs;
  moved.rows = rows;
  int64_t width = inputs.length + 1;
  moved.tokens.clear();
  moved.scored.clear();
  for (int64_t row = 0; row < rows; ++row) {
    int64_t source = row == to ? from : other;
    auto begin = inputs.tokens.begin() + source * width;
    moved.tokens.insert(moved.tokens.end(), begin, begin + width);
    moved.scored.push_back(inputs.scored[size_t(source)]);
    for (auto &[name, given] : moved.given) {
      const GivenTokens &all = inputs.given.at(name);
      std::copy_n(all.tokens.begin() + source * all.capacity, all.capacity,
                  given.tokens.begin() + row * all.capacity);
      given.counts[size_t(row)] = all.counts[size_t(source)];
    }
  }
  return moved;
}

/// Row `row` of numbers with `width` numbers for each row.
template <typename T> std::vector<T> getRow(const std::vector<T> &all, int64_t row, int64_t width) {
  auto begin = all.begin() + row * width;
  return {begin, begin + width};
}

/// Logits of the last row of line `line` of `inputs`, in row `to` of a batch.
std::vector<float> predictLine(Model &model, Inputs inputs, int64_t to) {
  int64_t width = inputs.length + 1, length = inputs.scored[size_t(to)];
  std::vector<int32_t> tokens;
  for (int64_t row = 0; row < inputs.rows; ++row) {
    auto begin = inputs.tokens.begin() + row * width;
    tokens.insert(tokens.end(), begin, begin + length + 1);
  }
  inputs.tokens = std::move(tokens);
  inputs.length = length;
  return getRow(model.predict(inputs), to, model.plan().model.vocabulary);
}

/// A line has the same bits alone, next to other lines, and in every row of a batch.
void expectSameBits(Model &model) {
  Inputs inputs = randomLines(model.plan(), 11);
  int64_t rows = model.plan().model.batch, context = inputs.length;
  std::vector<double> together = model.evaluate(inputs);
  for (int64_t line = 0; line < rows; ++line) {
    std::vector<double> own = getRow(together, line, context);
    EXPECT_TRUE(llvm::any_of(own, [](double loss) { return loss != 0; }));
    Inputs alone = moveLine(inputs, line, 0, 1, line);
    EXPECT_EQ(model.evaluate(alone), own) << "line " << line << " alone";
    std::vector<float> logits = predictLine(model, alone, 0);
    for (int64_t to = line % 3; to < rows; to += 3) {
      Inputs moved = moveLine(inputs, line, to, rows, (line + 1) % rows);
      EXPECT_EQ(getRow(model.evaluate(moved), to, context), own)
          << "line " << line << " in row " << to;
      EXPECT_EQ(predictLine(model, moved, to), logits) << "line " << line << " in row " << to;
    }
  }
}

std::vector<float *> listTemporaries(runtime::Executor &executor) {
  std::vector<float *> all;
  for (const runtime::Buffer &buffer : executor.plan().buffers) {
    if (buffer.kind == "activation") {
      runtime::Tensor seen;
      seen.offset = buffer.offset;
      seen.shape = {buffer.bytes / int64_t(sizeof(float))};
      for (float &number : executor.tensor(seen, runtime::Access::Edit)) {
        all.push_back(&number);
      }
    }
  }
  return all;
}

/// A model whose unwritten memory holds NaN gives the same gradients as one with zeroed memory, and
/// the numbers of rows are the lines'.
void expectOwnRows(const std::string &artifact, const std::string &target) {
  Model clean(artifact, target);
  Inputs inputs = randomLines(clean.plan(), 5);
  Tensors weights = randomWeights(clean.shapes(), 5);
  clean.setWeights(weights);
  ReferenceGradient expected = clean.gradient(inputs);
  auto batch = size_t(inputs.rows);
  EXPECT_EQ(clean.executor().scalarsI64("length.target", batch), inputs.scored);
  for (const auto &[name, given] : inputs.given) {
    if (clean.plan().given.at(name).on.empty()) {
      EXPECT_EQ(clean.executor().scalarsI64("length." + name, batch), given.counts);
    }
  }
  for (int threads : {1, 2}) {
    Model model(artifact, target, threads);
    model.setWeights(weights);
    std::vector<float *> temporaries = listTemporaries(model.executor());
    for (float *number : temporaries) {
      *number = std::numeric_limits<float>::quiet_NaN();
    }
    ReferenceGradient found = model.gradient(inputs);
    EXPECT_EQ(found.losses, expected.losses);
    EXPECT_EQ(found.gradients, expected.gradients);
    EXPECT_TRUE(llvm::any_of(temporaries, [](float *number) { return std::isnan(*number); }))
        << "everything was computed";
  }
}

/// Lines longer than a tile of rows and than a block of attention, with a coarse scale and words
/// and groups of the input.
std::string makeSpec(const Folder &folder, const std::string &more) {
  return folder.write("lines.json", R"({"sluice": 1, "vocabulary": 48, "context": 70, "batch": 4,
      "width": 32, "inputs": {"source": {"context": 40, "vocabulary": 21}},
      "defaults": {"heads": 2, "dropout": 0.1},)" +
                                        more + R"("stages": [
        {"op": "embedding", "positions": "learned", "to": "text"},
        {"op": "embedding", "input": "source", "positions": "learned"},
        {"op": "layer", "mask": "bidirectional"}, {"op": "layer", "to": "rows"},
        {"op": "boundaries", "name": "words", "rule": "whitespace"},
        {"op": "layer", "mask": "bidirectional", "within": "words"},
        {"op": "graph_convolution", "segments": "words", "method": "attention"},
        {"op": "shorten", "segments": "words"},
        {"op": "layer", "mask": "bidirectional", "to": "coarse"},
        {"op": "upsample", "segments": "words", "method": "own"}, {"op": "add", "with": "rows"},
        {"op": "shorten", "factor": 3, "to": "thirds"}, {"op": "upsample", "factor": 3},
        {"op": "add", "with": "rows"}, {"op": "norm", "to": "memory"},
        {"op": "layer", "from": "text", "over": "coarse"}, {"op": "layer", "over": "thirds"},
        {"op": "layer", "relative": "xl", "to": "fine"},
        {"op": "shift", "by": 3}, {"op": "shorten", "factor": 4},
        {"op": "layer", "over": "memory"}, {"op": "upsample", "factor": 4},
        {"op": "add", "with": "fine"}, {"op": "layer", "over": "memory", "key_value_heads": 1},
        {"op": "loss", "name": "early", "factor": 0.3},
        {"op": "norm"}, {"op": "head"}]})");
}

const std::string halfPrecision = R"("precision": {"compute": "bf16"},)";

void expectLines(const std::string &artifact, const std::string &target) {
  SCOPED_TRACE(target);
  expectOwnRows(artifact, target);
  Model model(artifact, target);
  model.setWeights(randomWeights(model.shapes(), 3));
  expectSameBits(model);
}

TEST(Lines, ComputedRowsStopAtEachLine) {
  Folder folder;
  for (const auto &[target, artifact] : compileForAll(folder, makeSpec(folder, ""))) {
    expectLines(artifact, target);
  }
}

TEST(Lines, ComputedRowsOfBf16StopAtEachLine) {
  Folder folder;
  std::string target = runtime::machineTargets().front();
  expectLines(compile(folder, makeSpec(folder, halfPrecision), target), target);
}

/// The emulator compares each launch with float64, and memory that no launch has written holds NaN.
TEST(Lines, EmulatedKernelsStopAtEachLine) {
  Folder folder;
  std::string spec = makeSpec(folder, halfPrecision);
  runtime::Executor emulated(runtime::makeEmulatorDevice(
      runtime::Artifact::load(compileForEmulator(folder, spec, "sm_80", /*generationRows=*/0))));
  std::vector<ReferenceShape> shapes;
  for (const runtime::Tensor &tensor : emulated.plan().tensors) {
    shapes.push_back({tensor.name, tensor.shape, tensor.decay});
  }
  setWeights(emulated, randomWeights(shapes, 3));
  Inputs inputs = randomLines(emulated.plan(), 5);
  std::vector<std::vector<float>> clean;
  for (float unwritten : {0.0F, std::numeric_limits<float>::quiet_NaN()}) {
    for (float *number : listTemporaries(emulated)) {
      *number = unwritten;
    }
    setInputs(emulated, inputs);
    emulated.run("gradient");
    for (size_t i = 0; i < emulated.plan().tensors.size(); ++i) {
      std::span<float> found = emulated.gradient(emulated.plan().tensors[i]);
      if (std::isnan(unwritten)) {
        EXPECT_EQ(std::vector<float>(found.begin(), found.end()), clean[i])
            << emulated.plan().tensors[i].name;
      } else {
        clean.emplace_back(found.begin(), found.end());
      }
    }
  }
}

/// Every spec of models/ with an input of its own axis; models/papers and models/small are too
/// large to run.
TEST(Lines, EveryModelWithInputsHasTheSameBits) {
  int64_t models = 0;
  std::string target = runtime::machineTargets().front();
  for (const auto &file :
       std::filesystem::recursive_directory_iterator(SLUICE_SOURCE_DIR "/models")) {
    std::filesystem::path group = file.path().parent_path().filename();
    if (file.path().extension() != ".json" || group == "papers" || group == "small") {
      continue;
    }
    std::ifstream stream(file.path());
    nlohmann::json spec = nlohmann::json::parse(stream, nullptr, false);
    bool hasLines = spec.is_object() && spec.contains("inputs") &&
                    llvm::any_of(spec["inputs"].items(), [](const auto &input) {
                      return input.value().value("axis", "own") == "own";
                    });
    if (hasLines) {
      SCOPED_TRACE(file.path());
      Folder folder;
      Model model(compile(folder, file.path(), target), target);
      model.setWeights(randomWeights(model.shapes(), 3));
      expectSameBits(model);
      ++models;
    }
  }
  EXPECT_GT(models, 0);
}

} // namespace
