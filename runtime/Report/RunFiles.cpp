// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "RunFiles.h"

#include "Html.h"
#include "sluice/Runtime/Tokenizer/FileEncoder.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/StrictJson.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <set>

namespace sluice::runtime {

Json optionalJson(const Path &path) {
  if (!isRegularFile(path)) {
    return nullptr;
  }
  Json json = parseJson(readText(path, "part of the run")).value;
  return json.is_object() ? json : Json(nullptr);
}

double numberIn(const Json &json, const char *key) {
  return json.is_object() && json.contains(key) && json[key].is_number() ? json[key].get<double>()
                                                                         : 0;
}

Json objectIn(const Json &json, const char *key) {
  return json.is_object() && json.contains(key) && json[key].is_object() ? json[key]
                                                                         : Json::object();
}

std::string textIn(const Json &json, const char *key) {
  return json.is_object() && json.contains(key) && json[key].is_string()
             ? json[key].get<std::string>()
             : "";
}

RunFiles::RunFiles(const Path &run) : run(run) {
  if (!isFolder(run)) {
    throw UserError(run.string() +
                    ": expected a run's directory, found none; name the --out of sluice train");
  }
  lines = readLines(run / "metrics.jsonl", &damaged);
  if (lines.empty()) {
    throw UserError((run / "metrics.jsonl").string() +
                    ": expected the run's metrics, found none; train first");
  }
  costs = optionalJson(run / "costs.json");
  evaluation = optionalJson(run / "eval.json");
  ngram = optionalJson(run / "ngram.json");
  record = readRunRecord(run);
  name = textIn(costs, "name");
  if (name.empty()) {
    std::error_code ignored;
    name = std::filesystem::absolute(run, ignored).filename().string();
  }
}

bool RunFiles::isLeakAllowed() const {
  auto marked = [](const Json &line) { return line.contains("leak_allowed"); };
  std::string verdict = textIn(objectIn(costs, "proof"), "verdict");
  return (!verdict.empty() && verdict != "proved") ||
         std::any_of(lines.begin(), lines.end(), marked);
}

std::vector<Point> RunFiles::series(const char *field, const std::string &member) const {
  std::vector<Point> points;
  for (const Json &line : lines) {
    const Json *value = line.contains(field) ? &line[field] : nullptr;
    if (value && !member.empty()) {
      value = value->is_object() && value->contains(member) ? &(*value)[member] : nullptr;
    }
    if (value && value->is_number() && line.contains("step") && line["step"].is_number()) {
      points.push_back({line["step"].get<double>(), value->get<double>()});
    }
  }
  return points;
}

std::optional<Point> RunFiles::bestEvaluation() const {
  std::vector<Point> heldOut = heldOutBits();
  try { // evaluations before the best one may have used other text
    std::optional<RunLosses> losses = readTrainingState(run).losses;
    if (losses && losses->heldOut.best) {
      std::erase_if(heldOut, [first = static_cast<double>(losses->heldOut.best->step)](
                                 const Point &each) { return each.x < first; });
    }
  } catch (const UserError &) { // no checkpoint, or a damaged one
  }
  auto best = std::min_element(heldOut.begin(), heldOut.end(),
                               [](const Point &a, const Point &b) { return a.y < b.y; });
  return best == heldOut.end() ? std::nullopt : std::optional(*best);
}

std::vector<std::string> RunFiles::findMembers(const char *field) const {
  std::set<std::string> names;
  for (const Json &line : lines) {
    const Json members = objectIn(line, field);
    for (const auto &[name, value] : members.items()) {
      names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

namespace {

/// Describes the results of `sluice eval --json`, or of a line of metrics with prefixed keys.
std::string describeCharacterCounts(const Json &numbers, const std::string &prefix) {
  std::string number = prefix + "bits_per_character", reason = prefix + "no_characters";
  if (numbers.contains(number) && numbers[number].is_number()) {
    return showNumber(numberIn(numbers, number.c_str()), 4) + " bits per character";
  }
  return numbers.contains(reason)
             ? "no bits per character (" + textIn(numbers, reason.c_str()) + ")"
             : "";
}

/// Joins the parts of a note with commas; empty parts are omitted.
std::string joinNotes(std::initializer_list<std::string> parts) {
  std::string note;
  for (const std::string &part : parts) {
    note += (note.empty() || part.empty() ? "" : ", ") + part;
  }
  return note;
}

} // namespace

std::string RunFiles::describeCharacters(double step) const {
  for (const Json &line : lines) {
    if (numberIn(line, "step") == step && line.contains("eval_bits_per_" + unit())) {
      return describeCharacterCounts(line, "eval_");
    }
  }
  return "";
}

namespace {

std::string describeSmoothing(size_t count) {
  return "mean of the last " + std::to_string(count) + " logged steps";
}

/// Returns the tokens per segment over the last `count` logged steps that have the number; 0 if
/// they had no segments.
double tokensOfSegment(const std::vector<Json> &lines, const std::string &name, size_t &count) {
  double segments = 0; // per token
  count = 0;
  for (size_t i = lines.size(); i-- > 0 && count < smoothedSteps;) {
    Json factors = objectIn(lines[i], "shortening_factor");
    if (factors.contains(name)) {
      double factor = numberIn(factors, name.c_str()); // null: no segments
      segments += factor > 0 ? 1 / factor : 0;
      ++count;
    }
  }
  return segments > 0 ? static_cast<double>(count) / segments : 0;
}

std::string showBits(double bits, const std::string &unit) {
  return showNumber(bits, 4) + " bits per " + unit;
}

std::string showFactor(double factor) { return factor > 0 ? showNumber(factor, 3) : "no segments"; }

/// Adds the measured shortening factors, in training and in the last evaluation.
void addShortening(Facts &facts, const RunFiles &run) {
  for (const std::string &name : run.findMembers("shortening_factor")) {
    size_t count = 0;
    double factor = tokensOfSegment(run.lines, name, count);
    facts.emplace_back("tokens a segment of " + name + ", training", showFactor(factor),
                       describeSmoothing(count));
  }
  for (const std::string &name : run.findMembers("eval_shortening_factor")) {
    auto last = std::find_if(run.lines.rbegin(), run.lines.rend(), [](const Json &line) {
      return line.contains("eval_shortening_factor");
    });
    facts.emplace_back(
        "tokens a segment of " + name + ", held-out text",
        showFactor(numberIn(objectIn(*last, "eval_shortening_factor"), name.c_str())),
        "step " + showNumber(numberIn(*last, "step"), 0));
  }
}

/// Returns the seconds of the steps only, from the speeds in logged lines; 0 if unknown.
double trainingSeconds(const std::vector<Json> &lines, double tokensPerStep) {
  double seconds = 0, before = 0;
  for (const Json &line : lines) {
    double step = numberIn(line, "step"), speed = numberIn(line, "tokens_per_s");
    if (speed > 0) {
      seconds += (step - before) * tokensPerStep / speed;
      before = step;
    }
  }
  return seconds;
}

double tokensPerStep(const Json &costs) {
  return numberIn(costs, "context") * numberIn(costs, "batch");
}

double countTokens(const std::vector<DataFile> &files) {
  double tokens = 0;
  for (const DataFile &file : files) {
    tokens += file.used ? static_cast<double>(file.tokenCount()) : 0;
  }
  return tokens;
}

/// Returns "2 files, 1234 bytes: a, b; skipped, too short: c".
std::string describeFiles(const std::vector<DataFile> &files) {
  constexpr size_t mostNamed = 8;
  std::string used, skipped;
  size_t count = 0;
  for (const DataFile &file : files) {
    std::string &names = file.used ? used : skipped;
    if (count++ < mostNamed) {
      names += (names.empty() ? "" : ", ") + file.path;
    }
  }
  if (files.empty()) {
    return "none";
  }
  std::string more = count > mostNamed ? " and " + std::to_string(count - mostNamed) + " more" : "";
  return describeCount(static_cast<int64_t>(count), "file") + ", " +
         showNumber(countTokens(files), 0) + (files.front().tokens ? " token ids: " : " bytes: ") +
         used + (skipped.empty() ? "" : "; skipped, too short: " + skipped) + more;
}

/// Returns "the first 4096 tokens alone" if evaluations scored only a part of the held-out text.
std::string describeShare(const std::vector<Json> &lines, const std::optional<RunRecord> &record) {
  double scored = 0, all = 0;
  for (const Json &line : lines) {
    scored = line.contains("eval_tokens") ? numberIn(line, "eval_tokens") : scored;
  }
  for (const DataFile &file : record ? record->heldOut : std::vector<DataFile>()) {
    all += file.used ? static_cast<double>(file.tokenCount() - 1) : 0;
  }
  return scored > 0 && scored < all ? "the first " + showNumber(scored, 0) + " tokens alone" : "";
}

std::string describeWeights(const RunFiles &run, double at) {
  std::string step = showNumber(at, 0);
  bool isSaved = isThere(run.run / "checkpoints" / step);
  return isSaved ? "its weights are checkpoints/" + step : "its weights were not kept";
}

/// Adds the number of steps that were counted as divergence.
void addDivergence(Facts &facts, const std::vector<Json> &lines) {
  auto isDiverged = [](const Json &line) { return line.contains("diverged"); };
  auto first = std::find_if(lines.begin(), lines.end(), isDiverged);
  if (first == lines.end()) {
    return;
  }
  auto last = std::find_if(lines.rbegin(), lines.rend(), isDiverged);
  facts.emplace_back("diverged",
                     "found at step " + showNumber(numberIn(*first, "step"), 0) +
                         (last == lines.rbegin() ? ", and still at the last step"
                                                 : ", for the last time at step " +
                                                       showNumber(numberIn(*last, "step"), 0)));
}

void addEvaluation(Facts &facts, const Json &evaluation) {
  if (!evaluation.is_object()) {
    return;
  }
  std::string unit = findLossUnit(evaluation, "bits_per_");
  facts.emplace_back("evaluation",
                     showBits(numberIn(evaluation, ("bits_per_" + unit).c_str()), unit),
                     joinNotes({describeCharacterCounts(evaluation, ""),
                                "perplexity " + showNumber(numberIn(evaluation, "perplexity"), 3),
                                showNumber(numberIn(evaluation, "tokens"), 0) + " tokens"}));
  facts.emplace_back("protocol of the evaluation", textIn(evaluation, "protocol"));
}

} // namespace

std::string RunFiles::unit() const {
  for (const char *unit : {"chunk", "token"}) {
    auto has = [key = std::string("bits_per_") + unit](const Json &line) {
      return line.contains(key) || line.contains("eval_" + key);
    };
    if (std::ranges::any_of(lines, has)) {
      return unit;
    }
  }
  return "byte";
}

std::vector<Point> RunFiles::trainingBits() const { return series(("bits_per_" + unit()).c_str()); }
std::vector<Point> RunFiles::heldOutBits() const {
  return series(("eval_bits_per_" + unit()).c_str());
}

std::vector<Point> RunFiles::smoothedLoss() const { return smooth(trainingBits(), smoothedSteps); }

std::vector<std::pair<std::string, double>> RunFiles::ngrams() const {
  std::vector<std::pair<std::string, double>> models;
  if (ngram.is_object() && ngram.contains("orders") && ngram["orders"].is_array()) {
    for (const Json &each : ngram["orders"]) {
      double order = numberIn(each, "order");
      models.emplace_back(order == 2   ? "bigram"
                          : order == 3 ? "trigram"
                                       : showNumber(order, 0) + "-gram",
                          numberIn(each, "bits_per_byte"));
    }
  }
  return models;
}

double RunFiles::lastStep() const { return numberIn(lines.back(), "step"); }

Facts RunFiles::results() const {
  Facts facts;
  std::string planned = record && static_cast<double>(record->steps) > lastStep()
                            ? " of " + std::to_string(record->steps)
                            : "";
  facts.emplace_back("steps", showNumber(lastStep(), 0) + planned);
  if (double seconds = trainingSeconds(lines, tokensPerStep(costs)); seconds > 0) {
    facts.emplace_back("time in training steps", showDuration(seconds));
  }
  if (std::vector<Point> losses = smoothedLoss(); !losses.empty()) {
    facts.emplace_back("training loss, smoothed", showBits(losses.back().y, unit()),
                       describeSmoothing(std::min(losses.size(), smoothedSteps)));
    facts.emplace_back("training loss, last step", showBits(trainingBits().back().y, unit()));
  } else if (std::vector<Point> nats = series("loss"); !nats.empty()) {
    facts.emplace_back("training loss, last step", showNumber(nats.back().y, 4) + " nats",
                       objectIn(lines.back(), "chunks").contains("next")
                           ? "per chunk" // a contrast of an earlier version
                           : "against smoothed labels or a target, not the text's " + unit() + "s");
  }
  std::vector<Point> heldOut = heldOutBits();
  if (!heldOut.empty()) {
    facts.emplace_back(
        "held-out text, last evaluation", showBits(heldOut.back().y, unit()),
        joinNotes({"step " + showNumber(heldOut.back().x, 0), describeCharacters(heldOut.back().x),
                   describeShare(lines, record)}));
    if (std::optional<Point> best = bestEvaluation()) {
      facts.emplace_back(
          "held-out text, best evaluation", showBits(best->y, unit()),
          joinNotes({"step " + showNumber(best->x, 0), describeWeights(*this, best->x)}));
    }
  }
  if (std::vector<Point> bytes = series("eval_bits_per_byte");
      unit() == "token" && !bytes.empty()) {
    facts.emplace_back("held-out text per byte, last evaluation", showBits(bytes.back().y, "byte"),
                       "step " + showNumber(bytes.back().x, 0));
  }
  addDivergence(facts, lines);
  addShortening(facts, *this);
  addEvaluation(facts, evaluation);
  for (const auto &[name, bits] : ngrams()) {
    facts.emplace_back(name + ", Witten-Bell", showBits(bits, "byte"));
  }
  return facts;
}

Facts RunFiles::data() const {
  Facts facts;
  if (!record) {
    return facts;
  }
  double all = countTokens(record->data);
  facts.emplace_back("training text", describeFiles(record->data));
  facts.emplace_back("held-out text", describeFiles(record->heldOut));
  double tokens = numberIn(lines.back(), "step") * tokensPerStep(costs);
  if (tokens > 0 && all > 0) {
    facts.emplace_back("tokens trained on", showNumber(tokens, 0),
                       showNumber(tokens / all, 2) + " times the training text");
  }
  if (Path path = run / runTokenizer; isRegularFile(path)) {
    Tokenizer tokenizer = Tokenizer::open(path);
    facts.emplace_back("tokenizer",
                       std::string(tokenizer.kind()) + ", " + std::to_string(tokenizer.size()) +
                           " ids",
                       "hash " + tokenizer.hash().substr(0, 16));
  }
  facts.emplace_back("seed", std::to_string(record->seed));
  if (record->weights) {
    facts.emplace_back(
        "weights it began from",
        record->weights->file + ", " +
            describeCount(static_cast<int64_t>(record->weights->taken.size()), "tensor"));
  }
  for (const SpecChange &change : record->changes) {
    facts.emplace_back(change.step == 0 ? "set from the start"
                                        : "changed after step " + std::to_string(change.step),
                       listSettings(change.settings));
  }
  return facts;
}

} // namespace sluice::runtime
