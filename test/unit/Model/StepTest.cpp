// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generation step by step: logits of every step compared with the reference's complete forward
// pass, rows of the batch at different positions; the text does not depend on the cache.
#include "Harness.h"
#include "Specs.h"
#include "StepSpecs.h"
#include "sluice/Runtime/Device/Emulator/EmulatorDevice.h"
#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Generate/Session.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <set>

using namespace sluice::testing;
using sluice::runtime::Executor;

namespace {

/// Rows of a batch that take part at different times: row b starts with its own prompt length, and
/// skips a step now and then.
struct Ragged {
  explicit Ragged(const ReferenceModel &model)
      : batch(model.size("batch")), context(model.size("context")),
        inputs(randomInputs(model.size("vocabulary"), batch, context, 3)) {
    inputs.given = randomGiven(model.given(), batch, 3);
  }

  int64_t prompt(int64_t row) const { return std::min(row * 3 + row / 2, context - 1); }
  bool participates(int64_t row, int64_t turn) const { return (turn + row) % 5 != 4; }
  int32_t token(int64_t row, int64_t position) const {
    return inputs.tokens[static_cast<size_t>(row * (context + 1) + position)];
  }
  sluice::runtime::GivenLines lines(int64_t row) const {
    sluice::runtime::GivenLines all;
    for (const auto &[name, given] : inputs.given) {
      auto begin = given.tokens.begin() + row * given.capacity;
      all[name] = {begin, begin + given.counts[static_cast<size_t>(row)]};
    }
    return all;
  }
  Inputs prefix(int64_t row, int64_t length) const {
    Inputs one{.rows = 1, .length = length, .tokens = {}};
    for (const auto &[name, tokens] : lines(row)) {
      int64_t capacity = inputs.given.at(name).capacity;
      one.given[name] = {capacity, tokens, {std::ssize(tokens)}};
      one.given[name].tokens.resize(static_cast<size_t>(capacity));
    }
    for (int64_t i = 0; i <= length; ++i) {
      one.tokens.push_back(token(row, i));
    }
    return one;
  }

  int64_t batch, context;
  Inputs inputs;
};

using Told = std::function<void(int64_t row, int64_t length, std::span<const float> logits)>;

/// Runs rows [first, last) of the batch to the end of the context.
void run(Executor &executor, const Ragged &ragged, int64_t first, int64_t last, const Told &told) {
  int64_t stride = ragged.context + 1;
  executor.scalarI64("rows") = 1;
  std::vector<int64_t> done(static_cast<size_t>(ragged.batch));
  std::span<int64_t> take = executor.take();
  std::ranges::fill(take, 1);
  executor.run("reset");
  std::span<int32_t> lines = executor.lines(); // the named inputs of row 0 are the last line
  for (size_t row = 0; row < lines.size(); ++row) {
    lines[row] = static_cast<int32_t>(lines.size() - 1 - row);
  }
  for (int64_t row = first; row < last; ++row) {
    done[row] = ragged.prompt(row);
    for (int64_t i = 0; i < done[row]; ++i) {
      executor.text()[row * stride + i] = executor.prompt()[i] = ragged.token(row, i);
    }
    std::ranges::fill(take, 0);
    bool hasInputs = !ragged.inputs.given.empty();
    take[row] = done[row] == 0 && hasInputs ? -1 : done[row]; // inputs alone
    executor.scalarI64("length") = std::max<int64_t>(1, done[row]);
    executor.promptInputs().write(0, ragged.lines(row));
    for (const auto &[name, line] : ragged.lines(row)) {
      executor.textCounts(name)[lines.empty() ? row : lines[row]] = std::ssize(line);
    }
    if (take[row] != 0) {
      executor.run("prefill");
    }
  }
  std::ranges::fill(take, 0);
  for (int64_t turn = 0;
       *std::min_element(done.begin() + first, done.begin() + last) < ragged.context; ++turn) {
    for (int64_t row = 0; row < ragged.batch; ++row) {
      bool runs = row >= first && row < last && done[row] < ragged.context &&
                  ragged.participates(row, turn);
      take[row] = runs ? 1 : 0;
      if (runs) {
        executor.text()[row * stride + done[row]] = ragged.token(row, done[row]);
      }
    }
    executor.run("step");
    for (int64_t row = first; row < last; ++row) {
      if (take[row] == 1) {
        told(row, ++done[row], executor.outputRow("next_logits", row));
      }
    }
  }
}

/// By row and length.
using Yardsticks = std::map<std::pair<int64_t, int64_t>, Yardstick>;

Yardsticks yardsticks(ReferenceModel &reference, const Tensors &weights, const Ragged &ragged,
                      Precision rounded) {
  Yardsticks expected;
  for (int64_t row = 0; row < ragged.batch; ++row) {
    for (int64_t length = ragged.prompt(row) + 1; length <= ragged.context; ++length) {
      Inputs prefix = ragged.prefix(row, length);
      expected[{row, length}] = yardstick(reference.predict(prefix, weights, Precision::F64),
                                          reference.predict(prefix, weights, rounded));
    }
  }
  return expected;
}

/// Windows of different lengths that are evaluated in one batch: a file ends in a short window,
/// every `stride`-th length, after a complete one. The losses of each equal its losses alone,
/// bitwise.
void expectScoresOfShortWindows(Executor &executor, const std::string &name, int64_t stride = 1) {
  int64_t context = executor.plan().model.context;
  for (int64_t rest = 1; rest <= context; rest += stride) {
    Inputs inputs = randomInputs(executor.plan().model.vocabulary, 1, context + rest, 3);
    std::vector<uint8_t> text(inputs.tokens.begin(), inputs.tokens.end());
    std::vector<float> together, alone;
    sluice::runtime::evaluate(executor, {{"text", text}}, {.window = context, .stride = context},
                              {}, [&](std::span<const float> losses) {
                                together.insert(together.end(), losses.begin(), losses.end());
                              });
    for (int64_t start : {int64_t(0), context}) {
      int64_t length = std::min(context, context + rest - start);
      std::ranges::fill(executor.tokens(), 1);
      std::copy_n(text.begin() + start, length + 1, executor.tokens().begin());
      executor.scalarI64("length") = length;
      executor.scalarI64("rows") = 1;
      executor.run("evaluate");
      std::span<const float> losses = executor.outputRow("losses", 0);
      alone.insert(alone.end(), losses.begin(), losses.begin() + length);
    }
    EXPECT_TRUE(together == alone) << name << ", a last window of " << rest;
  }
}

class Stepped : public ::testing::TestWithParam<Family> {};

TEST_P(Stepped, EveryPositionOfRaggedRows) {
  Family family = GetParam();
  Folder folder;
  std::string spec = folder.write(std::string(family.name) + ".json", family.text);
  ReferenceModel reference(emit(spec, "model"));
  Tensors weights = randomWeights(reference.shapes(), 7);
  Ragged ragged(reference);
  bool isMixed = std::string_view(family.text).find("bf16") != std::string_view::npos;
  Yardsticks expected =
      yardsticks(reference, weights, ragged, isMixed ? Precision::Bf16 : Precision::F32);
  std::string target = chooseTarget(spec), artifact = compileForGeneration(folder, spec, target);
  Model model(artifact, target, 2);
  ASSERT_TRUE(model.plan().generation) << "no step";
  model.setWeights(weights);
  Comparison comparison(family.name + (" step by step on " + target));
  std::map<std::pair<int64_t, int64_t>, std::vector<float>> found;
  run(model.executor(), ragged, 0, ragged.batch, [&](int64_t row, int64_t length, auto logits) {
    found[{row, length}].assign(logits.begin(), logits.end());
    comparison.expect("logits of row " + std::to_string(row) + " at " + std::to_string(length),
                      {logits.begin(), logits.end()}, expected.at({row, length}));
  });
  ASSERT_EQ(found.size(), expected.size());
  if (model.plan().model.first == 0 && model.plan().given.empty()) { // else windows overlap
    expectScoresOfShortWindows(model.executor(), family.name + (" on " + target));
  }
  // A row alone, on another number of threads, on reused states.
  Model other(artifact, target, 1);
  other.setWeights(weights);
  for (int64_t row = ragged.batch - 1; row >= 0; --row) {
    run(other.executor(), ragged, row, row + 1, [&](int64_t, int64_t length, auto logits) {
      EXPECT_TRUE(std::ranges::equal(logits, found.at({row, length})))
          << "row " << row << " alone differs at " << length;
    });
  }
}

/// The others differ from these in training alone, or have a part of the stages of OverDistances
/// and Streams. sluice-model-reference-test lowers their steps.
std::vector<Family> familiesOfSteps() {
  std::vector<Family> some = families();
  std::erase_if(some, [](const Family &family) {
    return std::set<std::string_view>{"Dropout", "FoldedTwice", "OverStreams", "SoftTargets"}
        .contains(family.name);
  });
  return some;
}

INSTANTIATE_TEST_SUITE_P(Families, Stepped, ::testing::ValuesIn(familiesOfSteps()),
                         [](const auto &info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(LazyHeads, Stepped,
                         ::testing::Values(Family{"Upsampled", coarseHead},
                                           Family{"Shifted", lateHead},
                                           Family{"ShiftedGroups", lateGroups},
                                           Family{"Recurrent", recurrent},
                                           Family{"Replaced", replaced}),
                         [](const auto &info) { return std::string(info.param.name); });

/// Steps sum in another order than the forward pass, so a few sums round to the other bf16
/// neighbor. Both are within the same bound of float64.
INSTANTIATE_TEST_SUITE_P(Mixed, Stepped, ::testing::Values(Family{"AllOfIt", allOfIt}),
                         [](const auto &info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(HeadGroups, Stepped,
                         ::testing::Values(Family{"BottomUpAndRetina", bottomUpAndRetina},
                                           Family{"Hashes", hashes}),
                         [](const auto &info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(Segmented, Stepped,
                         ::testing::Values(Family{"Words", words}, Family{"Chunks", chunks},
                                           Family{"LastAndPredicted", lastAndPredicted},
                                           Family{"EveryToken", everyToken},
                                           Family{"FullAxis", fullAxis}, Family{"Begun", begun},
                                           Family{"Attends", attends}, Family{"Spikes", spikes},
                                           Family{"RoutersOfRouters", routersOfRouters},
                                           Family{"PartsOfGroups", partsOfGroups},
                                           Family{"PhrasesOfWords", phrasesOfWords}),
                         [](const auto &info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(Inputs, Stepped,
                         ::testing::Values(Family{"Encoders", encoders}, familiesOfInputs()[1],
                                           familiesOfInputs()[2]),
                         [](const auto &info) { return std::string(info.param.name); });

std::string generateText(Executor &executor, const std::string &prompt, int64_t count,
                         bool cached) {
  std::string text;
  sluice::runtime::generate(executor, prompt, count, {.temperature = 0, .cached = cached},
                            [&](uint8_t byte) {
                              text += static_cast<char>(byte);
                              return true;
                            });
  return text;
}

/// Greedy text is the same with and without a cache, past the context and from prompts longer than
/// it.
TEST(Generation, TextDoesNotDependOnTheCache) {
  for (const char *name : {"hred", "hourglass", "nested"}) {
    Folder folder;
    std::string spec = std::string(SLUICE_SOURCE_DIR) + "/models/tiny/" + name + ".json";
    std::string target = sluice::runtime::machineTargets().front();
    Model model(compileForGeneration(folder, spec, target), target, 2);
    ASSERT_TRUE(model.plan().generation) << name;
    model.setWeights(randomWeights(model.shapes(), 5));
    int64_t context = model.plan().model.context;
    std::string prompt = "To be";
    for (int64_t i = 0; static_cast<int64_t>(prompt.size()) < context + 3; ++i) {
      prompt += static_cast<char>('a' + i * i % 23);
    }
    for (int64_t size : {int64_t{1}, int64_t{3}, int64_t{5}, context - 1, context, context + 3}) {
      std::string begin = prompt.substr(0, static_cast<size_t>(size));
      EXPECT_EQ(generateText(model.executor(), begin, context + 9, true),
                generateText(model.executor(), begin, context + 9, false))
          << name << " after " << size << " bytes";
    }
  }
}

/// Greedy text with prompts that end, and windows that start, within a segment.
TEST(Generation, SegmentedTextDoesNotDependOnTheCache) {
  Folder folder;
  std::string text = words;
  text.replace(text.find("\"vocabulary\": 40"), 16, "\"vocabulary\": 128");
  std::string target = sluice::runtime::machineTargets().front();
  std::string artifact = compileForGeneration(folder, folder.write("words.json", text), target);
  Model model(artifact, target, 2);
  ASSERT_TRUE(model.plan().generation);
  model.setWeights(randomWeights(model.shapes(), 5));
  int64_t context = model.plan().model.context;
  std::string prompt = "a  bc def g\nhij kl mn opqrs tu";
  for (int64_t size : {int64_t{1}, int64_t{3}, int64_t{8}, context - 1, context, context + 3}) {
    std::string begin = prompt.substr(0, static_cast<size_t>(size));
    EXPECT_EQ(generateText(model.executor(), begin, context + 9, true),
              generateText(model.executor(), begin, context + 9, false))
        << "after " << size << " bytes";
  }
}

/// GPU code on the emulator, which compares every launch with float64: ragged rows, and each row
/// alone with the same bits; a gradient.
class EmulatedSteps : public ::testing::TestWithParam<Family> {};

TEST_P(EmulatedSteps, MatchForwardPassAtEveryPositionOfRaggedRows) {
  Folder folder;
  std::string name = GetParam().name;
  std::string spec = folder.write(name + ".json", GetParam().text);
  ReferenceModel reference(emit(spec, "model"));
  Tensors weights = randomWeights(reference.shapes(), 7);
  Ragged ragged(reference);
  Yardsticks expected = yardsticks(reference, weights, ragged, Precision::Bf16);
  auto artifact =
      sluice::runtime::Artifact::load(compileForEmulator(folder, spec, "sm_80", ragged.batch));
  ASSERT_TRUE(artifact->plan().generation) << "no step";
  Executor executor(sluice::runtime::makeEmulatorDevice(artifact));
  setWeights(executor, weights);
  Comparison comparison(name + " step by step on the emulator");
  std::map<std::pair<int64_t, int64_t>, std::vector<float>> found;
  run(executor, ragged, 0, ragged.batch, [&](int64_t row, int64_t length, auto logits) {
    found[{row, length}].assign(logits.begin(), logits.end());
    comparison.expect("logits of row " + std::to_string(row) + " at " + std::to_string(length),
                      {logits.begin(), logits.end()}, expected.at({row, length}));
  });
  ASSERT_EQ(found.size(), expected.size());
  int64_t last = ragged.batch - 1;
  run(executor, ragged, last, ragged.batch, [&](int64_t row, int64_t length, auto logits) {
    EXPECT_TRUE(std::ranges::equal(logits, found.at({row, length})))
        << "row " << row << " alone differs at " << length;
  });
  if (ragged.batch > 1 && executor.plan().model.first == 0 && ragged.inputs.given.empty()) {
    expectScoresOfShortWindows(executor, name + " on the emulator", ragged.context - 2);
  }
  // A step of training; the emulator compares its launches with float64 too.
  setInputs(executor, ragged.inputs);
  executor.run("gradient");
  ReferenceModel backward(emit(spec, "gradient"));
  ReferenceGradient exact = backward.gradient(ragged.inputs, weights, Precision::F64),
                    rounded = backward.gradient(ragged.inputs, weights, Precision::Bf16);
  for (const sluice::runtime::Tensor &tensor : executor.plan().tensors) {
    std::span<float> values = executor.gradient(tensor);
    comparison.expect(
        "gradient of " + tensor.name, {values.begin(), values.end()},
        yardstick(exact.gradients.at(tensor.name), rounded.gradients.at(tensor.name)));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EmulatedSteps,
                         ::testing::Values(Family{"AllOfIt", allOfIt}, Family{"Maxima", maxima},
                                           Family{"TopDown", topDown},
                                           Family{"HeadGroups", headGroups},
                                           Family{"Replaced", replacedOnce}),
                         [](const auto &info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(Segmented, EmulatedSteps,
                         ::testing::Values(Family{"Means", closedMeans},
                                           Family{"LastAndRouted", lastAndRouted},
                                           Family{"AttendsOnce", attendsOnce},
                                           Family{"SpikesOnce", spikesOnce}),
                         [](const auto &info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(Inputs, EmulatedSteps, ::testing::Values(Family{"Encoder", encoder}),
                         [](const auto &info) { return std::string(info.param.name); });

std::vector<int32_t> countBytes(const std::string &text) { return sluice::runtime::toTokens(text); }

/// Texts for `prompts`, one row each at the same time.
std::vector<std::string> generateTexts(Executor &executor, const std::vector<std::string> &prompts,
                                       int64_t count,
                                       const sluice::runtime::SamplingOptions &options,
                                       const std::vector<std::string> &stops = {}) {
  std::vector<sluice::runtime::Text> texts;
  for (const std::string &prompt : prompts) {
    texts.push_back({countBytes(prompt)});
  }
  std::vector<std::string> found(prompts.size());
  sluice::runtime::Predictor predictor(executor, options.cached);
  sluice::runtime::writeTexts(executor, predictor, texts, count, options, stops,
                              {[&](size_t text, std::string_view bytes) {
                                found[text] += bytes;
                                return true;
                              }});
  return found;
}

/// An hourglass and recurrences, whose states a text, a session and a refilled row have each their
/// own. Compiled once for all tests.
const std::string &tinyArtifact() {
  static Folder folder;
  static std::string artifact = compileForGeneration(
      folder, folder.write("model.json", R"json({"sluice": 1, "vocabulary": 256,
          "context": 64, "batch": 4, "width": 32,
          "defaults": {"heads": 4, "activation": "gelu_tanh", "rotary": true},
          "stages": [{"op": "embedding", "to": "x"}, {"op": "recurrence", "start": "null"},
            {"op": "recurrence", "every": 7, "at": 3}, {"op": "add", "with": "x"},
            {"op": "hourglass", "hierarchy": "1@1 2@4 1@1"}, {"op": "head"}]})json"),
      sluice::runtime::machineTargets().front());
  return artifact;
}

struct Tiny : Model {
  explicit Tiny(int threads)
      : Model(tinyArtifact(), sluice::runtime::machineTargets().front(), threads) {
    setWeights(randomWeights(shapes(), 5));
  }
};

/// More texts than rows, prompts of many lengths, texts that end early: each equals its text alone.
TEST(Generation, TextDoesNotDependOnTheBatch) {
  Tiny model(2);
  int64_t rows = model.plan().generationRows(), context = model.plan().model.context;
  EXPECT_EQ(rows, 16);
  std::vector<std::string> prompts;
  for (int64_t i = 0; i < rows + 5; ++i) {
    prompts.push_back(std::string(static_cast<size_t>(1 + i * 37 % (context + 9)), 'a' + i));
  }
  sluice::runtime::SamplingOptions options{.seed = 3};
  std::vector<std::string> stops = {"e", "a", "t", "9", "zz"};
  std::vector<std::string> together = generateTexts(model.executor(), prompts, 50, options, stops);
  std::set<size_t> sizes;
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(together[i],
              generateTexts(model.executor(), {prompts[i]}, 50, options, stops).front())
        << i;
    sizes.insert(together[i].size());
  }
  EXPECT_GT(sizes.size(), 3u) << "no text ended early";
}

/// A session continues as without saving, on another number of threads, at every phase of a group
/// and past the context; also with a longer prompt.
TEST(Generation, ContinuesASession) {
  using namespace sluice;
  using namespace sluice::runtime;
  Folder folder;
  Tiny model(2), other(1);
  TextSink nowhere{[](size_t, std::string_view) { return true; }};
  SamplingOptions options{.repetitionPenalty = 1.1, .seed = 9};
  auto write = [&](Executor &executor, Predictor &predictor, Text &text, int64_t count) {
    writeTexts(executor, predictor, {&text, 1}, count, options, {}, nowhere);
  };
  for (int64_t first : {1, 6, 7, 8, 9, 60, 90}) {
    Text whole{countBytes("ab")}, half = whole;
    Predictor straight(model.executor(), true);
    write(model.executor(), straight, whole, first + 20);
    Predictor begun(model.executor(), true);
    write(model.executor(), begun, half, first);
    saveSession(folder.path("s"), model.executor(), begun, {half, options});
    Predictor resumed(other.executor(), true);
    Session session = loadSession(folder.path("s"), other.executor(), resumed);
    EXPECT_EQ(session.text.tokens, half.tokens);
    EXPECT_EQ(session.options.repetitionPenalty, 1.1);
    write(other.executor(), resumed, session.text, 20);
    EXPECT_EQ(session.text.tokens, whole.tokens) << "after " << first;
  }
}

TEST(Generation, RejectsASessionOfAnotherModel) {
  using namespace sluice;
  using namespace sluice::runtime;
  Folder folder;
  Tiny model(1);
  Executor &executor = model.executor();
  Predictor predictor(executor, true);
  saveSession(folder.path("s"), executor, predictor, {{countBytes("ab")}, {}});
  std::vector<uint8_t> good = readBytes(folder.path("s"), "session");
  auto refusal = [&](const std::vector<uint8_t> &bytes) {
    folder.write("t", {bytes.begin(), bytes.end()});
    try {
      loadSession(folder.path("t"), executor, predictor);
    } catch (const UserError &error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal(good), "none");
  for (size_t at = 8; at < good.size(); at += good.size() / 61) {
    std::vector<uint8_t> bad = good;
    bad[at] ^= 1;
    EXPECT_NE(refusal(bad), "none") << "byte " << at;
    bad.resize(at);
    EXPECT_NE(refusal(bad), "none") << "cut at " << at;
  }
  executor.tensor(model.plan().tensors[0])[0] += 1;
  EXPECT_NE(refusal(good).find("of the same weights"), std::string::npos);
}

/// A stage at factor k runs ceil((P + T) / k) - ceil(P / k) times in T steps after a prompt of P:
/// its guard scalars skip the other launches.
TEST(Generation, RunsCoarseStageWhenItsGroupCloses) {
  Tiny model(1);
  Executor &executor = model.executor();
  constexpr int64_t steps = 13, factor = 4;
  for (int64_t prompt : {4, 5, 6, 7}) {
    std::span<int64_t> take = executor.take();
    std::ranges::fill(take, 1);
    executor.run("reset");
    std::ranges::fill(take, 0);
    take[1] = executor.scalarI64("length") = prompt;
    executor.scalarI64("rows") = 1;
    executor.run("prefill");
    take[1] = 1;
    std::map<std::string, int64_t> runs;
    executor.startTiming();
    for (int64_t step = 0; step < steps; ++step) {
      executor.run("step");
      for (const auto &[name, scalar] : model.plan().scalars) {
        if (name.starts_with("due.")) {
          runs[name] += executor.scalarI32(name);
        }
      }
    }
    executor.stopTiming();
    int64_t coarse = (prompt + steps + factor - 1) / factor - (prompt + factor - 1) / factor;
    int64_t expected = 0, found = 0;
    bool some = false;
    for (const auto &launch : model.plan().entries.at("step")) {
      int64_t times = launch.guard ? runs.at(launch.guard->scalar) : steps;
      EXPECT_TRUE(times == steps || times == coarse) << launch.guard->scalar << " " << times;
      some |= times == coarse;
      expected += times;
    }
    for (const auto &time : executor.times()) {
      found += time.launches;
    }
    EXPECT_EQ(found, expected);
    EXPECT_TRUE(some);
  }
}

} // namespace
