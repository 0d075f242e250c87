// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Generate/BeamSearch.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Limits.h"

#include <algorithm>
#include <utility>

namespace sluice::runtime {
namespace {

/// Searches texts: active texts in blocks of `width` rows, and waiting texts.
class Search {
public:
  Search(Executor &executor, Predictor &predictor, std::span<Text> texts, int64_t limit,
         const BeamOptions &options, const TextSink &sink, const TokenSpelling &spelling,
         const std::function<void()> &beforeStep)
      : executor(executor), predictor(predictor), texts(texts), limit(limit), options(options),
        sink(sink), spelling(spelling), beforeStep(beforeStep),
        blocks(predictor.isCached() ? predictor.rows() / options.width : 1) {}

  void run();

private:
  struct Active {
    size_t text;
    int64_t block;
    Beam beam;
    std::vector<int64_t> rows; ///< of each hypothesis
  };
  void seat();
  std::span<const float> predict();
  void assignRows(Active &active);
  void finish(Active &active);

  Executor &executor;
  Predictor &predictor;
  std::span<Text> texts;
  const int64_t limit;
  const BeamOptions &options;
  const TextSink &sink;
  const TokenSpelling &spelling;
  const std::function<void()> &beforeStep;
  const int64_t blocks; ///< number of texts at once
  std::vector<Active> active;
  size_t waiting = 0; ///< the first text without rows
};

/// Assigns free blocks of rows to waiting texts.
void Search::seat() {
  for (int64_t block = 0; block < blocks && waiting < texts.size(); ++block) {
    if (std::ranges::find(active, block, &Active::block) != active.end()) {
      continue;
    }
    const Text &text = texts[waiting];
    int64_t first = block * options.width;
    for (int64_t row = first; predictor.isCached() && row < first + options.width; ++row) {
      predictor.begin(row, {}, block); // its hypotheses share the results of its named inputs
    }
    int64_t room = std::min(limit, getBeamRoom(executor.plan(), text));
    active.push_back({waiting++, block, Beam(options, text.tokens, room), {first}});
  }
}

/// Returns the logits after all hypotheses of all active texts. Without a cache, they are
/// recomputed in row 0, one after the other.
std::span<const float> Search::predict() {
  std::vector<Predictor::Turn> turns;
  std::vector<size_t> owners;
  for (const Active &each : active) {
    for (size_t i = 0; i < each.rows.size(); ++i) {
      int64_t row = predictor.isCached() ? each.rows[i] : 0;
      turns.push_back({row, each.beam.hypotheses()[i].tokens, &texts[each.text].given});
      owners.push_back(each.text);
    }
  }
  try {
    return predictLogits(executor, predictor, turns);
  } catch (const RoomError &error) {
    auto turn = std::ranges::find(turns, error.row, &Predictor::Turn::row);
    if (!predictor.isCached() || turn == turns.end()) {
      throw;
    }
    throw error.of("a hypothesis of text " +
                   std::to_string(owners[static_cast<size_t>(turn - turns.begin())]) + ", with " +
                   std::to_string(turn->text.size()) +
                   (spelling.isBytes() ? " bytes," : " tokens,"));
  }
}

/// Assigns a row to each hypothesis. The first one with some parent keeps the parent's row; the
/// states are copied for any other one, to a row of the block that no hypothesis uses.
void Search::assignRows(Active &each) {
  const std::vector<Beam::Hypothesis> &hypotheses = each.beam.hypotheses();
  std::vector<int64_t> before = std::exchange(each.rows, {});
  int64_t first = each.block * options.width;
  std::vector<bool> isUsed(static_cast<size_t>(options.width));
  std::vector<size_t> copies;
  each.rows.resize(hypotheses.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    each.rows[i] = before[hypotheses[i].parent];
    auto used = isUsed.begin() + (each.rows[i] - first);
    if (*used) {
      copies.push_back(i);
    }
    *used = true;
  }
  for (size_t i : copies) {
    auto unused = std::ranges::find(isUsed, false);
    *unused = true;
    int64_t row = first + (unused - isUsed.begin());
    if (predictor.isCached()) {
      predictor.copyRow(each.rows[i], row);
    }
    each.rows[i] = row;
  }
}

void Search::finish(Active &each) {
  Text &text = texts[each.text];
  size_t prompt = text.tokens.size();
  Beam::Continuation result = each.beam.best();
  text.tokens = std::move(result.tokens);
  text.drawn += static_cast<int64_t>(text.tokens.size() - prompt);
  text.score = result.score;
  std::span<const int32_t> written = text.tokens;
  written = written.first(written.size() - (result.isFinished ? 1 : 0));
  std::string bytes;
  for (size_t size = prompt + 1; size <= written.size(); ++size) {
    bytes += spelling.isBytes() ? toText(written.subspan(size - 1, 1))
                                : spelling.spell(written.first(size));
  }
  bool isRead = bytes.empty() || sink.write(each.text, bytes);
  if (sink.finish) {
    sink.finish(each.text, !isRead             ? StopReason::Reader
                           : result.isFinished ? StopReason::StopText
                                               : StopReason::Length);
  }
}

void Search::run() {
  int64_t vocabulary = executor.plan().model.vocabulary;
  while (true) {
    seat();
    if (active.empty()) {
      return;
    }
    if (beforeStep) {
      beforeStep();
    }
    std::span<const float> logits = predict();
    for (Active &each : active) {
      size_t count = each.rows.size() * static_cast<size_t>(vocabulary);
      each.beam.advance(logits.first(count), vocabulary, std::min(vocabulary, spelling.ids));
      logits = logits.subspan(count);
      if (each.beam.isDone()) {
        finish(each);
      } else {
        assignRows(each);
      }
    }
    std::erase_if(active, [](const Active &each) { return each.beam.isDone(); });
  }
}

} // namespace

int64_t getBeamRoom(const Plan &plan, const Text &text) {
  return std::min(text.room, plan.model.context + 1 - std::ssize(text.tokens));
}

void requireBeamRows(const Predictor &predictor, const BeamOptions &options) {
  if (!predictor.isCached() || options.width <= predictor.rows()) {
    return;
  }
  std::string width = std::to_string(options.width);
  throw UserError("--beam: expected at most " + std::to_string(predictor.rows()) +
                  ", the rows in which the artifact generates, found " + width + "; lower it, or " +
                  (options.width <= mostGenerationRows
                       ? "compile the spec with --generation-rows " + width
                       : "use sluice generate --no-cache, which needs no rows"));
}

void searchTexts(Executor &executor, Predictor &predictor, std::span<Text> texts, int64_t limit,
                 const BeamOptions &options, const TextSink &sink, const TokenSpelling &spelling,
                 const std::function<void()> &beforeStep) {
  checkBeam(options);
  requireBeamRows(predictor, options);
  for (const Text &text : texts) {
    checkContinues(executor, text.tokens, spelling.isBytes() ? "byte" : "token");
    if (std::min(limit, getBeamRoom(executor.plan(), text)) < 1) {
      throw UserError("--beam: expected a prompt that leaves room in the context of " +
                      std::to_string(executor.plan().model.context) + ", found one of " +
                      std::to_string(text.tokens.size()) + "; shorten it");
    }
  }
  Search(executor, predictor, texts, limit, options, sink, spelling, beforeStep).run();
}

} // namespace sluice::runtime
