// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "TrainingFacts.h"

#include "sluice/Runtime/Execute/Evaluator.h"
#include "sluice/Runtime/Generate/Generator.h"
#include "sluice/Runtime/Plan/Inspect.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/StrictJson.h"

#include <algorithm>
#include <numbers>

namespace sluice::runtime {

void checkOptions(const TrainingOptions &options) {
  auto atLeast = [](const char *name, int64_t value, int64_t least) {
    if (value < least) {
      throw UserError(std::string("expected ") + name + " of at least " + std::to_string(least) +
                      ", found " + std::to_string(value));
    }
  };
  atLeast("a number of steps", options.steps.value_or(0), 0);
  atLeast("a distance between logged steps", options.logEvery, 1);
  atLeast("a distance between evaluations", options.evaluateEvery, 1);
  atLeast("a number of held-out tokens", options.evaluateTokens, 0);
  atLeast("a distance between checkpoints", options.saveEvery, 1);
  atLeast("a number of checkpoints to keep", options.keep, 1);
  atLeast("a number of sampled tokens", options.sampleTokens, 0);
  atLeast("a seed", options.seed.value_or(0), 0);
  atLeast("a patience", options.patience, 0);
  atLeast("a step to go back to", options.from.value_or(0), 0);
}

std::vector<DataFile> listFiles(const std::vector<ByteFile> &used,
                                const std::vector<ByteFile> &skipped) {
  std::vector<DataFile> list;
  for (const auto &[files, isUsed] : {std::pair(&used, true), std::pair(&skipped, false)}) {
    for (const ByteFile &file : *files) {
      list.push_back({std::filesystem::absolute(file.source()).lexically_normal().string(),
                      static_cast<int64_t>(file.bytes.size()), isUsed,
                      file.isText() ? std::nullopt : std::optional(file.tokenCount())});
    }
  }
  return list;
}

/// Computes `trainsOnTokens` for an artifact of an earlier version, whose plan does not have it.
static bool trainsOnTokensByText(const ModelFacts &model) {
  // The text is searched for the keys first: most specs have neither, and parsing may be slow.
  if (model.spec.find("\"label_smoothing\"") == std::string::npos &&
      model.spec.find("\"target\"") == std::string::npos) {
    return true;
  }
  Json spec = parseJson(model.spec).value; // null if the model was compiled from IR
  if (!spec.is_object() || !spec.contains("stages") || !spec["stages"].is_array() ||
      spec["stages"].empty()) {
    return true;
  }
  const Json &head = spec["stages"].back();
  auto smoothing = head.find("label_smoothing");
  bool isSmoothed = smoothing != head.end() && smoothing->is_number() && *smoothing > 0;
  return !isSmoothed && !head.contains("target");
}

bool trainsOnTokens(const Plan &plan) {
  return plan.trainsOnTokens ? *plan.trainsOnTokens : trainsOnTokensByText(plan.model);
}

/// Returns a mean of the last update; null if the model counts its rows and counted none.
static Json getMean(Executor &executor, const std::string &loss, double mean) {
  const CountedLoss *counted = executor.plan().findCounted(loss);
  return counted && executor.scalarF32(counted->sum) == 0 ? Json(nullptr) : Json(mean);
}

static Json toBits(const Json &nats) {
  return nats.is_null() ? nats : Json(nats.get<double>() / std::numbers::ln2);
}

Json describeStep(Executor &executor, int64_t step, double objective, double norm, bool isText) {
  const Plan &plan = executor.plan();
  Json losses = Json::object(); // by name, if there are several
  for (const LossFacts &each : plan.losses) {
    losses[each.name] = getMean(executor, each.name, executor.scalarF32(each.mean));
  }
  Json loss = losses.empty() ? getMean(executor, "", objective) : losses[plan.losses.front().name];
  Json metrics = {{"step", step},
                  {"loss", loss},
                  {"learning_rate", executor.scalarF32("learning_rate")},
                  {"grad_norm", norm}};
  if (trainsOnTokens(plan) || plan.findCounted()) {
    metrics["bits_per_" + nameLossUnit(plan, isText)] = toBits(loss);
  }
  for (const CountedLoss &each : plan.counted) {
    metrics["chunks"][each.loss] = static_cast<int64_t>(executor.scalarF32(each.sum));
  }
  for (const GroupFacts &group : plan.groups) { // computed as by the optimizer's kernel
    metrics["group_rates"][group.match] =
        executor.scalarF32("learning_rate") * static_cast<float>(group.factor);
  }
  if (!plan.factors.empty()) {
    metrics["factor"] = executor.factor();
  }
  if (!losses.empty()) {
    metrics["objective"] = objective;
    metrics["losses"] = losses;
    addShortening(metrics, "shortening_factor", losses, plan);
  }
  return metrics;
}

void RowCounts::add(const Plan &plan, const BatchInputs &inputs, int64_t lines) {
  ++batches;
  // Kernels of an axis without lengths compute all of its rows.
  auto count = [&](const std::string &axis, bool hasLengths, std::span<const int64_t> lengths,
                   int64_t capacity) {
    size_t own = std::min(lengths.size(), static_cast<size_t>(lines)); // none of a second stream
    for (int64_t length : lengths.first(own)) {
      int64_t rows = hasLengths ? std::min(length, capacity) : capacity;
      axes[axis].computed += rows;
      axes[axis].padding += std::max<int64_t>(0, rows - length);
    }
  };
  if (!inputs.lengths.empty()) {
    count("tokens", true, inputs.lengths, plan.model.context);
  } else if (!inputs.padding.empty()) {
    axes["tokens"].computed += std::ssize(inputs.padding);
    axes["tokens"].padding +=
        std::ranges::count_if(inputs.padding, [](float mark) { return mark != 0; });
  }
  for (const auto &[name, given] : inputs.given) {
    count(name, plan.scalars.contains(plan.lengthName(name)), given.counts, given.capacity);
  }
}

void RowCounts::write(Json &metrics) const {
  for (const auto &[axis, rows] : axes) {
    metrics["rows"][axis] = {{"computed", rows.computed}, {"padding", rows.padding}};
  }
}

void addShortening(Json &metrics, const char *key, const Json &losses, const Plan &plan) {
  if (Json factors = measureShortening(plan, losses); !factors.empty()) {
    metrics[key] = std::move(factors);
  }
}

void addEvaluation(Json &metrics, const EvaluationResult &result, const Plan &plan) {
  std::optional<double> each = result.bitsPerUnit(), bits = result.bitsPerByte();
  auto orNull = [&](double number) { return each ? Json(number) : Json(nullptr); };
  metrics["eval_loss"] = orNull(result.nats / static_cast<double>(result.countUnits()));
  if (bits) {
    metrics["eval_bits_per_byte"] = *bits;
  }
  if (!bits || result.isEncoded) {
    metrics["eval_bits_per_" + nameLossUnit(plan, /*isText=*/false)] = orNull(each.value_or(0));
    metrics["eval_perplexity"] = orNull(result.perplexity());
  }
  metrics["eval_tokens"] = result.tokens;
  if (!result.counted.empty()) {
    metrics["eval_chunks"] = result.counted;
  }
  if (result.characters) {
    metrics["eval_bits_per_character"] = *result.bitsPerCharacter();
    metrics["eval_characters"] = *result.characters;
  } else {
    metrics["eval_bits_per_character"] = nullptr;
    metrics["eval_no_characters"] = result.noCharacters;
  }
  if (Json named = result.lossesByName(); !named.empty()) {
    addShortening(metrics, "eval_shortening_factor", named, plan);
    metrics["eval_losses"] = std::move(named);
  }
}

double readHeadLoss(Executor &executor) {
  const Plan &plan = executor.plan();
  if (plan.losses.empty()) {
    return executor.scalarF32("loss");
  }
  const LossFacts &head = plan.losses.front();
  double sum = 0;
  int64_t count = 0;
  for (int64_t row = 0; row < executor.shape().rows; ++row) {
    std::span<const float> nats = executor.outputRow(head.rows, row);
    for (auto t = static_cast<size_t>(head.first); t < nats.size(); ++t) {
      sum += nats[t];
      count += nats[t] != 0 ? 1 : 0;
    }
  }
  return sum / static_cast<double>(std::max<int64_t>(1, count));
}

Json drawSample(Executor &executor, const TrainingOptions &options, const TrainingState &state,
                const std::function<bool()> &ends) {
  constexpr double temperature = 0.8;
  std::string text;
  SamplingOptions sampling;
  sampling.temperature = temperature;
  sampling.seed = static_cast<uint64_t>(state.seed);
  generate(
      executor, options.samplePrompt, options.sampleTokens, sampling,
      [&](uint8_t byte) {
        text += static_cast<char>(byte);
        return !ends();
      },
      options.data.reading.encoder);
  return {{"step", state.step},
          {"prompt", options.samplePrompt},
          {"text", text},
          {"temperature", temperature}};
}

std::string hashHeldOut(const HeldOut &heldOut, int64_t tokens) {
  std::string parts = std::to_string(tokens);
  for (const ByteFile &file : heldOut.usedFiles()) {
    parts += (file.isText() ? "" : std::string(file.layout.typeName())) + file.bytes.sha256Hex();
  }
  return sha256Hex(asBytes(parts));
}

/// Returns the size of a checkpoint's tensors in bytes.
static double checkpointBytes(const Plan &plan) {
  int64_t numbers = 0;
  for (const Tensor &tensor : plan.tensors) {
    numbers += tensor.elements() * (1 + std::ssize(tensor.states));
  }
  return static_cast<double>(numbers) * sizeof(float);
}

/// Describes which of the steps after `done` run at the floor of the schedule; empty if none does.
static std::string describeScheduleEnd(const TrainingOptions &options, int64_t done, int64_t goal) {
  const std::optional<ScheduleEnd> &end = options.scheduleEnd;
  if (!end || goal <= end->step || goal <= done) {
    return "";
  }
  int64_t first = std::max(end->step, done) + 1;
  std::string steps =
      first == goal ? "step " + std::to_string(goal) + " runs"
                    : "steps " + std::to_string(first) + " to " + std::to_string(goal) + " run";
  return format("note: %s at the schedule's floor, a learning rate of %g: the spec's schedule ends "
                "at step %lld; --set %s=%lld spans all",
                steps.c_str(), end->rate, static_cast<long long>(end->step), end->key.c_str(),
                static_cast<long long>(goal - end->before));
}

std::vector<std::string> listNotes(const TrainingOptions &options, const TrainingSource *data,
                                   const HeldOut &heldOut, const Plan &plan, int64_t done,
                                   int64_t goal) {
  std::vector<std::string> notes = data ? data->notes() : std::vector<std::string>();
  for (const std::string &note : heldOut.notes()) {
    notes.push_back("held-out text: " + note);
  }
  if (goal > done && !trainsOnTokens(plan)) {
    notes.push_back(
        plan.entries.contains("predict")
            ? "the head trains on smoothed labels or a target, so lines of training "
              "have no bits per byte; those of held-out text are of its bytes"
            : "the model ends in a loss among rows, so lines have bits per chunk in place of "
              "bits per byte");
  }
  if (heldOut.isThere() && options.keepBest && goal > done) {
    notes.push_back("the checkpoint that is best on the held-out text is kept in addition to the "
                    "newest ones: " +
                    showBytes(checkpointBytes(plan)) +
                    " of disk; --no-keep-best saves none for it");
  }
  if (std::string note = describeScheduleEnd(options, done, goal); !note.empty()) {
    notes.push_back(note);
  }
  return notes;
}

std::string describeImpatience(int64_t step, int64_t goal, int64_t worse) {
  return format("training ends after step %lld of %lld, as %lld evaluations gave nothing better: ",
                static_cast<long long>(step), static_cast<long long>(goal),
                static_cast<long long>(worse));
}

std::string describeBest(const MeasuredLoss &best, const std::string &unit) {
  return format("the held-out text was best after step %lld, with %.4f bits per %s",
                static_cast<long long>(best.step), best.nats / std::numbers::ln2, unit.c_str());
}

std::string nameDataFlags(const SourceFiles &files) {
  std::string flags = "--data";
  for (const auto &[flag, isGiven] : {std::pair(files.inputFlag, !files.inputs.empty()),
                                      std::pair(files.labelFlag, !files.labels.empty())}) {
    flags += isGiven ? " and " + flag : "";
  }
  return flags;
}

/// Returns the hashes of the files of held-out text.
static std::vector<std::string> listHeldOutHashes(const RunCommand &command) {
  std::vector<std::string> hashes;
  for (const CommandFile &file : command.files) {
    if (file.flag.starts_with("--eval-")) {
      hashes.push_back(file.flag + file.name + file.sha256);
    }
  }
  return hashes;
}

/// Returns the sizes of the files in use, in bytes.
static std::vector<int64_t> listSizes(const std::vector<DataFile> &files) {
  std::vector<int64_t> sizes;
  for (const DataFile &file : files) {
    if (file.used) {
      sizes.push_back(file.bytes);
    }
  }
  return sizes;
}

std::string describeHeldOutChange(const RunRecord &before, const RunRecord &now, bool isEvaluated) {
  if (before.heldOut.empty()) {
    return "";
  }
  if (!isEvaluated) {
    return "note: without --eval-data the run's held-out text is not evaluated from here on";
  }
  if (!now.command) {
    return "";
  }
  bool isSameSize = listSizes(before.heldOut) == listSizes(now.heldOut);
  bool hasHashes = before.command && !listHeldOutHashes(*before.command).empty();
  bool isSame = hasHashes ? listHeldOutHashes(*before.command) == listHeldOutHashes(*now.command)
                          : isSameSize;
  if (!isSame) {
    return "note: the held-out text is not the text that the run had: its losses do not compare "
           "with earlier ones";
  }
  return hasHashes ? ""
                   : "note: run.json has the size of the held-out text alone, which is the same; "
                     "its SHA-256 is recorded now, and later calls compare it";
}

std::string describeOtherTrainingData(const std::optional<RunCommand> &told,
                                      const std::optional<RunCommand> &now, const Path &run,
                                      const std::string &toldHash, const std::string &hash) {
  constexpr size_t digits = 16; // enough to distinguish them
  std::string other;
  if (told && now) {
    RunCommand read = *now;
    for (CommandFile &file : read.files) {
      if (isRegularFile(run / file.path)) {
        file.sha256.clear(); // known hashes may be outdated
      }
    }
    measureFiles(read, run, std::nullopt);
    other = describeOtherData(*told, read, run);
  }
  return other.empty() ? "data of SHA-256 " + hash.substr(0, digits) + ", expected " +
                             toldHash.substr(0, digits)
                       : other;
}

} // namespace sluice::runtime
