// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Analyze/Analyses.h"

#include "Report/Chart.h"
#include "Report/Html.h"
#include "sluice/Runtime/Analyze/Bleu.h"
#include "sluice/Runtime/Analyze/WordModel.h"
#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Generate/Generator.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>
#include <tuple>

namespace sluice::runtime {
namespace {

/// A mean and its standard error.
class Mean {
public:
  void add(double number) {
    ++count;
    double step = number - mean;
    mean += step / static_cast<double>(count);
    squares += step * (number - mean);
  }
  double value() const { return mean; }
  double error() const {
    auto n = static_cast<double>(count);
    return count < 2 ? NAN : std::sqrt(squares / (n - 1) / n);
  }
  int64_t number() const { return count; }

private:
  int64_t count = 0;
  double mean = 0, squares = 0;
};

int64_t checkLength(int64_t asked, int64_t context) {
  if (asked == 0 && context < 4) {
    throw UserError("expected a model whose context has at least 4 tokens, a window of two halves, "
                    "found one of " +
                    std::to_string(context) + "; compile with a larger --set context");
  }
  int64_t length = asked == 0 ? context - context % 2 : asked;
  if (length < 4 || length > context || length % 2 != 0) {
    throw UserError("--length: expected an even number of tokens from 4 to the context, " +
                    std::to_string(context) + ", found " + std::to_string(length));
  }
  return length;
}

/// Returns at most `most` windows of `length` tokens that do not overlap, evenly spread.
std::vector<ByteFile> cutFiles(const std::vector<ByteFile> &files, int64_t length, int64_t most) {
  std::vector<std::pair<const ByteFile *, int64_t>> starts;
  for (const ByteFile &file : files) {
    for (int64_t at = 0; at + length <= file.tokenCount(); at += length) {
      starts.emplace_back(&file, at);
    }
  }
  if (starts.empty()) {
    throw UserError(
        "expected a text of at least " + std::to_string(length) +
        " tokens, a window, found shorter ones; name more data, or make windows shorter");
  }
  auto all = static_cast<int64_t>(starts.size()), taken = most == 0 ? all : std::min(most, all);
  std::vector<ByteFile> windows;
  for (int64_t i = 0; i < taken; ++i) {
    auto [file, at] = starts[static_cast<size_t>(i * all / taken)];
    windows.push_back(file->cut(at, length));
  }
  return windows;
}

void shuffleFirstHalves(std::vector<ByteFile> &windows, uint64_t seed) {
  for (size_t i = 0; i < windows.size(); ++i) {
    std::vector<int32_t> before = windows[i].readTokens(0, windows[i].tokenCount()), ids = before;
    uint64_t half = ids.size() / 2, key = permute(i, UINT64_MAX, seed);
    for (uint64_t at = 0; at < half; ++at) {
      ids[at] = before[permute(at, half, key)];
    }
    windows[i] = windows[i].replaceTokens(ids);
  }
}

/// Returns the bits of every scored token, in the order of the texts. A file's first token is not
/// scored, nor are the tokens predicted by rows before the model's first scored row.
std::vector<double> computeBits(Executor &executor, const std::vector<ByteFile> &files,
                                const std::function<void(double)> &progress) {
  std::vector<double> bits;
  evaluate(executor, files, {}, progress, [&](std::span<const float> nats) {
    for (float number : nats) {
      bits.push_back(number / std::numbers::ln2);
    }
  });
  return bits;
}

/// Calls `take` with the tokens of a file from `first` on, in order.
void forEachToken(const ByteFile &file, int64_t first, const std::function<void(int32_t)> &take) {
  constexpr int64_t pieceTokens = int64_t(1) << 16;
  for (int64_t start = first; start < file.tokenCount(); start += pieceTokens) {
    std::ranges::for_each(file.readTokens(start, std::min(pieceTokens, file.tokenCount() - start)),
                          take);
  }
}

std::vector<int64_t> countTokens(const std::vector<ByteFile> &files, int64_t ids) {
  std::vector<int64_t> counts(static_cast<size_t>(ids));
  for (const ByteFile &file : files) {
    forEachToken(file, 0, [&](int32_t token) { ++counts[static_cast<size_t>(token)]; });
  }
  return counts;
}

/// Returns the number of ids that a text's tokens may have.
int64_t countIds(const std::vector<ByteFile> &files) {
  constexpr int64_t byteValues = 256;
  return files.front().encoder ? files.front().encoder->size() : byteValues;
}

/// Returns the bin of each token id, and fills in the tokens of the bins.
std::vector<size_t> fillBins(const std::vector<int64_t> &counts, FrequencyResult &result) {
  std::vector<size_t> order(counts.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return std::pair(-counts[a], a) < std::pair(-counts[b], b);
  });
  auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t(0)));
  std::vector<size_t> binByToken(counts.size());
  double before = 0;
  for (size_t token : order) {
    auto count = static_cast<double>(counts[token]);
    double middle = (before + count / 2) / total * static_cast<double>(result.bins.size());
    size_t bin = std::min(static_cast<size_t>(middle), result.bins.size() - 1);
    before += count;
    binByToken[token] = bin;
    result.bins[bin].tokens.push_back(static_cast<int32_t>(token));
    result.bins[bin].share += count / total;
  }
  return binByToken;
}

/// Accumulates the statistics of continuations.
class Side {
public:
  explicit Side(const WordModel &model) : model(&model) {}

  /// Adds a continuation. Returns the words after the prompt.
  std::vector<std::string> add(std::string_view prompt, std::string_view whole) {
    std::vector<std::string> words = splitWords(whole);
    bool isCut = !whole.empty() &&
                 std::string_view(" \t\n\v\f\r").find(whole.back()) == std::string_view::npos;
    if (isCut && !words.empty()) {
      words.pop_back();
    }
    size_t first = std::min(splitWords(prompt).size(), words.size());
    bits += model->bits(words, first);
    words.erase(words.begin(), words.begin() + static_cast<ptrdiff_t>(first));
    count += static_cast<int64_t>(words.size());
    std::array<double, 4> repeated = repeats(words);
    ++texts;
    for (size_t n = 0; n < 4; ++n) {
      shares[n] += repeated[n];
    }
    return words;
  }
  SampleResult::Side result() const {
    SampleResult::Side side{count, count > 0 ? std::exp2(bits / double(count)) : NAN, shares};
    for (double &share : side.repeats) {
      share /= std::max(texts, 1.0);
    }
    return side;
  }

private:
  const WordModel *model;
  double bits = 0, texts = 0;
  int64_t count = 0;
  std::array<double, 4> shares{};
};

std::string_view asText(const std::vector<uint8_t> &bytes) {
  return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
}

WordModel countWords(const std::vector<ByteFile> &files) {
  std::vector<std::string> words;
  for (const ByteFile &file : files) {
    const FileContents &text = file.encoder ? file.text : file.bytes;
    std::vector<std::string> some = splitWords(asText(text.readAll()));
    words.insert(words.end(), some.begin(), some.end());
  }
  WordModel model(4);
  model.train(words);
  return model;
}

/// Returns at most `most` tokens, most probable first. Only ids below `ids` are returned.
std::vector<std::pair<int32_t, double>> likeliest(std::span<const float> logits, size_t most,
                                                  size_t ids) {
  double top = *std::max_element(logits.begin(), logits.end()), sum = 0;
  for (float logit : logits) {
    sum += std::exp(logit - top);
  }
  std::vector<size_t> order(std::min(logits.size(), ids));
  std::iota(order.begin(), order.end(), size_t(0));
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(-logits[a], a) < std::pair(-logits[b], b);
  });
  order.resize(std::min(order.size(), most));
  std::vector<std::pair<int32_t, double>> result;
  for (size_t token : order) {
    result.emplace_back(static_cast<int32_t>(token), std::exp(logits[token] - top) / sum);
  }
  return result;
}

/// Returns the length of a prompt that consists of full groups.
int64_t promptOfGroups(const ModelFacts &model, int64_t asked) {
  int64_t quarter = std::max<int64_t>(model.context / 4 / model.group, 1) * model.group;
  int64_t tokens = asked > 0 ? asked : quarter;
  if (tokens % model.group != 0 || tokens <= model.first || tokens > model.context) {
    throw UserError(
        "--prompt-tokens: expected a multiple of " + std::to_string(model.group) + " from " +
        std::to_string(model.first + 1) + " to the context, " + std::to_string(model.context) +
        ", as the model predicts the group after whole ones, found " + std::to_string(tokens));
  }
  return tokens;
}

std::string showPerplexity(const SampleResult::Side &side) {
  return side.words > 0 ? showNumber(side.perplexity, 1) : "-";
}

constexpr const char *blue = "#2563eb", *red = "#dc2626";

} // namespace

ContextResult measureContext(Executor &executor, const std::vector<ByteFile> &files,
                             const ContextOptions &options,
                             const std::function<void(double)> &progress) {
  int64_t length = checkLength(options.length, executor.plan().model.context);
  int64_t first = executor.plan().model.first;
  if (first >= length / 2) {
    throw UserError("expected windows of at least " + std::to_string(2 * first + 2) +
                    " tokens, as the model scores no row before " + std::to_string(first) +
                    ", found " + std::to_string(length) + "; make them longer");
  }
  std::vector<ByteFile> windows = cutFiles(files, length, options.mostWindows);
  auto half = [&](double offset) {
    return [&, offset](double share) { progress ? progress(offset + share / 2) : void(); };
  };
  std::vector<double> plain = computeBits(executor, windows, half(0));
  shuffleFirstHalves(windows, options.seed);
  std::vector<double> shuffled = computeBits(executor, windows, half(0.5));
  ContextResult result{length, static_cast<int64_t>(windows.size()), options.seed, {}};
  for (int64_t distance = 1; distance <= length / 2; ++distance) {
    Mean before, after, difference;
    for (int64_t i = 0; i < result.windows; ++i) {
      // The first tokens of a window are not scored.
      int64_t unscored = first + 1;
      auto at = static_cast<size_t>(i * (length - unscored) + length / 2 + distance - 1 - unscored);
      before.add(plain[at]);
      after.add(shuffled[at]);
      difference.add(shuffled[at] - plain[at]);
    }
    result.places.push_back({distance, before.value(), after.value(), difference.error()});
  }
  return result;
}

FrequencyResult measureFrequency(Executor &executor, const std::vector<ByteFile> &counted,
                                 const std::vector<ByteFile> &files, int64_t bins,
                                 const std::function<void(double)> &progress) {
  FrequencyResult result;
  result.bins.resize(static_cast<size_t>(bins));
  std::vector<size_t> binByToken = fillBins(countTokens(counted, countIds(files)), result);
  std::vector<double> bits = computeBits(executor, files, progress);
  std::vector<Mean> means(result.bins.size());
  size_t at = 0;
  for (const ByteFile &file : files) {
    forEachToken(file, executor.plan().model.first + 1, [&](int32_t token) {
      means[binByToken[static_cast<size_t>(token)]].add(bits.at(at++));
    });
  }
  for (size_t i = 0; i < means.size(); ++i) {
    FrequencyResult::Bin &bin = result.bins[i];
    bin.scored = means[i].number();
    bin.bits = means[i].value();
    bin.error = means[i].error();
  }
  return result;
}

SampleResult measureSamples(Executor &executor, const std::vector<ByteFile> &counted,
                            const std::vector<ByteFile> &files, const SampleOptions &options,
                            const std::function<void(double)> &progress) {
  SampleResult result;
  const ModelFacts &model = executor.plan().model;
  result.promptTokens = options.promptTokens > 0 ? options.promptTokens
                                                 : std::max(model.context / 4, model.first + 1);
  result.tokens = options.tokens > 0 ? options.tokens : 3 * result.promptTokens;
  result.completions = options.completions;
  std::vector<ByteFile> windows =
      cutFiles(files, result.promptTokens + result.tokens, options.prompts);
  result.prompts = static_cast<int64_t>(windows.size());
  std::vector<Text> texts;
  for (const ByteFile &window : windows) {
    for (int64_t sample = 0; sample < options.completions; ++sample) {
      texts.push_back({window.readTokens(0, result.promptTokens), sample});
    }
  }
  double written = 0, all = double(texts.size()) * double(result.tokens);
  auto start = std::chrono::steady_clock::now();
  Predictor predictor(executor, options.sampling.cached);
  const auto &encoder = files.front().encoder;
  writeTexts(executor, predictor, texts, result.tokens, options.sampling, {},
             {[&](size_t, std::string_view) { // at most once for each token
               ++written;
               return progress ? (progress(written / all), true) : true;
             }},
             encoder ? spellText(encoder) : TokenSpelling());
  std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  result.seconds = taken.count() / double(texts.size());
  WordModel words = countWords(counted);
  Side own(words), reference(words);
  CorpusBleu bleu;
  for (size_t i = 0; i < windows.size(); ++i) {
    std::string whole = windows[i].readText(0, windows[i].tokenCount()),
                prompt = windows[i].readText(0, result.promptTokens);
    std::vector<std::vector<std::string>> completions;
    for (int64_t sample = 0; sample < options.completions; ++sample) {
      size_t text = i * size_t(options.completions) + size_t(sample);
      completions.push_back(own.add(prompt, encoder ? encoder->decode(texts[text].tokens)
                                                    : toText(texts[text].tokens)));
    }
    bleu.add(reference.add(prompt, whole), completions);
  }
  result.refBleu = bleu.compute(BleuSmoothing::None).bleu / 100;
  result.written = own.result();
  result.reference = reference.result();
  return result;
}

CompletionResult measureCompletions(Executor &executor, const std::vector<ByteFile> &files,
                                    const SampleOptions &options,
                                    const std::function<void(double)> &progress) {
  const ModelFacts &model = executor.plan().model;
  if (model.group <= 1) {
    throw UserError(executor.artifact().path() +
                    ": expected a model of groups alone, whose head reads a coarse scale, found "
                    "one that predicts the next token; use sluice analyze samples");
  }
  CompletionResult result{model.group, promptOfGroups(model, options.promptTokens), {}, 0};
  std::vector<ByteFile> windows =
      cutFiles(files, result.promptTokens + result.group, options.prompts);
  Predictor predictor(executor, /*cached=*/false);
  double kinds = 0;
  for (const ByteFile &window : windows) {
    predictor.begin(0, {});
    const std::vector<int32_t> tokens = window.readTokens(0, result.promptTokens),
                               group = window.readTokens(result.promptTokens, result.group);
    Predictor::Turn turn{0, tokens, nullptr};
    auto expected = likeliest(predictor.predict({&turn, 1}), static_cast<size_t>(result.group),
                              static_cast<size_t>(countIds(files)));
    CompletionResult::Prompt prompt{window.readText(0, result.promptTokens),
                                    window.readText(result.promptTokens, result.group),
                                    {}};
    std::set<int32_t> next(group.begin(), group.end());
    kinds += static_cast<double>(next.size());
    for (auto [token, probability] : expected) {
      prompt.expected.push_back(
          {token, probability, window.replaceTokens(std::span(&token, 1)).readText(0, 1)});
      result.found += static_cast<double>(next.count(token));
    }
    result.prompts.push_back(std::move(prompt));
    progress ? progress(double(result.prompts.size()) / double(windows.size())) : void();
  }
  result.found /= kinds;
  return result;
}

std::string drawContext(const ContextResult &result, const std::string &model) {
  std::vector<Point> plain, shuffled;
  for (const ContextResult::Place &place : result.places) {
    plain.push_back({static_cast<double>(place.distance), place.plain});
    shuffled.push_back({static_cast<double>(place.distance), place.shuffled});
  }
  Chart chart("Bits per token after a shuffled half", "tokens after it");
  chart.add(plain, blue, "in order", CurveStyle::Line);
  chart.add(shuffled, red, "shuffled", CurveStyle::Line);
  return pageStart("What " + model + " reads of its context") + chart.draw() + pageEnd();
}

std::string drawFrequency(const FrequencyResult &result, const std::string &model) {
  std::vector<Point> points;
  for (size_t i = 0; i < result.bins.size(); ++i) {
    if (result.bins[i].scored > 0) {
      points.push_back({static_cast<double>(i + 1), result.bins[i].bits});
    }
  }
  Chart chart("Bits per token by how common tokens are", "bin, 1 the commonest");
  chart.add(points, blue, "mean", CurveStyle::Dots);
  return pageStart("How " + model + " predicts common and rare tokens") + chart.draw() + pageEnd();
}

std::string drawSamples(const SampleResult &result, const std::string &model) {
  Chart chart("Share of n-grams that the text has before", "n");
  std::ostringstream table;
  for (auto [name, color, side] :
       {std::tuple("written", blue, &result.written), {"reference", red, &result.reference}}) {
    std::vector<Point> points;
    for (size_t n = 1; n <= side->repeats.size(); ++n) {
      points.push_back({static_cast<double>(n), side->repeats[n - 1]});
    }
    chart.add(points, color, name, CurveStyle::Dots);
    writeRow(table, std::string("words, ") + name, std::to_string(side->words));
    writeRow(table, std::string("perplexity of a word, ") + name, showPerplexity(*side));
  }
  writeRow(table, "Ref-BLEU", showNumber(result.refBleu, 4));
  writeRow(table, "seconds a completion", showNumber(result.seconds, 3));
  return pageStart("What " + model + " writes after " + std::to_string(result.prompts) +
                   " prompts") +
         tableStart() + table.str() + tableEnd() + chart.draw() + pageEnd();
}

std::string drawCompletions(const CompletionResult &result, const std::string &model) {
  std::ostringstream out;
  out << pageStart("What " + model + " expects in the next " + std::to_string(result.group) +
                   " tokens");
  for (const CompletionResult::Prompt &prompt : result.prompts) {
    out << textElement("h2", prompt.text) << "\n" << tableStart();
    writeRow(out, "the text", prompt.next);
    for (const CompletionResult::Prompt::Token &token : prompt.expected) {
      writeRow(out, showNumber(token.probability, 3), token.text);
    }
    out << tableEnd();
  }
  out << pageEnd();
  return out.str();
}

} // namespace sluice::runtime
