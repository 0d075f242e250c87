// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of the C interface that continue texts.
#include "Generate.h"
#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Generate/Generator.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

using namespace sluice;
using namespace sluice::interface;
using namespace sluice::runtime;

namespace {

/// A text that is being generated, in a seat of its model.
struct GeneratedText {
  std::shared_ptr<LoadedModel> state; ///< null until the text has a seat
  SamplingOptions options;
  Text text;
  int64_t ids = 0, left = 0, seat = 0;
  std::optional<int32_t> lineEnd; ///< ends the text of a line
  uint64_t version = 0;           ///< of the weights that the states of the row were computed with

  GeneratedText() = default;
  GeneratedText(const GeneratedText &) = delete;
  GeneratedText &operator=(const GeneratedText &) = delete;
  ~GeneratedText() {
    if (state) {
      state->leaveSeat(options.cached, seat);
    }
  }
};

} // namespace

/// A call of sluice_next shares the text: another thread, or a function that the call runs, may
/// free the generator within.
struct sluice_generator {
  std::shared_ptr<GeneratedText> shared;
};

void sluice_init_sampling(sluice_sampling *sampling, size_t size) {
  if (!sampling) {
    return;
  }
  sluice_sampling defaults{};
  defaults.size = size;
  defaults.temperature = 1;
  std::memset(static_cast<void *>(sampling), 0, size);
  std::memcpy(static_cast<void *>(sampling), &defaults, std::min(size, sizeof defaults));
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

void interface::requireNotNegative(
    std::initializer_list<std::pair<const char *, int64_t>> options) {
  for (auto [name, value] : options) {
    if (value < 0) {
      throw UserError(std::string(name) + ": expected a number of at least 0, found " +
                      std::to_string(value) + "; give another");
    }
  }
}

int64_t interface::chooseIds(LoadedModel &state, int64_t ids) {
  int64_t vocabulary = state.plan().model.vocabulary;
  if (ids > vocabulary) {
    throw UserError("ids: expected at most the vocabulary, " + std::to_string(vocabulary) +
                    " ids, found " + std::to_string(ids) + "; 0 draws from all");
  }
  return ids == 0 ? vocabulary : ids;
}

std::span<const int32_t> interface::readPrompt(const int32_t *prompt, int64_t count) {
  std::span<const int32_t> tokens = readTokens(prompt, count);
  if (tokens.empty()) {
    throw UserError("prompt: expected at least one token to continue, found none; give one, such "
                    "as the id that begins a document");
  }
  return tokens;
}

Text interface::makeLineText(LoadedModel &state, const sluice_lines &lines, int64_t line,
                             std::span<const int32_t> prompt) {
  const InputLines &inputs = requireInputLines(state, &lines);
  if (line < 0 || line >= inputs.count()) {
    throw UserError("line: expected the number of a line from 0 to " +
                    std::to_string(inputs.count() - 1) + ", found " + std::to_string(line) +
                    "; number the lines from 0");
  }
  int64_t context = state.plan().model.context;
  if (std::ssize(prompt) >= context) {
    throw UserError("prompt: expected fewer tokens than the context of " + std::to_string(context) +
                    ", which holds the line with its prompt, found " +
                    std::to_string(prompt.size()) + "; shorten the prompt");
  }
  Text text{{lines.lineEnd}};
  text.tokens.insert(text.tokens.end(), prompt.begin(), prompt.end());
  text.given = inputs.at(line);
  text.room = context + 1 - std::ssize(text.tokens);
  return text;
}

/// Returns the caller's options, checked for the model.
static sluice_sampling checkOptions(LoadedModel &state, const sluice_sampling *sampling) {
  sluice_sampling given = readOptions(sampling);
  if (!sampling) {
    sluice_init_sampling(&given, sizeof given);
  }
  checkPredicts(state.plan(), state.executor().artifact().path());
  requireNotNegative({{"tokens", given.tokens}, {"ids", given.ids}, {"sample", given.sample}});
  given.ids = chooseIds(state, given.ids);
  return given;
}

/// Begins the continuation of `text` by at most text.room tokens.
static std::shared_ptr<GeneratedText> beginText(const std::shared_ptr<LoadedModel> &model,
                                                Text text, const sluice_sampling &given) {
  LoadedModel &state = *model;
  state.refresh();
  state.requireWeights();
  auto made = std::make_shared<GeneratedText>();
  made->options = readSampling(given);
  checkContinues(state.executor(), text.tokens, "token");
  int64_t most = given.tokens == 0 ? std::numeric_limits<int64_t>::max() : given.tokens;
  made->left = std::min(most, text.room);
  made->ids = given.ids;
  made->text = std::move(text);
  made->seat = state.takeSeat(made->options.cached);
  made->state = model;
  state.predictor(made->options.cached).begin(made->seat, {});
  made->version = state.version;
  return made;
}

sluice_status sluice_generate(sluice_model *model, const int32_t *prompt, int64_t count,
                              const sluice_sampling *sampling, sluice_generator **generator) {
  return guardModel(model, [&](LoadedModel &state) {
    require(generator, "generator");
    state.requireTokensAlone();
    sluice_sampling given = checkOptions(state, sampling);
    std::span<const int32_t> tokens = readPrompt(prompt, count);
    *generator = new sluice_generator{
        beginText(model->state, {{tokens.begin(), tokens.end()}, given.sample}, given)};
  });
}

sluice_status sluice_generate_line(sluice_model *model, sluice_lines *lines, int64_t line,
                                   const int32_t *prompt, int64_t count,
                                   const sluice_sampling *sampling, sluice_generator **generator) {
  return guardModel(model, [&](LoadedModel &state) {
    require(generator, "generator");
    requireInputLines(state, lines);
    sluice_sampling given = checkOptions(state, sampling);
    Text text = makeLineText(state, *lines, line, readTokens(prompt, count));
    text.sample = given.sample;
    std::shared_ptr<GeneratedText> made = beginText(model->state, std::move(text), given);
    made->lineEnd = lines->lineEnd;
    *generator = new sluice_generator{std::move(made)};
  });
}

sluice_status sluice_next(sluice_generator *generator, int32_t *token) {
  bool isOver = false;
  sluice_status status = guard([&] {
    require(generator, "generator");
    require(token, "token");
    std::shared_ptr<GeneratedText> current = generator->shared; // until the call ends
    std::shared_ptr<LoadedModel> kept = current->state;
    LoadedModel &state = *kept;
    if (!state.isOwn()) {
      throw UserError("expected a generator of this process, found one of the process that forked "
                      "it; load the artifact in this process");
    }
    LoadedModel::Lock lock(state);
    if (current->left == 0) {
      isOver = true;
      return;
    }
    endIfInterrupted();
    state.refresh();
    state.hasGradients = false;
    state.executor().chooseBatch({});
    Predictor &predictor = state.predictor(current->options.cached);
    if (current->version != state.version) {
      predictor.begin(current->seat, {});
      current->version = state.version;
    }
    Predictor::Turn turn{current->seat, current->text.tokens, &current->text.given};
    std::span<const float> logits = predictLogits(state.executor(), predictor, {&turn, 1});
    int32_t drawn =
        drawToken(current->text, logits.first(static_cast<size_t>(current->ids)), current->options);
    isOver = drawn == current->lineEnd;
    current->left = isOver ? 0 : current->left - 1;
    if (!isOver) {
      *token = drawn;
    }
  });
  return isOver ? SLUICE_END : status;
}

void sluice_free_generator(sluice_generator *generator) {
  if (!generator || !generator->shared->state->isOwn()) {
    return;
  }
  delete generator;
}
