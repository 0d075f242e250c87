// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Execute/Evaluator.h"

#include "BatchNumbers.h"
#include "sluice/Runtime/Data/Labels.h"
#include "sluice/Runtime/Data/Sources.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/TextPieces.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace sluice::runtime {

nlohmann::json EvaluationResult::lossesByName() const {
  nlohmann::json named = nlohmann::json::object();
  for (const auto &[name, nats] : losses) {
    named[name] = nats;
  }
  return named;
}
/// Returns bits per unit; empty if there is no unit, or their number is unknown.
static std::optional<double> computeBits(double nats, std::optional<int64_t> units) {
  return units.value_or(0) > 0
             ? std::optional(nats / std::numbers::ln2 / static_cast<double>(*units))
             : std::nullopt;
}

std::optional<double> FileScore::bitsPerUnit() const {
  return computeBits(nats, chunks.value_or(tokens));
}
std::optional<double> FileScore::bitsPerByte() const { return computeBits(nats, bytes); }
std::optional<double> EvaluationResult::bitsPerUnit() const {
  return computeBits(nats, countUnits());
}
std::optional<double> EvaluationResult::bitsPerByte() const { return computeBits(nats, bytes); }
std::optional<double> EvaluationResult::bitsPerCharacter() const {
  return computeBits(nats, characters);
}
double EvaluationResult::wordPerplexity() const {
  return std::exp(nats / static_cast<double>(words));
}
double EvaluationResult::perplexity() const {
  return std::exp(nats / static_cast<double>(countUnits()));
}

std::vector<Window> cutWindows(int64_t tokens, int64_t window, int64_t stride) {
  std::vector<Window> windows;
  int64_t scoredTo = 0; // tokens 1 .. scoredTo are scored
  for (int64_t start = 0; scoredTo < tokens - 1; start += stride) {
    int64_t length = std::min(window, tokens - 1 - start);
    windows.push_back({start, length, scoredTo - start});
    scoredTo = start + length;
  }
  return windows;
}

namespace {

/// Nats of one loss over `rows` scored rows.
struct LossSum {
  double nats = 0;
  int64_t rows = 0;
};

/// Returns the number of rows of `counted` that the model counts among the rows that text `row` of
/// a batch scores, from `first` on.
int64_t countRows(const BatchNumbers &numbers, const CountedLoss &counted, size_t row,
                  const Window &window, int64_t first) {
  std::span<const float> counts = numbers.row(counted.rows, row);
  int64_t rows = 0;
  for (int64_t p = std::max(window.firstScored, first); p < window.length; ++p) {
    rows += counts[static_cast<size_t>(p)] > 0 ? 1 : 0;
  }
  return rows;
}

/// Adds the scored rows of a batch of windows to the sums of each loss.
void addLosses(const Plan &plan, const BatchNumbers &numbers, std::span<const Window> batch,
               std::vector<LossSum> &sums) {
  const std::vector<LossFacts> &losses = plan.losses;
  for (size_t i = 0; i < losses.size(); ++i) {
    const CountedLoss *counted = plan.findCounted(losses[i].name);
    for (size_t row = 0; row < batch.size(); ++row) {
      std::span<const float> nats = numbers.row(losses[i].rows, row);
      int64_t first = std::max(batch[row].firstScored, losses[i].first);
      for (int64_t p = first; p < batch[row].length; ++p) {
        sums[i].nats += nats[static_cast<size_t>(p)];
        sums[i].rows += counted ? 0 : 1;
      }
      sums[i].rows += counted ? countRows(numbers, *counted, row, batch[row], first) : 0;
    }
  }
}

/// Adds the rows of a batch that the model's loss is a mean over, if the model counts them; returns
/// their number.
int64_t addChunks(const Plan &plan, const BatchNumbers &numbers, std::span<const Window> batch,
                  EvaluationResult &result) {
  const CountedLoss *counted = plan.findCounted();
  int64_t chunks = 0;
  for (size_t row = 0; counted && row < batch.size(); ++row) {
    chunks += countRows(numbers, *counted, row, batch[row], plan.model.first);
  }
  result.chunks = counted ? std::optional(result.chunks.value_or(0) + chunks) : std::nullopt;
  return chunks;
}

/// Checks for a loss on labels or distributions that were not given. The head's loss is always
/// computed from the tokens.
bool lacksLabels(const Plan &plan, const LossFacts &facts, const LabelFiles *labels) {
  const std::string &loss = facts.name;
  if (!facts.target.empty() && &facts != &plan.losses.front()) {
    return !(labels && labels->hasNumbers(facts.target));
  }
  return std::ranges::any_of(getLabelNames(plan), [&](const std::string &name) {
    return loss == name + ".labels" && !(labels && labels->has(name));
  });
}

void addMeans(Executor &executor, const std::vector<LossSum> &sums, const LabelFiles *labels,
              EvaluationResult &result) {
  if (sums.empty() && result.chunks) { // the only loss
    result.counted[executor.plan().findCounted()->loss] = *result.chunks;
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    const LossFacts &loss = executor.plan().losses[i];
    bool isCounted = executor.plan().findCounted(loss.name);
    if (isCounted) {
      result.counted[loss.name] = sums[i].rows;
    }
    if (lacksLabels(executor.plan(), loss, labels) || (isCounted && sums[i].rows == 0)) {
      continue;
    }
    double rows = static_cast<double>(std::max<int64_t>(1, sums[i].rows));
    result.losses.emplace_back(loss.name, sums[i].nats / rows);
  }
}

/// Runs one batch of windows. A short window is padded: in a causal model no row depends on later
/// tokens, so its losses are bitwise unchanged.
void runBatch(Executor &executor, const ByteFile &file, const WindowBatch &batch,
              const LabelFiles *labels) {
  std::span<int32_t> tokens = executor.tokens();
  int64_t rowTokens = executor.plan().model.context + 1;
  auto shorter = [](const Window &a, const Window &b) { return a.length < b.length; };
  int64_t longest = std::ranges::max_element(batch.windows, shorter)->length;
  for (size_t row = 0; row < batch.windows.size(); ++row) {
    const Window &window = batch.windows[row];
    auto count = static_cast<size_t>(window.length + 1);
    std::span<int32_t> own = tokens.subspan(row * static_cast<size_t>(rowTokens));
    file.readTokens(window.start, own.first(count));
    std::fill_n(own.begin() + window.length + 1, longest - window.length, 0);
    if (labels) {
      labels->write(batch.file, window.start, window.length, static_cast<int64_t>(row),
                    executor.inputs());
    }
  }
  executor.scalarI64("length") = longest;
  executor.scalarI64("rows") = static_cast<int64_t>(batch.windows.size());
  try {
    executor.run("evaluate");
  } catch (const RoomError &error) {
    const Window &window = batch.windows[static_cast<size_t>(error.row)];
    throw error.of(file.path.string() + ": the window of " +
                   (file.isText() ? "bytes " : "tokens ") + std::to_string(window.start) + " to " +
                   std::to_string(window.start + window.length - 1));
  }
}

/// Returns the sum over the scored rows of a batch of windows, in order.
double sumBatch(const BatchNumbers &numbers, std::span<const Window> batch, int64_t unscored,
                const NumberSink &sink, int64_t &scored) {
  double nats = 0;
  for (size_t row = 0; row < batch.size(); ++row) {
    std::span<const float> losses = numbers.row("losses", row);
    int64_t first = std::max(batch[row].firstScored, unscored),
            count = std::max<int64_t>(0, batch[row].length - first);
    losses = losses.subspan(static_cast<size_t>(count > 0 ? first : 0), static_cast<size_t>(count));
    nats = std::accumulate(losses.begin(), losses.end(), nats);
    scored += count;
    if (sink) {
      sink(losses);
    }
  }
  return nats;
}

/// Counts words in the bytes [from, to), see EvaluationResult::words.
int64_t countWords(const FileContents &bytes, size_t from, size_t to) {
  int64_t count = 0;
  bool inWord = false;
  bytes.forEachPiece(
      [&](size_t, std::span<const uint8_t> scored) {
        for (uint8_t byte : scored) {
          bool isSpace = byte == ' ' || (byte >= '\t' && byte <= '\r');
          count += (byte == '\n' ? 1 : 0) + (!isSpace && !inWord ? 1 : 0);
          inWord = !isSpace;
        }
      },
      from, to);
  return count;
}

/// Adds the number of characters in the scored bytes [from, to) of a text, unless the number is
/// already unknown. `where` names the text.
void addCharacters(EvaluationResult &result, const FileContents &bytes, int64_t from, int64_t to,
                   const std::string &where) {
  if (!result.noCharacters.empty()) {
    return;
  }
  std::vector<uint8_t> piece;
  auto read = [&](size_t start) {
    piece = bytes.read(start, FileContents::pieceBytes);
    return std::string_view(reinterpret_cast<const char *>(piece.data()), piece.size());
  };
  CharacterCount count =
      countCharacters(read, static_cast<size_t>(from), static_cast<size_t>(std::max(from, to)));
  if (count.invalid) {
    result.noCharacters = where + ": byte " + std::to_string(*count.invalid) + " is not UTF-8";
  }
  result.characters = result.characters.value_or(0) + count.characters;
}

/// Removes the number of characters, and sets the reason, if it is not meaningful.
void judgeCharacters(EvaluationResult &result, const ModelFacts &model) {
  if (model.group > 1) {
    result.noCharacters = "the model predicts bags of tokens, not a text";
  } else if (result.noCharacters.empty() && result.characters.value_or(0) == 0) {
    result.noCharacters = "no character ends among the scored bytes";
  }
  if (!result.noCharacters.empty()) {
    result.characters.reset();
  }
}

} // namespace

std::string nameLossUnit(const Plan &plan, bool isText) {
  return plan.findCounted() ? "chunk" : isText ? "byte" : "token";
}

void checkPredicts(const Plan &plan, const std::string &artifact) {
  if (!plan.entries.contains("predict")) {
    throw UserError(artifact +
                    ": expected a model that predicts tokens, found one that ends in a contrast, "
                    "which chooses rows; give its weights to a model with a head, as \"train "
                    "--weights FILE --match NAMES\" does");
  }
}

namespace {

/// Removes the numbers of bytes, characters and words if the loss is not the loss of the text.
void dropUnits(EvaluationResult &result, const Plan &plan) {
  if (plan.entries.contains("predict")) {
    return;
  }
  for (FileScore &file : result.files) {
    file.bytes.reset();
    file.characters.reset();
  }
  result.bytes.reset();
  result.characters.reset();
  result.words = 0;
  result.noCharacters = "the model chooses rows, and predicts no text";
}

/// Counts the bytes, characters and words of the tokens [from, to) of a text with a tokenizer.
void addEncodedUnits(EvaluationResult &result, FileScore &own, const ByteFile &file, int64_t from,
                     int64_t to, const ModelFacts &model) {
  auto findStart = [&](int64_t token) {
    return token == file.tokenCount()
               ? static_cast<int64_t>(file.text.size())
               : static_cast<int64_t>(file.encoder->decode(file.readTokens(0, token)).size());
  };
  int64_t first = findStart(from), last = findStart(to);
  own.bytes = last - first;
  result.bytes = result.bytes.value_or(0) + last - first;
  result.isEncoded = true;
  addCharacters(result, file.text, first, last, file.path.string());
  EvaluationResult alone;
  addCharacters(alone, file.text, first, last, "");
  judgeCharacters(alone, model);
  own.characters = alone.characters;
  result.words += countWords(file.text, static_cast<size_t>(first), static_cast<size_t>(last));
}

/// Counts the bytes, characters and words of the scored tokens [from, to) of a file, for the file
/// and for all. The text of token ids is unknown.
void addUnits(EvaluationResult &result, FileScore &own, const ByteFile &file, int64_t from,
              int64_t to, const ModelFacts &model) {
  if (file.encoder) {
    addEncodedUnits(result, own, file, from, to, model);
    return;
  }
  if (!file.isText()) {
    result.noCharacters = "the data are token ids, whose text is unknown";
    return;
  }
  own.bytes = to - from;
  result.bytes = result.bytes.value_or(0) + to - from;
  addCharacters(result, file.bytes, from, to, file.path.string());
  EvaluationResult alone;
  addCharacters(alone, file.bytes, from, to, "");
  judgeCharacters(alone, model);
  own.characters = alone.characters;
  result.words += countWords(file.bytes, static_cast<size_t>(from), static_cast<size_t>(to));
}

void requireFinite(const EvaluationResult &result) {
  if (!std::isfinite(result.nats)) {
    throw NotFiniteError(
        "the model's losses are not finite; use the weights of an earlier checkpoint");
  }
}

} // namespace

EvaluationOptions completeOptions(EvaluationOptions options, const ModelFacts &model) {
  int64_t context = model.context;
  if (options.mostTokens < 0) {
    throw UserError("--tokens: expected a number of tokens to score of at least 0, found " +
                    std::to_string(options.mostTokens) + "; 0 scores all");
  }
  if (options.window == 0) {
    options.window = context;
  }
  if (options.window <= model.first || options.window > context) {
    throw UserError("--window: expected a window from " + std::to_string(model.first + 1) +
                    " to the context of " + std::to_string(context) + ", found " +
                    std::to_string(options.window) + "; 0 takes the context");
  }
  int64_t most = options.window - model.first; // a larger stride would skip tokens
  if (options.stride == 0) {
    options.stride = std::clamp<int64_t>(options.window / 2, 1, most);
  }
  if (options.stride < 1 || options.stride > most) {
    throw UserError("--stride: expected a stride from 1 to " +
                    (model.first == 0
                         ? "the window of " + std::to_string(most)
                         : std::to_string(most) + ", the rows of a window that are scored") +
                    ", found " + std::to_string(options.stride) + "; 0 takes half the window");
  }
  return options;
}

EvaluationResult evaluate(Executor &executor, const std::vector<ByteFile> &files,
                          const EvaluationOptions &given,
                          const std::function<void(double)> &progress, const NumberSink &losses) {
  const Plan &plan = executor.plan();
  const ModelFacts &model = plan.model;
  EvaluationOptions wanted = given;
  if (!plan.entries.contains("predict") && wanted.stride == 0) {
    int64_t window = wanted.window == 0 ? model.context : wanted.window;
    wanted.stride = std::max<int64_t>(window - model.first, 1); // no row is a candidate twice
  }
  EvaluationOptions options = completeOptions(wanted, model);
  EvaluationResult result;
  result.first = model.first;
  result.window = options.window;
  result.stride = options.stride;
  // A short window is only padded if the padding bytes cannot affect its rows: they could be
  // boundaries of segments.
  bool mayFill = plan.verdict == "proved" && plan.segments.empty();
  BatchList list =
      listBatches(files, options, static_cast<size_t>(model.batch), model.first, mayFill);
  std::vector<LossSum> sums(plan.losses.size());
  FileScore own;
  auto add = [&](size_t i, const BatchNumbers &numbers) {
    const WindowBatch &batch = list.batches[i];
    size_t file = batch.file;
    if (i == 0 || list.batches[i - 1].file != file) {
      own = {files[file].path, 0, -result.tokens, {}, {}, {}};
    }
    double nats = sumBatch(numbers, batch.windows, model.first, losses, result.tokens);
    result.nats += nats;
    own.nats += nats;
    int64_t chunks = addChunks(plan, numbers, batch.windows, result);
    own.chunks = result.chunks ? std::optional(own.chunks.value_or(0) + chunks) : std::nullopt;
    addLosses(plan, numbers, batch.windows, sums);
    bool isLast = i + 1 == list.batches.size() || list.batches[i + 1].file != file;
    if (isLast && list.sizes[file] - 1 - model.first > 0) {
      own.tokens += result.tokens;
      addUnits(result, own, files[file], 1 + model.first, list.sizes[file], model);
      result.files.push_back(std::move(own));
    }
  };
  for (size_t first = 0; first < list.batches.size();) {
    std::vector<BatchNumbers> round;
    for (size_t i = first; i < list.batches.size() && round.size() < countShares(options.group);
         ++i) {
      round.emplace_back(plan, list.batches[i].windows);
    }
    computeRound(executor, round, options.group, [&](size_t i) {
      const WindowBatch &batch = list.batches[first + i];
      runBatch(executor, files[batch.file], batch, options.labels);
    });
    for (const BatchNumbers &numbers : round) {
      add(first++, numbers);
    }
    if (progress) {
      progress(static_cast<double>(first) / static_cast<double>(list.batches.size()));
    }
  }
  if (result.tokens == 0) {
    throw UserError("expected at least " + std::to_string(model.first + 2) +
                    (haveIds(files) ? " tokens" : " bytes") +
                    " to evaluate, found fewer; give a longer file");
  }
  judgeCharacters(result, model);
  dropUnits(result, executor.plan());
  addMeans(executor, sums, options.labels, result);
  requireFinite(result);
  return result;
}

namespace {

/// Items that are computed together.
struct ItemBatch {
  int64_t first = 0;
  std::vector<Window> items; ///< of each the number of its predicted tokens
};

/// Writes a batch of items to the inputs of the model.
ItemBatch writeItems(Executor &executor, const ItemSource &source, int64_t first, int64_t rows) {
  ItemBatch batch{first, {}};
  int64_t longest = 0;
  for (int64_t row = 0; row < rows; ++row) {
    batch.items.push_back({0, source.write(first + row, row, executor.inputs()), 0});
    longest = std::max(longest, batch.items.back().length);
  }
  executor.scalarI64("length") = longest;
  executor.scalarI64("rows") = rows;
  return batch;
}

} // namespace

EvaluationResult evaluateItems(Executor &executor, const ItemSource &source,
                               const EvaluationOptions &options,
                               const std::function<void(double)> &progress,
                               const NumberSink &losses) {
  const Plan &plan = executor.plan();
  EvaluationResult result;
  result.noun = source.noun();
  result.protocol = source.protocol();
  executor.chooseBatch({});
  int64_t most = options.mostTokens, count = source.rowsPerEpoch();
  std::vector<LossSum> sums(plan.losses.size());
  int64_t unscored = plan.model.first, bytes = 0;
  result.isEncoded = source.isEncoded();
  auto countRowsFrom = [&](int64_t first) { return std::min(plan.model.batch, count - first); };
  auto add = [&](ItemBatch &batch, const BatchNumbers &numbers) {
    for (size_t row = 0; row < batch.items.size(); ++row) {
      Window &window = batch.items[row];
      int64_t kept = std::max<int64_t>(0, window.length - unscored);
      kept = most > 0 ? std::min(kept, most - result.tokens) : kept;
      window.length = kept > 0 ? unscored + kept : 0;
      if (kept == 0) {
        continue;
      }
      std::span<const float> nats = numbers.row("losses", row);
      nats = nats.subspan(static_cast<size_t>(unscored), static_cast<size_t>(kept));
      result.nats = std::accumulate(nats.begin(), nats.end(), result.nats);
      result.tokens += kept;
      ++result.items;
      int64_t item = batch.first + static_cast<int64_t>(row);
      int64_t from = source.countBytes(item, unscored),
              to = source.countBytes(item, unscored + kept);
      bytes += to - from;
      if (std::optional<std::string> text = source.getTextAt(item)) {
        addCharacters(result, std::vector<uint8_t>(text->begin(), text->end()), from, to,
                      "line " + std::to_string(item + 1) + " of the text");
      } else {
        result.noCharacters = source.noun();
        result.noCharacters += " are not text";
      }
      if (losses) {
        losses(nats);
      }
    }
    addChunks(plan, numbers, batch.items, result);
    addLosses(plan, numbers, batch.items, sums);
  };
  for (int64_t first = 0, tokens = 0; first < count && (most == 0 || tokens < most);) {
    std::vector<ItemBatch> batches;
    std::vector<BatchNumbers> round;
    while (first < count && (most == 0 || tokens < most) &&
           round.size() < countShares(options.group)) {
      batches.push_back(writeItems(executor, source, first, countRowsFrom(first)));
      round.emplace_back(plan, batches.back().items);
      for (const Window &item : batches.back().items) {
        tokens += std::max<int64_t>(0, item.length - unscored);
      }
      first += std::ssize(batches.back().items);
    }
    computeRound(executor, round, options.group, [&](size_t i) {
      if (i + 1 < batches.size()) { // another batch was written after it
        writeItems(executor, source, batches[i].first, std::ssize(batches[i].items));
      }
      executor.run("evaluate");
    });
    for (size_t i = 0; i < round.size(); ++i) {
      add(batches[i], round[i]);
    }
    if (progress) {
      progress(static_cast<double>(first) / static_cast<double>(count));
    }
  }
  result.bytes = bytes;
  judgeCharacters(result, executor.plan().model);
  dropUnits(result, executor.plan());
  addMeans(executor, sums, nullptr, result);
  requireFinite(result);
  return result;
}

void requireChunks(const EvaluationResult &result) {
  if (result.chunks != 0) {
    return;
  }
  std::string files = result.files.empty() ? "" : result.files.front().file.string();
  if (result.files.size() > 1) {
    files += " and " + std::to_string(result.files.size() - 1) + " more";
  }
  throw UserError(files + (files.empty() ? "" : ": ") +
                  "expected text in which a chunk follows another one in the same window, as a "
                  "chunk is chosen from those before it, found none; give a longer text");
}

int64_t countScored(const std::vector<ByteFile> &files, int64_t mostTokens, int64_t first) {
  int64_t count = 0;
  for (const ByteFile &file : files) {
    count += std::max<int64_t>(0, file.tokenCount() - 1 - first);
  }
  return mostTokens > 0 ? std::min(count, mostTokens) : count;
}

std::string describeProtocol(const EvaluationResult &result) {
  if (result.items > 0) {
    return std::to_string(result.items) + " " + result.noun + ", " + result.protocol;
  }
  const std::string unit = result.bytes && !result.isEncoded ? "byte" : "token";
  return "windows of " + std::to_string(result.window) + " tokens every " +
         std::to_string(result.stride) +
         "; each token is scored once, in the first window that reaches it; a file's first " +
         (result.first == 0 ? unit + " is"
                            : std::to_string(result.first + 1) + " " + unit + "s are") +
         " not scored" +
         (result.chunks      ? ""
          : result.isEncoded ? "; tokens are the tokenizer's"
          : result.bytes     ? "; a token is a byte"
                             : "; tokens are the ids of the data");
}

} // namespace sluice::runtime
