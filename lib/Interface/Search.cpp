// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of the C interface that search the best text.
#include "Generate.h"
#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Generate/BeamSearch.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cstring>
#include <string>

using namespace sluice;
using namespace sluice::interface;
using namespace sluice::runtime;

void sluice_init_search(sluice_search_options *options, size_t size) {
  if (!options) {
    return;
  }
  sluice_search_options defaults{};
  defaults.size = size;
  defaults.beam = 4;
  defaults.length_penalty = 0.6;
  defaults.end = -1;
  std::memset(static_cast<void *>(options), 0, size);
  std::memcpy(static_cast<void *>(options), &defaults, std::min(size, sizeof defaults));
}

namespace {

/// Maximum number of tokens that a search writes if the caller gives none, as of sluice generate.
constexpr int64_t defaultTokens = 256;

/// Returns the caller's options, checked for the model.
sluice_search_options checkOptions(LoadedModel &state, const sluice_search_options *options) {
  sluice_search_options given = readOptions(options);
  if (!options) {
    sluice_init_search(&given, sizeof given);
  }
  checkPredicts(state.plan(), state.executor().artifact().path());
  requireNotNegative({{"tokens", given.tokens}, {"ids", given.ids}});
  given.ids = chooseIds(state, given.ids);
  if (given.end < -1 || given.end >= given.ids) {
    throw UserError("end: expected an id below " + std::to_string(given.ids) +
                    ", those that are written, or none (-1 in C, None in Python), found " +
                    std::to_string(given.end) + "; give another");
  }
  return given;
}

/// Returns the maximum number of tokens to write after `text`.
int64_t chooseLimit(const LoadedModel &state, const sluice_search_options &given,
                    const Text &text) {
  int64_t room = getBeamRoom(state.plan(), text), context = state.plan().model.context;
  if (room < std::max<int64_t>(1, given.tokens)) {
    throw UserError("tokens: expected a prompt and a continuation within the context of " +
                    std::to_string(context) + ", found a prompt of " +
                    std::to_string(text.tokens.size()) + ", after which " +
                    std::to_string(std::max<int64_t>(0, room)) + " can be written, and " +
                    (given.tokens == 0 ? "at least 1" : std::to_string(given.tokens)) +
                    "; lower it, or shorten the prompt");
  }
  return given.tokens == 0 ? std::min(room, defaultTokens) : given.tokens;
}

/// Searches the best continuation of `text`, and writes its ids to `tokens`.
void search(LoadedModel &state, Text text, const sluice_search_options &given, int32_t *tokens,
            int64_t capacity, sluice_found *found) {
  BeamOptions options{.width = given.beam,
                      .lengthPenalty = given.length_penalty,
                      .minTokens = given.min_tokens,
                      .noRepeat = given.no_repeat};
  checkBeam(options);
  if (given.end >= 0) {
    options.end = given.end;
  }
  int64_t limit = chooseLimit(state, given, text);
  if (options.minTokens > 0 && !options.end) {
    throw UserError("min_tokens: expected a token that ends a text, found none; set end, or set "
                    "min_tokens to 0");
  }
  if (options.minTokens >= limit) {
    throw UserError("min_tokens: expected fewer than the maximum of " + std::to_string(limit) +
                    " tokens, so that the end fits, found " + std::to_string(options.minTokens) +
                    "; lower it, or raise tokens");
  }
  if (capacity < limit) {
    throw UserError("capacity: expected room for the maximum of " + std::to_string(limit) +
                    " tokens, found " + std::to_string(capacity) +
                    "; give a longer array, or lower tokens");
  }
  state.refresh();
  state.requireWeights();
  state.executor().chooseBatch({});
  Predictor &predictor = state.takePredictor(given.no_cache == 0);
  bool isFinished = false;
  TextSink sink{
      .write = [](size_t, std::string_view) { return true; },
      .finish = [&](size_t, StopReason reason) { isFinished = reason == StopReason::StopText; }};
  TokenSpelling spelling{.ids = given.ids,
                         .spell = [](std::span<const int32_t>) { return std::string(); }};
  size_t prompt = text.tokens.size();
  searchTexts(state.executor(), predictor, {&text, 1}, limit, options, sink, spelling,
              endIfInterrupted);
  std::span<const int32_t> written = std::span(text.tokens).subspan(prompt);
  written = written.first(written.size() - (isFinished ? 1 : 0));
  std::ranges::copy(written, tokens);
  if (found) {
    writeResults(
        found,
        {.size = 0, .score = *text.score, .count = std::ssize(written), .is_finished = isFinished});
  }
}

/// Checks the places of results before the search. Throws UserError.
void requireResults(const int32_t *tokens, const sluice_found *found) {
  require(tokens, "tokens");
  if (found) {
    requireSize(found->size, sizeof *found);
  }
}

} // namespace

sluice_status sluice_search(sluice_model *model, const int32_t *prompt, int64_t count,
                            const sluice_search_options *options, int32_t *tokens, int64_t capacity,
                            sluice_found *found) {
  return guardModel(model, [&](LoadedModel &state) {
    requireResults(tokens, found);
    state.requireTokensAlone();
    sluice_search_options given = checkOptions(state, options);
    std::span<const int32_t> start = readPrompt(prompt, count);
    search(state, {{start.begin(), start.end()}}, given, tokens, capacity, found);
  });
}

sluice_status sluice_search_line(sluice_model *model, sluice_lines *lines, int64_t line,
                                 const int32_t *prompt, int64_t count,
                                 const sluice_search_options *options, int32_t *tokens,
                                 int64_t capacity, sluice_found *found) {
  return guardModel(model, [&](LoadedModel &state) {
    requireResults(tokens, found);
    requireInputLines(state, lines);
    sluice_search_options given = checkOptions(state, options);
    if (given.end != -1) {
      throw UserError("end: expected none (-1 in C, None in Python), as the line end ends a line, "
                      "found " +
                      std::to_string(given.end) + "; leave it out");
    }
    if (lines->lineEnd >= given.ids) {
      throw UserError("ids: expected more than the line end, " + std::to_string(lines->lineEnd) +
                      ", found " + std::to_string(given.ids) + "; 0 writes all ids");
    }
    given.end = lines->lineEnd;
    search(state, makeLineText(state, *lines, line, readTokens(prompt, count)), given, tokens,
           capacity, found);
  });
}
