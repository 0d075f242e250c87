// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Fixture.h"

#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Support/Error.h"

#include <cmath>
#include <limits>
#include <numbers>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;

namespace {

TEST(Evaluator, WindowsScoreEachTokenOnce) {
  for (int64_t tokens = 0; tokens < 40; ++tokens) {
    for (int64_t window = 1; window < 12; ++window) {
      for (int64_t stride = 1; stride <= window; ++stride) {
        std::vector<int> scored(static_cast<size_t>(tokens) + 1);
        std::vector<Window> windows = cutWindows(tokens, window, stride);
        for (size_t i = 0; i < windows.size(); ++i) {
          const Window &w = windows[i];
          ASSERT_LE(w.start + w.length, tokens - 1);
          ASSERT_TRUE(w.length == window || i + 1 == windows.size());
          ASSERT_TRUE(i == 0 || w.firstScored >= std::min(window - stride, w.length - 1));
          for (int64_t t = w.firstScored; t < w.length; ++t) {
            ++scored[static_cast<size_t>(w.start + t + 1)];
          }
        }
        for (int64_t token = 1; token < tokens; ++token) {
          ASSERT_EQ(scored[static_cast<size_t>(token)], 1)
              << tokens << " " << window << " " << stride;
        }
      }
    }
  }
}

// A bigram model needs one token of context, so every window and stride gives the same score.
TEST(Evaluator, BigramScoreDoesNotDependOnTheWindows) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 2);
  executor.scalarI64("seed") = 3;
  executor.run("initialize");
  writeFile(folder / "text", easyText(333));
  auto files = readByteFiles({folder / "text"}, 128, 2, "");
  EvaluationResult whole = evaluate(executor, files, {});
  EXPECT_EQ(whole.tokens, 332);
  EXPECT_EQ(whole.window, 16);
  EXPECT_EQ(whole.stride, 8);
  double expected = 0;
  auto table = executor.tensor(executor.plan().tensors[0]);
  std::vector<uint8_t> bytes = files[0].bytes.readAll();
  for (size_t i = 0; i + 1 < bytes.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < 128; ++j) {
      sum += std::exp(table[bytes[i] * 128u + j]);
    }
    expected += std::log(sum) - table[bytes[i] * 128u + bytes[i + 1]];
  }
  EXPECT_NEAR(whole.nats, expected, 1e-5 * expected); // the test model's exp is good to 1e-6
  EXPECT_NEAR(whole.bitsPerByte().value(), expected / 332 / std::numbers::ln2, 1e-4);
  EXPECT_NEAR(whole.perplexity(), std::exp2(*whole.bitsPerUnit()), 1e-6);
  for (int64_t window : {1, 5, 16}) {
    for (int64_t stride : {int64_t(1), window}) {
      EXPECT_NEAR(evaluate(executor, files, {window, stride, 0}).nats, whole.nats,
                  1e-9 * whole.nats);
    }
  }
}

TEST(Evaluator, LimitsTokensAndAddsFiles) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  writeFile(folder / "a", easyText(50));
  writeFile(folder / "b", easyText(7));
  auto files = readByteFiles({folder / "a", folder / "b"}, 128, 2, "");
  EvaluationResult both = evaluate(executor, files, {});
  EXPECT_EQ(both.tokens, 49 + 6);
  ASSERT_EQ(both.files.size(), 2u);
  for (size_t i = 0; i < 2; ++i) { // each as if alone
    EvaluationResult alone = evaluate(executor, {files[i]}, {});
    EXPECT_EQ(both.files[i].file, files[i].path);
    EXPECT_EQ(both.files[i].tokens, alone.tokens);
    EXPECT_EQ(both.files[i].nats, alone.nats);
    EXPECT_EQ(both.files[i].characters, alone.characters);
  }
  EXPECT_DOUBLE_EQ(both.files[0].nats + both.files[1].nats, both.nats);
  EXPECT_EQ(evaluate(executor, files, {0, 0, 20}).files.size(), 1u);
  EXPECT_EQ(evaluate(executor, files, {0, 0, 52}).tokens, 52);
  EXPECT_EQ(evaluate(executor, files, {0, 0, 20}).tokens, 20);
}

// Runs between white space with a scored byte, and scored line ends; a file's first byte is not
// scored.
TEST(Evaluator, CountsWords) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  auto score = [&](const std::string &text, int64_t most = 0) {
    writeFile(folder / "text", text);
    return evaluate(executor, readByteFiles({folder / "text"}, 128, 2, ""), {0, 0, most});
  };
  auto words = [&](const std::string &text, int64_t most = 0) { return score(text, most).words; };
  EXPECT_EQ(words("a quick  fox\n"), 3); // "a" is not scored; two words and a line end
  EXPECT_EQ(words("an ox"), 2);
  EXPECT_EQ(words("\nan ox\tsees\n\n"), 5);
  EXPECT_EQ(words("an ox", 2), 1); // "n" and the space
  // The weights are zeros, so each token has the probability 1/128. 12 tokens are 3 words.
  EXPECT_NEAR(score("a quick  fox\n").wordPerplexity() / std::pow(128, 4), 1, 1e-5);
}

// Results of characters of several bytes are tested with countCharacters, and with a whole
// vocabulary in losses.sh.
TEST(Evaluator, AsciiCharactersAreBytes) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  writeFile(folder / "a", easyText(50));
  writeFile(folder / "b", easyText(23));
  auto files = readByteFiles({folder / "a", folder / "b"}, 128, 2, "");
  for (EvaluationOptions options : {EvaluationOptions{}, {5, 2, 0}, {16, 16, 60}}) {
    EvaluationResult result = evaluate(executor, files, options);
    EXPECT_EQ(result.characters, result.tokens);
    EXPECT_EQ(result.bitsPerCharacter(), result.bitsPerByte());
    EXPECT_EQ(result.noCharacters, "");
  }
}

TEST(Evaluator, GivesEveryLossInTheOrderOfTheText) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  executor.scalarI64("seed") = 3;
  executor.run("initialize");
  writeFile(folder / "a", easyText(50));
  writeFile(folder / "b", easyText(21, 5));
  auto files = readByteFiles({folder / "a", folder / "b"}, 128, 2, "");
  auto measureLosses = [&](EvaluationOptions options) {
    std::vector<float> all;
    double nats = evaluate(executor, files, options, {}, [&](std::span<const float> losses) {
                    all.insert(all.end(), losses.begin(), losses.end());
                  }).nats;
    EXPECT_EQ(all.size(), static_cast<size_t>(countScored(files, options.mostTokens)));
    double sum = 0;
    for (float loss : all) {
      sum += loss;
    }
    EXPECT_NEAR(sum, nats, 1e-12 * nats); // batches are summed first: another order
    return all;
  };
  std::vector<float> losses = measureLosses({});
  EXPECT_EQ(losses.size(), 49u + 20u);
  EXPECT_EQ(losses, measureLosses({5, 2, 0})); // a bigram's loss does not depend on the windows
  losses.resize(52);
  EXPECT_EQ(losses, measureLosses({0, 0, 52}));
  auto table = executor.tensor(executor.plan().tensors[0]);
  std::vector<uint8_t> second = files[1].bytes.readAll();
  size_t at = second[2], next = second[3];
  double sum = 0;
  for (size_t j = 0; j < 128; ++j) {
    sum += std::exp(table[at * 128 + j]);
  }
  EXPECT_NEAR(losses[49 + 2], std::log(sum) - table[at * 128 + next], 1e-5);
}

TEST(Evaluator, RejectsWrongWindows) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  writeFile(folder / "a", easyText(50));
  auto files = readByteFiles({folder / "a"}, 128, 2, "");
  EXPECT_NE(userError([&] { evaluate(executor, files, {17, 0, 0}); }).find("window from 1 to"),
            std::string::npos);
  EXPECT_NE(userError([&] { evaluate(executor, files, {8, 9, 0}); }).find("stride from 1 to"),
            std::string::npos);
  EXPECT_NE(userError([&] { evaluate(executor, files, {8, -1, 0}); }).find("stride from 1 to"),
            std::string::npos);
  EXPECT_NE(userError([&] { evaluate(executor, files, {8, 4, -1}); }).find("tokens to score"),
            std::string::npos);
}

TEST(Evaluator, NonFiniteLossesGiveNoResult) {
  TemporaryFolder folder;
  Executor executor(bigramArtifact(folder), 1);
  writeFile(folder / "a", easyText(50));
  auto files = readByteFiles({folder / "a"}, 128, 2, "");
  for (float &weight : executor.tensor(executor.plan().tensors[0])) {
    weight = std::numeric_limits<float>::quiet_NaN();
  }
  EXPECT_THROW(evaluate(executor, files, {}), JobError);
}

} // namespace
