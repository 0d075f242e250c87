// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TextMetric.h"

#include "CommandLine.h"
#include "Common.h"
#include "sluice/Runtime/Analyze/Bleu.h"
#include "sluice/Runtime/Analyze/Rouge.h"
#include "sluice/Runtime/Data/Lines.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <optional>

namespace sluice::cli {

using namespace sluice;
using namespace sluice::runtime;

void addMetricFlags(CLI::App &command, MetricFlags &flags) {
  command
      .add_option("--metric", flags.metric,
                  "bleu: BLEU of the corpus, as sacreBLEU computes it; rouge: F1 of ROUGE-1, "
                  "ROUGE-2 and rougeLsum without stemming, as rouge-score computes them")
      ->type_name("bleu|rouge")
      ->default_str(flags.metric)
      ->check(matchChoice({"bleu", "rouge"}));
  command
      .add_option("--tokenize", flags.tokenize,
                  "Tokens of BLEU: 13a separates punctuation, as mteval-v13a does; none: the words "
                  "between white space")
      ->type_name("none|13a")
      ->check(matchChoice({"none", "13a"}));
  command
      .add_option("--sentences", flags.sentences,
                  "For rougeLsum: the text between the sentences of a line, such as '<q>'; without "
                  "it a line is one sentence")
      ->type_name("TEXT")
      ->default_str("");
}

void checkMetricFlags(const CLI::App &command, const MetricFlags &flags) {
  std::string usage = "sluice " + command.get_name();
  auto require = [&](const std::string &flag, const std::string &metric) {
    if (command.count(flag) > 0 && flags.metric != metric) {
      throw UserError(usage + ": expected --metric " + metric + " with " + flag + ", found " +
                      (flags.metric.empty() ? "none" : "--metric " + flags.metric) + "; give " +
                      "--metric " + metric + ", or leave " + flag + " out");
    }
  };
  require("--tokenize", "bleu");
  require("--sentences", "rouge");
  if (command.count("--sentences") == 0) {
    return;
  }
  if (flags.sentences.empty() || flags.sentences.find('\n') != std::string::npos) {
    throw UserError("--sentences: expected a text inside a line, such as '<q>', found " +
                    quote(flags.sentences) + "; a line is one text: write another text between " +
                    "its sentences, or leave --sentences out");
  }
}

static std::optional<size_t> findInvalid(const std::string &line) {
  return countCharacters(line, 0, line.size()).invalid;
}

void noteInvalidText(const TextLines &text) {
  std::optional<size_t> first;
  size_t line = 0, count = 0;
  for (size_t i = 0; i < text.lines.size(); ++i) {
    if (std::optional<size_t> invalid = findInvalid(text.lines[i])) {
      line = first ? line : i;
      first = first ? first : invalid;
      ++count;
    }
  }
  if (first) {
    printNotice("note: " + text.name + ":" + std::to_string(line + 1) + ": byte " +
                std::to_string(*first + 1) + " is not UTF-8, and so in " + std::to_string(count) +
                " of " + std::to_string(text.lines.size()) +
                " lines; each such byte is a character of its own");
  }
}

static TextLines readAllLines(const Lines &lines) {
  TextLines text{showPath(lines.files().front().path.native()), {}};
  for (const std::string &note : collectNotes(lines.files())) {
    printNotice(note);
  }
  for (int64_t i = 0; i < lines.count(); ++i) {
    text.lines.push_back(lines.decode(lines.whole(i)));
  }
  noteInvalidText(text);
  return text;
}

static Lines openTextLines(const std::string &path, bool isRaw) {
  constexpr int64_t byteValues = 256;
  return Lines({path}, byteValues, INT64_MAX, {.isRaw = isRaw});
}

TextLines readTextLines(const std::string &path, bool isRaw) {
  return readAllLines(openTextLines(path, isRaw));
}

std::vector<TextLines> readReferences(const std::vector<std::string> &paths, bool isRaw,
                                      int64_t count, const std::string &other) {
  std::vector<TextLines> references;
  for (const std::string &path : paths) {
    Lines lines = openTextLines(path, isRaw);
    lines.requireCount(count, other);
    references.push_back(readAllLines(lines));
  }
  return references;
}

static nlohmann::ordered_json computeBleu(const MetricFlags &flags, const TextLines &texts,
                                          const std::vector<TextLines> &references) {
  auto *tokenize = flags.tokenize == "none" ? splitUnicodeWords : tokenize13a;
  CorpusBleu corpus;
  for (size_t line = 0; line < texts.lines.size(); ++line) {
    std::vector<std::vector<std::string>> tokens;
    for (const TextLines &reference : references) {
      tokens.push_back(tokenize(reference.lines[line]));
    }
    corpus.add(tokenize(texts.lines[line]), tokens);
  }
  BleuScore score = corpus.compute(BleuSmoothing::Exponential);
  return {{"bleu", score.bleu},
          {"precisions", score.precisions},
          {"brevity_penalty", score.brevityPenalty},
          {"matched", score.matched},
          {"grams", score.grams},
          {"tokens", score.tokens},
          {"reference_tokens", score.referenceTokens},
          {"tokenize", flags.tokenize}};
}

static nlohmann::ordered_json computeRouge(const MetricFlags &flags, const TextLines &texts,
                                           const std::vector<TextLines> &references) {
  CorpusRouge corpus;
  for (size_t line = 0; line < texts.lines.size(); ++line) {
    std::vector<Sentences> sentences;
    for (const TextLines &reference : references) {
      sentences.push_back(splitSentences(reference.lines[line], flags.sentences));
    }
    corpus.add(splitSentences(texts.lines[line], flags.sentences), sentences);
  }
  RougeScores scores = corpus.compute();
  nlohmann::ordered_json json;
  for (auto [type, name] : {std::pair(Rouge1, "rouge1"), std::pair(Rouge2, "rouge2"),
                            std::pair(RougeLsum, "rougeLsum")}) {
    json[name] = scores[type].f1;
    json["precision"][name] = scores[type].precision;
    json["recall"][name] = scores[type].recall;
  }
  json["sentences"] =
      flags.sentences.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(flags.sentences);
  return json;
}

nlohmann::ordered_json computeMetric(const MetricFlags &flags, const TextLines &texts,
                                     const std::vector<TextLines> &references) {
  nlohmann::ordered_json json = {
      {"metric", flags.metric}, {"lines", texts.lines.size()}, {"references", references.size()}};
  json.update(flags.metric == "bleu" ? computeBleu(flags, texts, references)
                                     : computeRouge(flags, texts, references));
  return json;
}

std::string describeMetric(const nlohmann::ordered_json &result) {
  auto get = [&](const char *key) { return result.at(key).get<double>(); };
  auto count = [&](const char *key) { return result.at(key).get<long long>(); };
  std::string against =
      format("%lld lines, references of each: %lld", count("lines"), count("references"));
  if (result.at("metric") == "rouge") {
    return format("ROUGE-1 %.4f, ROUGE-2 %.4f, rougeLsum %.4f (means of F1; ", get("rouge1"),
                  get("rouge2"), get("rougeLsum")) +
           against + ")";
  }
  auto precisions = result.at("precisions").get<std::array<double, 4>>();
  return format("BLEU %.4f (precisions %.1f %.1f %.1f %.1f, brevity penalty %.4f, %lld tokens of "
                "%lld; ",
                get("bleu"), precisions[0], precisions[1], precisions[2], precisions[3],
                get("brevity_penalty"), count("tokens"), count("reference_tokens")) +
         against + ")";
}

} // namespace sluice::cli
