// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "BenchSteps.h"

#include "Common.h"
#include "sluice/Runtime/Data/Data.h"
#include "sluice/Runtime/Data/TextLike.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Json.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

using namespace sluice;
using namespace sluice::runtime;

double cli::trainingStep(Executor &executor, int64_t step) {
  auto start = std::chrono::steady_clock::now();
  executor.runUpdate(step, [](int64_t) {}); // the same for every batch of it
  executor.synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

namespace {

struct LineRows {
  std::string axis;
  std::vector<int64_t> counts; ///< of each line
  int64_t most = 0;
};

/// Returns the rows of the present lines, by axis: of the text, of inputs and of the words of an
/// input. With several inputs that have words, words are left out, as if all rows were computed.
std::vector<LineRows> countLineRows(Executor &executor) {
  const Plan &plan = executor.plan();
  const BatchInputs inputs = executor.inputs();
  std::vector<LineRows> all;
  if (!inputs.lengths.empty()) {
    const std::vector<int64_t> lengths(inputs.lengths.begin(), inputs.lengths.end());
    all.push_back({"", lengths, inputs.context});
    all.push_back({"target", lengths, inputs.context});
  }
  std::set<std::string> divided; // inputs with tokens of others on their axis
  for (const auto &[name, given] : inputs.given) {
    if (!given.counts.empty() && plan.scalars.contains(plan.lengthName(name))) {
      all.push_back({name, {given.counts.begin(), given.counts.end()}, given.capacity});
    }
    if (const std::string &on = plan.given.at(name).on; !on.empty()) {
      divided.insert(on);
    }
  }
  std::set<std::string> words;
  for (const auto &[entry, times] : plan.entriesOfUpdate()) {
    for (const Launch &launch : executor.getLaunches(entry)) {
      words.insert(launch.axis);
    }
  }
  for (const LineRows &rows : all) {
    words.erase(rows.axis);
  }
  for (const SegmentFacts &segments : plan.segments) {
    words.erase(segments.axis);
  }
  for (const std::string &axis : words) {
    if (divided.size() == 1 && plan.scalars.contains(plan.lengthName(axis))) {
      auto lines = static_cast<size_t>(executor.shape().rows);
      all.push_back({axis, executor.scalarsI64(plan.lengthName(axis), lines),
                     inputs.given.at(*divided.begin()).capacity});
    }
  }
  return all;
}

} // namespace

double cli::flopsOfStep(Executor &executor) {
  const Plan &plan = executor.plan();
  struct Share {
    double rows = 0, pairs = 0;
  };
  std::map<std::string, Share> filled; // by axis: the mean of the texts
  auto fill = [&](const std::string &axis, std::span<const int64_t> counts, int64_t most) {
    Share &share = filled[axis];
    for (int64_t computed : counts) {
      double part = static_cast<double>(computed) / static_cast<double>(most);
      share.rows += part / static_cast<double>(counts.size());
      share.pairs += part * part / static_cast<double>(counts.size());
    }
  };
  for (const Executor::SegmentRows &rows : executor.segmentRows()) {
    fill(rows.axis, rows.computed, rows.most);
  }
  for (const auto &[axis, counts, most] : countLineRows(executor)) {
    fill(axis, counts, most);
  }
  double flops = 0;
  for (const auto &[entry, times] : plan.entriesOfUpdate()) {
    for (const Launch &launch : executor.getLaunches(entry)) {
      const PlanKernel &kernel = plan.kernels[static_cast<size_t>(launch.kernel)];
      auto found = filled.find(launch.axis); // none where all rows are computed
      Share share = found == filled.end() ? Share{1, 1} : found->second;
      flops += static_cast<double>(times) * static_cast<double>(kernel.flops) *
               (kernel.kind == "attention" ? share.pairs : share.rows);
    }
  }
  return flops;
}

nlohmann::json cli::measureShortening(Executor &executor) {
  Json losses = Json::object();
  for (const LossFacts &each : executor.plan().losses) {
    losses[each.name] = executor.scalarF32(each.mean);
  }
  return runtime::measureShortening(executor.plan(), losses);
}

namespace {

/// Fills in a file's tokens and labels; rows are as far apart as the file allows.
void fillFromFile(const BatchInputs &into, const std::string &path, const InputFiles &given,
                  const ModelFacts &model, const ReadingOptions &reading) {
  std::span<int32_t> tokens = into.tokens;
  int64_t row = model.context + 1;
  std::vector<ByteFile> files = readByteFiles({Path(path)}, model.vocabulary, row,
                                              "the context and one to predict", nullptr, reading);
  LabelFiles labels(given, {Path(path)}, files, {}, {}, reading);
  int64_t room = files.front().tokenCount() - row;
  for (int64_t i = 0; i < std::ssize(tokens) / row; ++i) {
    int64_t first = i * (room / std::max<int64_t>(1, model.batch - 1));
    files.front().readTokens(
        first, tokens.subspan(static_cast<size_t>(i * row), static_cast<size_t>(row)));
    labels.write(0, first, model.context, i, into);
  }
}

} // namespace

void cli::forceSpaces(std::span<int32_t> tokens, int64_t factor, const ModelFacts &model) {
  constexpr int32_t space = ' ', letter = 'a';
  if (factor < 1 || factor > model.context || model.vocabulary <= letter) {
    throw UserError("expected --forced-factor from 1 to the context of " +
                    std::to_string(model.context) + ", and a vocabulary of bytes, found " +
                    std::to_string(factor) + " and " + std::to_string(model.vocabulary) + " ids");
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    int64_t position = static_cast<int64_t>(i) % (model.context + 1);
    bool isSpace = tokens[i] == space || (tokens[i] >= '\t' && tokens[i] <= '\r');
    tokens[i] = (position + 1) % factor == 0 ? space : isSpace ? letter : tokens[i];
  }
}

void cli::fillTokens(Executor &executor, const std::string &file, int64_t forcedFactor,
                     const InputFiles &labels, const ReadingOptions &reading) {
  const ModelFacts &model = executor.plan().model;
  if (file.empty()) {
    fillTextLike(executor.tokens(), model.vocabulary);
  } else {
    fillFromFile(executor.inputs(), file, labels, model, reading);
  }
  if (forcedFactor != 0) {
    forceSpaces(executor.tokens(), forcedFactor, model);
  }
}

void cli::fillBatch(Executor &executor, const SourceFiles &files) {
  const Plan &plan = executor.plan();
  auto seed = static_cast<uint64_t>(plan.model.seed);
  std::unique_ptr<TrainingSource> source = openTraining(files, plan, seed);
  std::optional<BatchSize> size = source->findBatch({});
  executor.chooseBatch(size);
  source->fill({}, size ? size->rows : plan.model.batch, executor.inputs());
}

int64_t cli::countTokens(Executor &executor) {
  std::span<const int64_t> lengths = executor.inputs().lengths;
  return lengths.empty() ? executor.plan().tokensOfUpdate()
                         : executor.plan().accumulate *
                               std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

void cli::requireForced(const Json &shortening, int64_t factor, const Plan &plan) {
  if (factor == 0) {
    return;
  }
  int64_t context = plan.model.context;
  double expected = double(context) / double(context / factor);
  for (const SegmentFacts &segments : plan.segments) {
    if (!segments.parent.empty() || !shortening.contains(segments.axis)) {
      continue;
    }
    const std::string &axis = segments.axis;
    const Json &found = shortening[axis];
    if (found.is_null() || std::abs(found.get<double>() / expected - 1) > 1e-4) {
      throw UserError(
          "expected segments of \"" + axis + "\" that white space ends, of " +
          std::to_string(factor) + " tokens with --forced-factor, found " +
          (found.is_null() ? "none" : format("%.3f", found.get<double>())) +
          "; give a model whose boundaries have the rule \"whitespace\" and end segments");
    }
  }
  if (shortening.empty()) {
    throw UserError("expected a model with segments for --forced-factor, found none");
  }
}
