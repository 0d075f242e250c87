// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Score.h"
#include "Common.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <iostream>
#include <numbers>
#include <numeric>

namespace sluice::cli {

using namespace sluice;
using namespace sluice::runtime;

void addScoreFlag(CLI::App &command, std::vector<std::string> &continuations) {
  command
      .add_option(
          "--score", continuations,
          "Write nothing; print how likely this continuation of the prompt is, in nats; may "
          "be repeated: --score A --score B")
      ->expected(1)
      ->default_str("")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void refuseBesideScore(const CLI::App &command) {
  for (const char *flag : {"--tokens", "--num", "--stop", "--no-echo", "--lines", "--images",
                           "--session", "--save-session", "--temperature", "--top-k", "--top-p",
                           "--min-p", "--typical", "--repetition-penalty", "--seed", "--trace"}) {
    if (command.count(flag) > 0) {
      throw UserError(std::string("expected no ") + flag +
                      " with --score, which draws nothing, found it; leave one of them out");
    }
  }
}

/// Throws UserError if the line has no room for the continuation.
static void requireRoom(const Text &text, const std::vector<int32_t> &continuation,
                        const char *unit) {
  if (auto size = std::ssize(continuation); size > text.room) {
    throw UserError(
        format("--score: expected a continuation of at most %lld %s, what the model's context "
               "leaves of a line after its prompt, found %lld; shorten it",
               static_cast<long long>(text.room), unit, static_cast<long long>(size)));
  }
}

void printScores(const std::vector<std::string> &prompts, const std::vector<Text> &texts,
                 const std::vector<std::string> &continuations, bool json, Executor &executor,
                 Predictor &predictor, const TextEncoder *encoder) {
  std::vector<Scored> scored;
  for (const Text &text : texts) {
    for (const std::string &continuation : continuations) {
      if (continuation.empty()) {
        throw UserError("--score: expected a continuation of at least one byte, found an empty "
                        "one; leave it out");
      }
      std::vector<int32_t> tokens =
          encoder ? encoder->encode(continuation) : toTokens(continuation);
      checkPrompt(tokens, executor.plan().model.vocabulary, "the continuation");
      requireRoom(text, tokens, encoder ? "tokens" : "bytes");
      scored.push_back({text.tokens, text.tokens.size(), {}, text.given});
      scored.back().tokens.insert(scored.back().tokens.end(), tokens.begin(), tokens.end());
    }
  }
  scoreTexts(executor, predictor, scored);
  for (size_t i = 0; i < scored.size(); ++i) {
    const std::vector<double> &nats = scored[i].nats;
    double sum = std::accumulate(nats.begin(), nats.end(), 0.0);
    nlohmann::ordered_json line = {{"prompt", prompts[i / continuations.size()]},
                                   {"continuation", continuations[i % continuations.size()]},
                                   {"nats", sum},
                                   {"tokens", nats.size()},
                                   {"per_token", nats}};
    auto dump = [](const nlohmann::ordered_json &value) {
      return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    };
    if (json) {
      std::cout << dump(line) << "\n";
    } else {
      std::cout << format("%.4f nats, %.4f bits a token: ", sum,
                          sum / static_cast<double>(nats.size()) / std::numbers::ln2)
                << showText(dump(line["continuation"])) << "\n";
    }
  }
  std::cout << std::flush;
}

} // namespace sluice::cli
