// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Evaluator.h"

#include "sluice/Runtime/Error.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace sluice::runtime {

double EvaluationResult::bitsPerToken() const {
  return nats / std::numbers::ln2 / static_cast<double>(tokens);
}
double EvaluationResult::perplexity() const { return std::exp(nats / static_cast<double>(tokens)); }

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

/// Adds up each loss's rows of a batch of windows that just ran.
void addLosses(Executor &executor, std::span<const Window> batch, std::vector<LossSum> &sums) {
  const std::vector<LossFacts> &losses = executor.plan().losses;
  for (size_t i = 0; i < losses.size(); ++i) {
    std::string output = i == 0 ? "losses" : "losses." + std::to_string(i);
    for (size_t row = 0; row < batch.size(); ++row) {
      std::span<const float> nats = executor.outputRow(output, static_cast<int64_t>(row));
      int64_t first = std::max(batch[row].firstScored, losses[i].first);
      for (int64_t p = first; p < batch[row].length; ++p) {
        sums[i].nats += nats[static_cast<size_t>(p)];
        ++sums[i].rows;
      }
    }
  }
}

/// Runs one batch of windows and adds their scored rows up, in order. No row of a causal model sees
/// what stands behind it, so a shorter window is filled up, and its losses are those that it has
/// alone, bit for bit.
double scoreBatch(Executor &executor, const std::vector<uint8_t> &text,
                  std::span<const Window> batch, const NumberSink &sink, int64_t &scored) {
  std::span<int32_t> tokens = executor.tokens();
  int64_t rowTokens = executor.plan().model.context + 1;
  auto shorter = [](const Window &a, const Window &b) { return a.length < b.length; };
  int64_t longest = std::ranges::max_element(batch, shorter)->length;
  for (size_t row = 0; row < batch.size(); ++row) {
    auto from = text.begin() + batch[row].start;
    auto end = std::copy(from, from + batch[row].length + 1,
                         tokens.begin() + static_cast<int64_t>(row) * rowTokens);
    std::fill_n(end, longest - batch[row].length, 0);
  }
  executor.scalarI64("length") = longest;
  executor.scalarI64("rows") = static_cast<int64_t>(batch.size());
  executor.run("evaluate");
  double nats = 0;
  for (size_t row = 0; row < batch.size(); ++row) {
    std::span<const float> losses = executor.outputRow("losses", static_cast<int64_t>(row));
    int64_t first = std::max(batch[row].firstScored, executor.plan().model.first),
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

void requireFinite(const EvaluationResult &result) {
  if (!std::isfinite(result.nats)) {
    throw NotFiniteError(
        "the model's losses are not finite; use the weights of an earlier checkpoint");
  }
}

/// Of a model whose rows before `model.first` are not scored.
EvaluationOptions complete(EvaluationOptions options, const ModelFacts &model) {
  int64_t context = model.context;
  if (options.mostTokens < 0) {
    throw UserError("--tokens: expected a number of tokens to score of at least 0, found " +
                    std::to_string(options.mostTokens));
  }
  if (options.window == 0) {
    options.window = context;
  }
  if (options.window <= model.first || options.window > context) {
    throw UserError("--window: expected a window from " + std::to_string(model.first + 1) +
                    " to the context of " + std::to_string(context) + ", found " +
                    std::to_string(options.window));
  }
  int64_t most = options.window - model.first; // a longer one would leave tokens out
  if (options.stride == 0) {
    options.stride = std::clamp<int64_t>(options.window / 2, 1, most);
  }
  if (options.stride < 1 || options.stride > most) {
    throw UserError("--stride: expected a stride from 1 to " +
                    (model.first == 0
                         ? "the window of " + std::to_string(most)
                         : std::to_string(most) + ", the rows of a window that are scored") +
                    ", found " + std::to_string(options.stride));
  }
  return options;
}

} // namespace

EvaluationResult evaluate(Executor &executor, const std::vector<ByteFile> &files,
                          const EvaluationOptions &given,
                          const std::function<void(double)> &progress, const NumberSink &losses) {
  const ModelFacts &model = executor.plan().model;
  EvaluationOptions options = complete(given, model);
  EvaluationResult result;
  result.first = model.first;
  result.window = options.window;
  result.stride = options.stride;
  auto batchRows = static_cast<size_t>(model.batch);
  bool isCausal = executor.plan().verdict == "proved";
  std::vector<LossSum> sums(executor.plan().losses.size());
  for (size_t file = 0; file < files.size(); ++file) {
    auto size = static_cast<int64_t>(files[file].bytes.size());
    if (options.mostTokens > 0) {
      size = std::min(size, options.mostTokens - result.tokens + 1 + model.first);
    }
    std::vector<Window> windows = cutWindows(size, options.window, options.stride);
    for (size_t first = 0; first < windows.size();) {
      size_t last = first + 1;
      while (last < windows.size() && last - first < batchRows &&
             (isCausal || windows[last].length == windows[first].length)) {
        ++last;
      }
      auto batch = std::span<const Window>(windows).subspan(first, last - first);
      result.nats += scoreBatch(executor, files[file].bytes, batch, losses, result.tokens);
      addLosses(executor, batch, sums);
      first = last;
      if (progress) {
        progress((static_cast<double>(file) +
                  static_cast<double>(first) / static_cast<double>(windows.size())) /
                 static_cast<double>(files.size()));
      }
    }
  }
  if (result.tokens == 0) {
    throw UserError("expected at least " + std::to_string(model.first + 2) +
                    " bytes to evaluate, found fewer; give a longer file");
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    double rows = static_cast<double>(std::max<int64_t>(1, sums[i].rows));
    result.losses.emplace_back(executor.plan().losses[i].name, sums[i].nats / rows);
  }
  requireFinite(result);
  return result;
}

EvaluationResult evaluateLines(Executor &executor, const LinePairs &pairs, int64_t mostTokens,
                               const std::function<void(double)> &progress,
                               const NumberSink &losses) {
  EvaluationResult result;
  int64_t batch = executor.plan().model.batch, count = pairs.rowsPerEpoch();
  int64_t unscored = executor.plan().model.first;
  auto isDone = [&] { return mostTokens > 0 && result.tokens >= mostTokens; };
  for (int64_t first = 0; first < count && !isDone(); first += batch) {
    std::vector<int64_t> scored;
    for (int64_t row = 0; row < std::min(batch, count - first); ++row) {
      scored.push_back(pairs.write(first + row, row, executor.inputs()));
    }
    executor.scalarI64("length") = *std::ranges::max_element(scored);
    executor.scalarI64("rows") = static_cast<int64_t>(scored.size());
    executor.run("evaluate");
    for (size_t row = 0; row < scored.size() && !isDone(); ++row) {
      int64_t kept = std::max<int64_t>(0, scored[row] - unscored);
      kept = mostTokens > 0 ? std::min(kept, mostTokens - result.tokens) : kept;
      std::span<const float> nats = executor.outputRow("losses", static_cast<int64_t>(row));
      nats = nats.subspan(static_cast<size_t>(kept > 0 ? unscored : 0), static_cast<size_t>(kept));
      result.nats = std::accumulate(nats.begin(), nats.end(), result.nats);
      result.tokens += kept;
      ++result.lines;
      if (losses) {
        losses(nats);
      }
    }
    if (progress) {
      progress(static_cast<double>(first + static_cast<int64_t>(scored.size())) /
               static_cast<double>(count));
    }
  }
  requireFinite(result);
  return result;
}

int64_t countScored(const std::vector<ByteFile> &files, int64_t mostTokens, int64_t first) {
  int64_t count = 0;
  for (const ByteFile &file : files) {
    count += std::max<int64_t>(0, static_cast<int64_t>(file.bytes.size()) - 1 - first);
  }
  return mostTokens > 0 ? std::min(count, mostTokens) : count;
}

void computeLogits(Executor &executor, const ByteFile &file, const EvaluationOptions &given,
                   const NumberSink &rows, const std::function<void(double)> &progress) {
  EvaluationOptions options = complete(given, executor.plan().model);
  auto size = static_cast<int64_t>(file.bytes.size());
  // As if one more byte followed: the last row predicts it, though nothing reads it.
  for (const Window &window : cutWindows(size + 1, options.window, options.stride)) {
    auto from = file.bytes.begin() + window.start;
    std::copy(from, from + window.length, executor.tokens().begin());
    executor.scalarI64("length") = window.length;
    executor.scalarI64("rows") = 1;
    executor.run("predict");
    for (int64_t row = window.firstScored; row < window.length; ++row) {
      std::span<const float> logits = executor.outputRow("logits", row);
      if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) {
        throw JobError("the model's logits are not finite; use the weights of an earlier "
                       "checkpoint");
      }
      rows(logits);
    }
    if (progress) {
      progress(static_cast<double>(window.start + window.length) / static_cast<double>(size));
    }
  }
}

std::string describeProtocol(const EvaluationResult &result) {
  if (result.lines > 0) {
    return std::to_string(result.lines) +
           " lines, each by itself with its inputs; a line's bytes are scored, and the end behind "
           "it where the context holds it; a token is a byte";
  }
  return "windows of " + std::to_string(result.window) + " tokens every " +
         std::to_string(result.stride) +
         "; each token is scored once, in the first window that reaches it; a file's first " +
         (result.first == 0 ? "byte is" : std::to_string(result.first + 1) + " bytes are") +
         " not scored; a token is a byte";
}

} // namespace sluice::runtime
