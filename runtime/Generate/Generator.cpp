// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Generate/Generator.h"
#include "sluice/Runtime/Execute/Evaluator.h"

#include "sluice/Runtime/Tokenizer/Tokenizer.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

namespace sluice::runtime {

int64_t windowStart(int64_t size, int64_t start, int64_t context, int64_t period, int64_t least) {
  if (size - start <= context) {
    return start;
  }
  int64_t oldest = size - std::max(context / 2, least);
  int64_t aligned = (oldest + period - 1) / period * period;
  aligned = aligned <= size - least ? aligned : (size - least) / period * period;
  return size - aligned <= context ? aligned : oldest; // no multiple of `period` in a short context
}

//===----------------------------------------------------------------------===//
// Predictor
//===----------------------------------------------------------------------===//

Predictor::Predictor(Executor &executor, bool cached)
    : executor(executor), cached(cached && executor.hasStep()),
      windows(this->cached ? static_cast<size_t>(executor.plan().generation->rows) : 1) {
  if (!this->cached) {
    return;
  }
  executor.resetLines();
  for (const SegmentFacts &segments : executor.plan().segments) {
    if (!segments.closed.empty()) {
      closedBefore[&segments].resize(windows.size());
      closedAfter[segments.axis].assign(
          windows.size(),
          std::vector<int32_t>(static_cast<size_t>(executor.plan().model.context + 1), -1));
    }
  }
}

void Predictor::begin(int64_t row, const GenerationWindow &window, std::optional<int64_t> line) {
  windows.at(static_cast<size_t>(row)) = window;
  if (std::span<int32_t> lines = executor.lines(); cached && !lines.empty()) {
    lines[static_cast<size_t>(row)] = static_cast<int32_t>(line.value_or(row));
  }
}

/// Returns the row of the states of named inputs that belongs to a row.
int64_t Predictor::getLine(int64_t row) {
  std::span<int32_t> lines = executor.lines();
  return lines.empty() ? row : lines[static_cast<size_t>(row)];
}

std::span<const float> Predictor::predict(std::span<const Turn> turns) {
  const Plan &plan = executor.plan();
  int64_t period = plan.generation ? plan.generation->period : 1;
  logits.clear();
  for (const Turn &turn : turns) {
    GenerationWindow &window = windows.at(static_cast<size_t>(turn.row));
    int64_t from = windowStart(static_cast<int64_t>(turn.text.size()), window.start,
                               plan.model.context, period, plan.model.first + 1);
    bool moved = std::exchange(window.start, from) != from;
    if (cached) {
      catchUp(turn, moved);
    } else {
      std::span<const float> row = recompute(turn, from);
      logits.insert(logits.end(), row.begin(), row.end());
    }
  }
  if (cached) {
    step(turns);
    for (const Turn &turn : turns) {
      std::span<const float> row = executor.outputRow("next_logits", turn.row);
      logits.insert(logits.end(), row.begin(), row.end());
    }
  }
  return logits;
}

static const GivenLines noLines;

std::span<const float> Predictor::recompute(const Turn &turn, int64_t from) {
  std::span<const int32_t> window = turn.text.subspan(static_cast<size_t>(from));
  executor.inputs().write(0, turn.given ? *turn.given : noLines);
  std::copy(window.begin(), window.end(), executor.tokens().begin());
  executor.scalarI64("length") = static_cast<int64_t>(window.size());
  executor.scalarI64("rows") = 1;
  executor.run("predict");
  return executor.outputRow("logits", 0);
}

/// Brings the states of a row to the window without its newest token, which the next step reads.
void Predictor::catchUp(const Turn &turn, bool moved) {
  GenerationWindow &window = windows[static_cast<size_t>(turn.row)];
  auto size = static_cast<int64_t>(turn.text.size()) - window.start, last = size - 1;
  // A step reads all weights for one token; a prefill reads them once for all tokens.
  constexpr int64_t fewSteps = 8;
  if (moved || window.seen < 0 || window.seen > last || last - window.seen > fewSteps) {
    refill(turn, turn.text.subspan(static_cast<size_t>(window.start), static_cast<size_t>(last)));
    window.seen = last;
  }
  while (window.seen < last) {
    Turn earlier = turn;
    earlier.text = turn.text.first(static_cast<size_t>(window.start + window.seen) + 1);
    step({&earlier, 1});
  }
}

/// Recomputes the states of a row from `tokens`.
void Predictor::refill(const Turn &turn, std::span<const int32_t> tokens) {
  std::span<int64_t> take = executor.take();
  std::ranges::fill(take, 0);
  int64_t &own = take[static_cast<size_t>(turn.row)];
  own = 1;
  executor.run("reset");
  for (auto &[axis, counts] : closedAfter) {
    std::ranges::fill(counts[static_cast<size_t>(turn.row)], -1);
  }
  const Plan &plan = executor.plan();
  if (tokens.empty() && plan.given.empty()) {
    return;
  }
  executor.promptInputs().write(0, turn.given ? *turn.given : noLines);
  std::ranges::copy(tokens, executor.prompt().begin());
  std::ranges::copy(tokens, executor.text().begin() + turn.row * (plan.model.context + 1));
  // Without tokens, only the named inputs are stored, of a prompt that has them.
  auto count = static_cast<int64_t>(tokens.size());
  own = count == 0 ? -1 : count;
  executor.scalarI64("length") = std::max<int64_t>(1, count);
  executor.scalarI64("rows") = 1;
  executor.run("prefill");
}

void Predictor::copyRow(int64_t from, int64_t to) {
  GenerationWindow &source = windows.at(static_cast<size_t>(from));
  GenerationWindow &target = windows.at(static_cast<size_t>(to));
  auto stride = static_cast<size_t>(executor.plan().model.context + 1);
  auto seen = static_cast<size_t>(std::max<int64_t>(source.seen, 0));
  std::span<int32_t> own = executor.text().subspan(static_cast<size_t>(from) * stride, seen);
  std::span<int32_t> other = executor.text().subspan(static_cast<size_t>(to) * stride, seen);
  int64_t common = 0; // number of first tokens that both texts share
  if (target.start == source.start && target.seen <= source.seen) {
    auto known = static_cast<size_t>(std::max<int64_t>(target.seen, 0));
    common = std::ranges::mismatch(own.first(known), other.first(known)).in1 - own.begin();
  }
  std::map<std::string, StateClock> clocks; // by axis of segments; the tokens' is empty
  clocks[""] = {common - 1, source.seen - 1, target.seen - 1};
  for (const auto &[segments, before] : closedBefore) {
    std::vector<std::vector<int32_t>> &counts = closedAfter.at(segments->axis);
    clocks[segments->axis] = {counts[static_cast<size_t>(from)][static_cast<size_t>(common)],
                              getClosedSegments(*segments, from), getClosedSegments(*segments, to)};
    counts[static_cast<size_t>(to)] = counts[static_cast<size_t>(from)];
  }
  if (std::span<int32_t> lines = executor.lines(); !lines.empty()) {
    lines[static_cast<size_t>(to)] = lines[static_cast<size_t>(from)];
  }
  for (const auto &[name, state] : executor.plan().generation->states) {
    if (state.isByLine) {
      continue;
    }
    bool hasClock = common > 0 && state.counts && clocks.at(state.counts->segments).common >= 0;
    hasClock ? copyRows(state, from, to, clocks.at(state.counts->segments))
             : executor.copyState(state, from, to);
  }
  std::ranges::copy(own, other.begin());
  target = source;
}

/// Copies the rows of a state that are not common to both texts. If the other text has more rows
/// than the ring and the text, rows that both had are overwritten, and the whole ring is copied.
void Predictor::copyRows(const State &state, int64_t from, int64_t to, const StateClock &clock) {
  const StateCounts &counts = *state.counts;
  int64_t rows = counts.after(clock.own), stored = state.region.shape[1];
  int64_t begin = counts.after(clock.other) > std::max(rows, stored) ? rows - stored
                                                                     : counts.after(clock.common);
  executor.copyState(state, from, to, begin, rows);
}

int32_t Predictor::getClosedSegments(const SegmentFacts &segments, int64_t row) {
  int32_t count = 0;
  const State &state = executor.plan().generation->states.at(segments.closed);
  std::span<uint8_t> bytes =
      executor.stateRow(state, state.isByLine ? getLine(row) : row, Access::Read);
  std::memcpy(&count, bytes.data(), sizeof count);
  return count;
}

std::vector<Predictor::SegmentProgress> Predictor::segments(int64_t row) {
  std::vector<SegmentProgress> all;
  for (const auto &[segments, before] : closedBefore) {
    int32_t now = getClosedSegments(*segments, row);
    all.push_back({segments->axis, now, now > before.at(static_cast<size_t>(row))});
  }
  return all;
}

/// Runs a decode step that appends the newest token of each turn.
void Predictor::step(std::span<const Turn> turns) {
  std::span<int64_t> take = executor.take();
  std::ranges::fill(take, 0);
  for (const Turn &turn : turns) {
    GenerationWindow &window = windows[static_cast<size_t>(turn.row)];
    int64_t at = turn.row * (executor.plan().model.context + 1) + window.seen++;
    executor.text()[static_cast<size_t>(at)] = turn.text.back();
    take[static_cast<size_t>(turn.row)] = 1;
    for (const auto &[name, input] : executor.plan().given) {
      std::span<int64_t> counts = executor.textCounts(name);
      if (counts.empty()) {
        continue; // no step reads its rows, or it has no count of its own
      }
      auto line = turn.given ? turn.given->find(name) : noLines.end();
      bool isThere = turn.given && line != turn.given->end();
      counts[static_cast<size_t>(getLine(turn.row))] =
          isThere ? std::min(std::ssize(line->second), input.capacity) : 0;
    }
  }
  for (auto &[segments, before] : closedBefore) {
    for (size_t row = 0; row < before.size(); ++row) {
      before[row] = getClosedSegments(*segments, static_cast<int64_t>(row));
    }
    for (const Turn &turn : turns) {
      auto row = static_cast<size_t>(turn.row);
      auto seen = static_cast<size_t>(windows[row].seen - 1); // before this step
      closedAfter.at(segments->axis)[row][seen] = before[row];
    }
  }
  executor.run("step");
}

std::span<const float> predictLogits(Executor &executor, Predictor &predictor,
                                     std::span<const Predictor::Turn> turns) {
  auto vocabulary = static_cast<size_t>(executor.plan().model.vocabulary);
  std::span<const float> logits = predictor.predict(turns);
  if (logits.size() != turns.size() * vocabulary) {
    throw UserError(executor.artifact().path() + ": expected logits for " +
                    std::to_string(vocabulary) + " ids, found " +
                    std::to_string(logits.size() / turns.size()) + "; compile the spec again");
  }
  return logits;
}

//===----------------------------------------------------------------------===//
// Texts
//===----------------------------------------------------------------------===//

namespace {

/// Continues texts: active texts in rows, and waiting texts.
class Writer {
public:
  Writer(Executor &executor, Predictor &predictor, std::span<Text> texts, int64_t count,
         const SamplingOptions &options, const std::vector<std::string> &stops,
         const TextSink &sink, const TokenSpelling &spelling)
      : executor(executor), predictor(predictor), texts(texts), count(count), options(options),
        stops(stops), sink(sink), spelling(spelling) {}

  void run();

private:
  struct Live {
    size_t text = 0;
    int64_t row = 0, written = 0;
    StopFilter filter;
    bool isDone = false;
    std::string incomplete = {}; ///< start of a character
  };
  void seat();
  std::span<const float> predict(std::span<const Predictor::Turn> turns);
  void draw(Live &live, std::span<const float> logits);
  void finish(Live &live, StopReason reason);

  Executor &executor;
  Predictor &predictor;
  std::span<Text> texts;
  const int64_t count;
  const SamplingOptions &options;
  const std::vector<std::string> &stops;
  const TextSink &sink;
  const TokenSpelling &spelling;
  std::vector<Live> living;
  size_t waiting = 0; ///< the first text without a row
};

/// Assigns free rows to waiting texts.
void Writer::seat() {
  std::vector<bool> taken(static_cast<size_t>(predictor.rows()));
  for (const Live &live : living) {
    taken[static_cast<size_t>(live.row)] = true;
  }
  for (int64_t row = 0; row < predictor.rows() && waiting < texts.size(); ++row) {
    if (taken[static_cast<size_t>(row)]) {
      continue;
    }
    if (waiting >= taken.size()) { // the row belonged to another text
      predictor.begin(row, {});
    }
    living.push_back({waiting++, row, 0, StopFilter(stops)});
  }
}

void Writer::finish(Live &live, StopReason reason) {
  live.isDone = true;
  std::string rest = std::exchange(live.incomplete, {}) + live.filter.flush();
  if (!rest.empty() && reason != StopReason::StopText && !sink.write(live.text, rest)) {
    reason = StopReason::Reader;
  }
  if (sink.finish) {
    sink.finish(live.text, reason);
  }
}

void Writer::draw(Live &live, std::span<const float> logits) {
  Text &text = texts[live.text];
  int32_t token = drawToken(text, logits, options);
  ++live.written;
  std::string free;
  for (char byte : spelling.isBytes() ? toText({&token, 1}) : spelling.spell(text.tokens)) {
    if (!live.filter.found()) {
      free += live.filter.push(static_cast<uint8_t>(byte));
    }
  }
  if (spelling.holdsCharacters) {
    free.insert(0, live.incomplete);
    size_t whole = measureWholeCharacters(free);
    live.incomplete = free.substr(whole);
    free.resize(whole);
  }
  if (!free.empty() && !sink.write(live.text, free)) {
    finish(live, StopReason::Reader);
  } else if (live.filter.found()) {
    finish(live, StopReason::StopText);
  } else if (live.written == std::min(count, text.room)) {
    finish(live, StopReason::Length);
  }
}

std::span<const float> Writer::predict(std::span<const Predictor::Turn> turns) {
  try {
    return predictLogits(executor, predictor, turns);
  } catch (const RoomError &error) {
    auto live = std::ranges::find(living, error.row, &Live::row);
    if (live == living.end()) { // without a cache, in the first row
      throw;
    }
    throw error.of("text " + std::to_string(live->text) + ", with " +
                   std::to_string(texts[live->text].tokens.size()) +
                   (spelling.isBytes() ? " bytes," : " tokens,"));
  }
}

void Writer::run() {
  auto vocabulary = static_cast<size_t>(executor.plan().model.vocabulary);
  auto ids = std::min(vocabulary, static_cast<size_t>(spelling.ids));
  std::vector<Predictor::Turn> turns;
  while (true) {
    seat();
    if (living.empty()) {
      return;
    }
    turns.clear();
    for (const Live &live : living) {
      turns.push_back({live.row, texts[live.text].tokens, &texts[live.text].given});
    }
    std::span<const float> logits = predict(turns);
    for (size_t i = 0; sink.read && i < living.size(); ++i) {
      std::span<const int32_t> text = turns[i].text;
      sink.read(living[i].text, static_cast<int64_t>(text.size()) - 1, text.back(),
                predictor.segments(living[i].row));
    }
    for (size_t i = 0; i < living.size(); ++i) {
      draw(living[i], logits.subspan(i * vocabulary, ids));
    }
    std::erase_if(living, [](const Live &live) { return live.isDone; });
  }
}

} // namespace

int32_t drawToken(Text &text, std::span<const float> logits, const SamplingOptions &options) {
  double uniform = drawUniform(options.seed, text.sample, text.drawn++);
  auto token = static_cast<int32_t>(pickToken(logits, options, uniform, text.tokens));
  text.tokens.push_back(token);
  return token;
}

TokenSpelling spellIds(int64_t vocabulary) {
  return {vocabulary,
          [](std::span<const int32_t> text) { return std::to_string(text.back()) + " "; }};
}

TokenSpelling spellText(const std::shared_ptr<const TextEncoder> &encoder) {
  return {encoder->size(),
          [encoder](std::span<const int32_t> text) { // a token may begin with an implied space
            std::span<const int32_t> last = text.last(std::min<size_t>(text.size(), 2));
            return encoder->decode(last).substr(
                encoder->decode(last.first(last.size() - 1)).size());
          },
          true};
}

std::vector<int32_t> parseTokenIds(const std::string &flag, std::string_view text,
                                   int64_t vocabulary) {
  constexpr std::string_view spaces = " \t\n\r";
  std::vector<int32_t> ids;
  for (size_t at = text.find_first_not_of(spaces); at < text.size();
       at = text.find_first_not_of(spaces, at)) {
    size_t end = std::min(text.find_first_of(spaces, at), text.size());
    std::string_view word = text.substr(at, end - at);
    int32_t id = -1;
    auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || rest != word.data() + word.size() || id < 0 || id >= vocabulary) {
      throw UserError(flag + ": word " + std::to_string(ids.size() + 1) +
                      ": expected a token id from 0 to " + std::to_string(vocabulary - 1) +
                      ", found " + quote(word) + "; separate ids by spaces, as in \"5 0 17\"");
    }
    ids.push_back(id);
    at = end;
  }
  return ids;
}

std::string toText(std::span<const int32_t> tokens) {
  std::string text(tokens.size(), 0);
  std::ranges::transform(tokens, text.begin(), [](int32_t token) { return char(token); });
  return text;
}

std::vector<int32_t> toTokens(std::string_view text) {
  std::vector<int32_t> tokens(text.size());
  std::ranges::transform(text, tokens.begin(), [](char byte) { return uint8_t(byte); });
  return tokens;
}

void checkContinues(const Executor &executor, std::span<const int32_t> prompt,
                    const std::string &unit) {
  checkPredicts(executor.plan(), executor.artifact().path());
  const ModelFacts &model = executor.plan().model;
  if (model.group > 1) {
    throw UserError(executor.artifact().path() +
                    ": expected a model that predicts the next token, found one of groups of " +
                    std::to_string(model.group) +
                    " tokens, which predicts the bag of the next group, not its order; upsample "
                    "what the head reads, and compile the spec again");
  }
  checkPrompt(prompt, model.vocabulary, "the prompt", unit);
  if (prompt.empty()) {
    throw UserError("expected a prompt of at least one " + unit + ", found none");
  }
  if (static_cast<int64_t>(prompt.size()) <= model.first) {
    throw UserError("expected a prompt of at least " + std::to_string(model.first + 1) + " " +
                    unit + "s, as the model scores no row before that of token " +
                    std::to_string(model.first) + ", found " + std::to_string(prompt.size()) +
                    "; give a longer one");
  }
}

void writeTexts(Executor &executor, Predictor &predictor, std::span<Text> texts, int64_t count,
                const SamplingOptions &options, const std::vector<std::string> &stops,
                const TextSink &sink, const TokenSpelling &spelling) {
  checkSampling(options);
  for (const Text &text : texts) {
    checkContinues(executor, text.tokens, spelling.isBytes() ? "byte" : "token");
  }
  if (count > 0) {
    Writer(executor, predictor, texts, count, options, stops, sink, spelling).run();
    return;
  }
  for (size_t i = 0; sink.finish && i < texts.size(); ++i) {
    sink.finish(i, StopReason::Length);
  }
}

void scoreTexts(Executor &executor, Predictor &predictor, std::span<Scored> texts) {
  auto vocabulary = static_cast<size_t>(executor.plan().model.vocabulary);
  auto rows = static_cast<size_t>(predictor.rows());
  for (; !texts.empty(); texts = texts.subspan(std::min(rows, texts.size()))) {
    std::span<Scored> batch = texts.first(std::min(rows, texts.size()));
    for (size_t row = 0; row < batch.size(); ++row) {
      predictor.begin(static_cast<int64_t>(row), {});
    }
    while (true) {
      std::vector<Predictor::Turn> turns;
      for (size_t row = 0; row < batch.size(); ++row) {
        Scored &text = batch[row];
        if (size_t known = text.first + text.nats.size(); known < text.tokens.size()) {
          turns.push_back(
              {static_cast<int64_t>(row), std::span(text.tokens).first(known), &text.given});
        }
      }
      if (turns.empty()) {
        break;
      }
      std::span<const float> logits = predictLogits(executor, predictor, turns);
      for (size_t i = 0; i < turns.size(); ++i) {
        Scored &text = batch[static_cast<size_t>(turns[i].row)];
        text.nats.push_back(
            computeSurprise(logits.subspan(i * vocabulary, vocabulary),
                            static_cast<size_t>(text.tokens[turns[i].text.size()])));
      }
    }
  }
}

void generate(Executor &executor, std::string_view prompt, int64_t count,
              const SamplingOptions &options, const std::function<bool(uint8_t)> &emit,
              const std::shared_ptr<const TextEncoder> &encoder) {
  Text text{encoder ? encoder->encode(prompt) : toTokens(prompt)};
  Predictor predictor(executor, options.cached);
  auto write = [&](size_t, std::string_view bytes) {
    return std::ranges::all_of(bytes, [&](char byte) { return emit(static_cast<uint8_t>(byte)); });
  };
  writeTexts(executor, predictor, {&text, 1}, count, options, {}, {write},
             encoder ? spellText(encoder) : TokenSpelling());
}

} // namespace sluice::runtime
