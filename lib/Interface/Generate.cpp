// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of the C interface that continue texts.
#include "Lines.h"
#include "sluice/Runtime/Generate/Generator.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

using namespace sluice;
using namespace sluice::interface;
using namespace sluice::runtime;

struct sluice_generator {
  std::shared_ptr<LoadedModel> state;
  SamplingOptions options;
  Text text;
  int64_t ids = 0, left = 0, seat = 0;
  std::optional<int32_t> lineEnd; ///< ends the text of a line
  uint64_t version = 0;           ///< of the weights that the states of the row were computed with
  bool isDrawing = false, isFreed = false; ///< freed by a function that its own call runs
};

void sluice_init_sampling(sluice_sampling *sampling) {
  if (sampling) {
    *sampling = {};
    sampling->size = sizeof(sluice_sampling);
    sampling->temperature = 1;
  }
}

static SamplingOptions readSampling(const sluice_sampling &given) {
  SamplingOptions options;
  options.temperature = given.temperature;
  options.topK = given.top_k;
  options.topP = given.top_p == 0 ? 1 : given.top_p;
  options.minP = given.min_p;
  options.repetitionPenalty = given.repetition_penalty == 0 ? 1 : given.repetition_penalty;
  options.seed = given.seed;
  options.cached = given.no_cache == 0;
  checkSampling(options);
  return options;
}

/// Returns the caller's options, checked for the model.
static sluice_sampling checkOptions(LoadedModel &state, const sluice_sampling *sampling) {
  sluice_sampling given = readOptions(sampling);
  if (!sampling) {
    sluice_init_sampling(&given);
  }
  checkPredicts(state.plan(), state.executor().artifact().path());
  int64_t vocabulary = state.plan().model.vocabulary;
  for (auto [name, value] :
       {std::pair("tokens", given.tokens), {"ids", given.ids}, {"sample", given.sample}}) {
    if (value < 0) {
      throw UserError(std::string(name) + ": expected a number of at least 0, found " +
                      std::to_string(value) + "; give another");
    }
  }
  if (given.ids > vocabulary) {
    throw UserError("ids: expected at most the vocabulary, " + std::to_string(vocabulary) +
                    " ids, found " + std::to_string(given.ids) + "; 0 draws from all");
  }
  return given;
}

/// Returns a generator that continues `text` by at most text.room tokens.
static std::unique_ptr<sluice_generator> beginText(const std::shared_ptr<LoadedModel> &model,
                                                   Text text, const sluice_sampling &given) {
  LoadedModel &state = *model;
  state.refresh();
  state.requireWeights();
  auto made = std::make_unique<sluice_generator>();
  made->options = readSampling(given);
  checkContinues(state.executor(), text.tokens, "token");
  int64_t most = given.tokens == 0 ? std::numeric_limits<int64_t>::max() : given.tokens;
  made->left = std::min(most, text.room);
  made->ids = given.ids == 0 ? state.plan().model.vocabulary : given.ids;
  made->text = std::move(text);
  made->seat = state.takeSeat(made->options.cached);
  state.predictor(made->options.cached).begin(made->seat, {});
  made->version = state.version;
  made->state = model;
  return made;
}

sluice_status sluice_generate(sluice_model *model, const int32_t *prompt, int64_t count,
                              const sluice_sampling *sampling, sluice_generator **generator) {
  return guardModel(model, [&](LoadedModel &state) {
    require(generator, "generator");
    state.requireTokensAlone();
    sluice_sampling given = checkOptions(state, sampling);
    std::span<const int32_t> tokens = readTokens(prompt, count);
    if (tokens.empty()) {
      throw UserError("prompt: expected at least one token to continue, found none; give one, such "
                      "as the id that begins a document");
    }
    *generator =
        beginText(model->state, {{tokens.begin(), tokens.end()}, given.sample}, given).release();
  });
}

sluice_status sluice_generate_line(sluice_model *model, sluice_lines *lines, int64_t line,
                                   const int32_t *prompt, int64_t count,
                                   const sluice_sampling *sampling, sluice_generator **generator) {
  return guardModel(model, [&](LoadedModel &state) {
    require(generator, "generator");
    const InputLines &inputs = requireInputLines(state, lines);
    sluice_sampling given = checkOptions(state, sampling);
    if (line < 0 || line >= inputs.count()) {
      throw UserError("line: expected the number of a line from 0 to " +
                      std::to_string(inputs.count() - 1) + ", found " + std::to_string(line) +
                      "; number the lines from 0");
    }
    std::span<const int32_t> tokens = readTokens(prompt, count);
    int64_t context = state.plan().model.context;
    if (std::ssize(tokens) >= context) {
      throw UserError("prompt: expected fewer tokens than the context of " +
                      std::to_string(context) + ", which holds the line with its prompt, found " +
                      std::to_string(tokens.size()) + "; shorten the prompt");
    }
    Text text{{lines->lineEnd}, given.sample};
    text.tokens.insert(text.tokens.end(), tokens.begin(), tokens.end());
    text.given = inputs.at(line);
    text.room = context + 1 - std::ssize(text.tokens);
    std::unique_ptr<sluice_generator> made = beginText(model->state, std::move(text), given);
    made->lineEnd = lines->lineEnd;
    *generator = made.release();
  });
}

sluice_status sluice_next(sluice_generator *generator, int32_t *token) {
  bool isOver = false, isFreed = false;
  sluice_status status = guard([&] {
    require(generator, "generator");
    require(token, "token");
    std::shared_ptr<LoadedModel> kept = generator->state; // until the call ends
    LoadedModel &state = *kept;
    if (!state.isOwn()) {
      throw UserError("expected a generator of this process, found one of the process that forked "
                      "it; load the artifact in this process");
    }
    LoadedModel::Lock lock(state);
    if (generator->left == 0) {
      isOver = true;
      return;
    }
    generator->isDrawing = true;
    try {
      endIfInterrupted();
    } catch (...) {
      generator->isDrawing = false;
      isFreed = generator->isFreed;
      throw;
    }
    generator->isDrawing = false;
    isFreed = generator->isFreed;
    state.refresh();
    state.hasGradients = false;
    state.executor().chooseBatch({});
    Predictor &predictor = state.predictor(generator->options.cached);
    if (generator->version != state.version) {
      predictor.begin(generator->seat, {});
      generator->version = state.version;
    }
    Predictor::Turn turn{generator->seat, generator->text.tokens, &generator->text.given};
    std::span<const float> logits = predictLogits(state.executor(), predictor, {&turn, 1});
    int32_t drawn = drawToken(generator->text, logits.first(static_cast<size_t>(generator->ids)),
                              generator->options);
    isOver = drawn == generator->lineEnd;
    generator->left = isOver ? 0 : generator->left - 1;
    if (!isOver) {
      *token = drawn;
    }
  });
  if (isFreed) {
    sluice_free_generator(generator);
  }
  return isOver ? SLUICE_END : status;
}

void sluice_free_generator(sluice_generator *generator) {
  if (!generator || !generator->state->isOwn()) {
    return;
  }
  if (generator->isDrawing && generator->state->isLockedByThread()) {
    generator->isFreed = true; // sluice_next frees it
    return;
  }
  generator->state->leaveSeat(generator->options.cached, generator->seat);
  delete generator;
}
