// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "GenerateBeam.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <algorithm>

namespace sluice::cli {

using namespace sluice;
using namespace sluice::runtime;

void addBeamFlags(CLI::App &command, BeamFlags &flags, const std::string &ends,
                  const std::string &most) {
  CLI::Option *beam =
      command
          .add_option("--beam", flags.width,
                      "Write the best text that beam search with this many hypotheses finds; draws "
                      "nothing. A hypothesis ends with " +
                          ends)
          ->type_name("B")
          ->default_str("")
          ->check(wholeNumber(1, 1 << 16));
  command
      .add_option("--length-penalty", flags.options.lengthPenalty,
                  "With --beam: a text of n tokens, the end included, has the score log p / n^A")
      ->type_name("A")
      ->needs(beam);
  command
      .add_option("--min-tokens", flags.options.minTokens,
                  "With --beam: tokens before the end, which has probability 0 until then")
      ->check(wholeNumber(0, INT64_MAX))
      ->needs(beam);
  command
      .add_option("--max-tokens", flags.maxTokens,
                  "With --beam: maximum number of tokens, the end included; default: " + most)
      ->default_str("")
      ->check(wholeNumber(1, INT64_MAX))
      ->needs(beam);
  command
      .add_option("--no-repeat", flags.options.noRepeat,
                  "With --beam: a token that would repeat N tokens of the written text has "
                  "probability 0; 0: none has")
      ->type_name("N")
      ->check(wholeNumber(0, INT64_MAX))
      ->needs(beam);
}

void addEndToken(CLI::App &command, BeamFlags &flags) {
  command
      .add_option("--end-token", flags.endToken,
                  "With --beam: id of the token that ends a hypothesis, in place of --stop")
      ->type_name("ID")
      ->default_str("")
      ->check(wholeNumber(0, INT32_MAX))
      ->needs("--beam")
      ->excludes("--stop");
}

void refuseBesideBeam(const CLI::App &command) {
  for (const char *flag : {"--num", "--temperature", "--top-k", "--top-p", "--min-p", "--typical",
                           "--repetition-penalty", "--seed", "--session", "--save-session",
                           "--score", "--trace", "--images"}) {
    if (command.count(flag) > 0) {
      throw UserError(std::string("expected no ") + flag +
                      " with --beam, which writes the one best text, found it; leave one of them "
                      "out");
    }
  }
  if (command.count("--tokens") > 0 && command.count("--max-tokens") > 0) {
    throw UserError("expected one maximum number of tokens, found --tokens and --max-tokens; leave "
                    "one of them out");
  }
}

/// Returns the only token of a stop text.
static int32_t findEndToken(const std::string &stop, const TextEncoder *encoder) {
  std::vector<int32_t> tokens = encoder ? encoder->encode(stop) : toTokens(stop);
  if (tokens.size() != 1 || (encoder && encoder->decode(tokens) != stop)) {
    throw UserError("--stop: expected the text of one token with --beam, found " + quote(stop) +
                    ", which is " + std::to_string(tokens.size()) +
                    "; give another one, or the id of a token with --end-token");
  }
  return tokens.front();
}

BeamOptions readBeamOptions(const BeamFlags &flags, const std::vector<std::string> &stops,
                            int64_t vocabulary, const TextEncoder *encoder) {
  BeamOptions options = flags.options;
  options.width = *flags.width;
  options.end = flags.endToken;
  if (!options.end && stops.size() > 1) {
    throw UserError("--stop: expected one stop text with --beam, found " +
                    std::to_string(stops.size()) + "; leave the others out");
  }
  if (!options.end && !stops.empty()) {
    options.end = findEndToken(stops.front(), encoder);
  }
  if (options.end && *options.end >= vocabulary) {
    throw UserError("--end-token: expected a token id below the vocabulary of " +
                    std::to_string(vocabulary) + ", found " + std::to_string(*options.end) +
                    "; change --end-token");
  }
  if (!options.end && options.minTokens > 0) {
    throw UserError("--min-tokens: expected a token that ends a hypothesis, found none; give "
                    "--stop or --end-token, or leave --min-tokens out");
  }
  checkBeam(options);
  return options;
}

void requireEnd(const BeamFlags &flags, int64_t limit) {
  if (flags.options.minTokens >= limit) {
    throw UserError(format("--min-tokens: expected fewer than the maximum of %lld tokens, so that "
                           "the end fits, found %lld; lower it, or raise --max-tokens",
                           static_cast<long long>(limit),
                           static_cast<long long>(flags.options.minTokens)));
  }
}

int64_t getBeamLimit(const BeamFlags &flags, const CLI::App &command, int64_t tokens,
                     const Plan &plan, const std::vector<Text> &texts, const std::string &unit) {
  bool isGiven = flags.maxTokens || command.count("--tokens") > 0;
  int64_t limit = flags.maxTokens.value_or(tokens);
  for (size_t i = 0; i < texts.size(); ++i) {
    int64_t room = getBeamRoom(plan, texts[i]);
    if (room < (isGiven ? limit : 1)) {
      throw UserError(format(
          "%s: expected a prompt and a continuation within the context of %lld %s (the last one "
          "that is written is not read), found a prompt of %lld for text %zu, after which %lld "
          "can be written, and %s of %lld; lower it, or shorten the prompt",
          flags.maxTokens ? "--max-tokens" : "--tokens", static_cast<long long>(plan.model.context),
          unit.c_str(), static_cast<long long>(std::ssize(texts[i].tokens)), i + 1,
          static_cast<long long>(room), isGiven ? "a maximum" : "a default",
          static_cast<long long>(limit)));
    }
  }
  requireEnd(flags, limit);
  return limit;
}

} // namespace sluice::cli
