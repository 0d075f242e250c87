// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replays a witness. Scores rows against a token that no row reads, so the two runs differ only in
// the token of the witness.
#include "Replay.h"
#include "Recompile.h"

#include "sluice/Runtime/Execute/Executor.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>

namespace sluice::cli {
namespace {

/// Maximum arena of a replay.
constexpr int64_t mostBytes = int64_t{4} << 30;
/// Dropout may drop the path, and a softmax may saturate, so draws numbers several times.
constexpr int attempts = 4;

/// Matrices of deviation 1/sqrt(columns), embeddings 1/2, vectors 1/5, around 1 for gains: no path
/// vanishes, and no softmax saturates.
void setWeights(runtime::Executor &program, int attempt) {
  std::mt19937_64 generator(static_cast<uint64_t>(attempt));
  std::normal_distribution<float> normal;
  for (const runtime::Tensor &tensor : program.plan().tensors) {
    bool isVector = tensor.shape.size() == 1;
    bool isGain = isVector && tensor.name.ends_with("weight");
    float embedding = isVector ? 0.2f : 0.5f;
    float deviation = tensor.decay && !isVector
                          ? 1 / std::sqrt(static_cast<float>(tensor.shape.back()))
                          : embedding;
    for (float &number : program.tensor(tensor)) {
      number = (isGain ? 1.0f : 0.0f) + deviation * normal(generator);
    }
  }
}

/// Returns true if a loss scores predictions of tokens. The other losses of a segmentation,
/// including its prior, score bits, and are computed from bits that are not forced.
bool scoresTokens(const runtime::Plan &plan, const runtime::LossFacts &loss) {
  constexpr std::string_view suffix = "share";
  return std::ranges::none_of(plan.segments, [&](const runtime::SegmentFacts &segments) {
    return !segments.share.empty() &&
           loss.name.starts_with(segments.share.substr(0, segments.share.size() - suffix.size()));
  });
}

/// Returns every loss of the witness's row after running `entry` on the first `length` tokens.
std::vector<float> measureLosses(runtime::Executor &program, const std::string &entry,
                                 int64_t length, int64_t row, int attempt) {
  program.scalarI64("length") = length;
  program.scalarI64("rows") = 1;
  program.scalarI64("seed") = attempt;
  program.scalarI64("step") = attempt + 1;
  program.run(entry);
  std::vector<float> losses;
  auto add = [&](const std::string &output) {
    losses.push_back(program.outputRow(output, 0)[static_cast<size_t>(row)]);
  };
  for (const runtime::LossFacts &loss : program.plan().losses) {
    if (scoresTokens(program.plan(), loss)) {
      add(loss.rows);
    }
  }
  if (losses.empty()) {
    add("losses");
  }
  return losses;
}

/// Writes distinct adjacent tokens, or the tokens of a run, and its bits.
void setTokens(runtime::Executor &program, const SegmentRun *run) {
  std::span<int32_t> tokens = program.tokens();
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(static_cast<int64_t>(i) % program.plan().model.vocabulary);
  }
  if (run) {
    std::ranges::copy(run->tokens, tokens.begin());
    for (size_t i = 0; i < run->bits.size(); ++i) {
      for (const runtime::Tensor &tensor : program.plan().tensors) {
        if (tensor.name == forcedName(i)) {
          std::ranges::copy(run->bits[i], program.tensor(tensor).begin());
        }
      }
    }
    program.prepare();
  }
}

double computeDifference(const std::vector<float> &before, const std::vector<float> &after) {
  double change = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    change =
        std::max(change, std::abs(static_cast<double>(after[i]) - static_cast<double>(before[i])));
  }
  return change;
}

/// Finds the first run whose row differs from the first run's row.
double compareRuns(runtime::Executor &program, const std::string &entry, CausalWitness &witness,
                   int attempt) {
  auto losses = [&](const SegmentRun &run) {
    setTokens(program, &run);
    return measureLosses(program, entry, witness.length, witness.row, attempt);
  };
  std::vector<float> before = losses(witness.runs[0]);
  for (size_t i = 1; i < witness.runs.size(); ++i) {
    double change = computeDifference(before, losses(witness.runs[i]));
    if (change > 0) {
      witness.shown = i;
      return change;
    }
  }
  return 0;
}

void replay(runtime::Executor &program, const std::string &entry, CausalWitness &witness) {
  int64_t longer = std::max(witness.length, witness.token + 1);
  double change = 0;
  for (int attempt = 0; attempt < attempts && change == 0; ++attempt) {
    setWeights(program, attempt);
    program.prepare();
    if (!witness.runs.empty()) {
      change = compareRuns(program, entry, witness, attempt);
      continue;
    }
    setTokens(program, nullptr);
    std::vector<float> before = measureLosses(program, entry, witness.length, witness.row, attempt);
    int32_t &token = program.tokens()[static_cast<size_t>(witness.token)];
    if (witness.token < witness.length) {
      token = static_cast<int32_t>((token + 1) % program.plan().model.vocabulary);
    }
    std::vector<float> after = measureLosses(program, entry, longer, witness.row, attempt);
    change = computeDifference(before, after);
  }
  witness.change = change;
  witness.replay = change > 0 ? Replay::Changed : Replay::Unchanged;
  witness.program = ReplayProgram::Compiled;
}

} // namespace

bool replayCompiled(const driver::CheckRequest &checked, const CausalVerdict &refused,
                    CausalWitness &witness) {
  const std::string &mode = refused.refusedMode;
  bool hasLosses = mode == "eval" || mode == "train";
  if (runtime::machineTargets().empty() || !hasLosses || witness.runs.size() == 1) {
    return false;
  }
  int64_t longer = std::max(witness.length, witness.token + 1);
  driver::CompileRequest request;
  request.spec = checked.spec;
  request.text = checked.text;
  request.settings = checked.settings;
  request.kernelCache = checked.kernelCache;
  if (refused.refusedFactor != 0) {
    request.factor = refused.refusedFactor;
  }
  request.inMemory = true;
  setMachine(request);
  std::string entry = mode == "train" ? "gradient" : "evaluate";
  request.hasGradient = entry == "gradient";
  request.replay = {.targetOffset = longer - witness.row,
                    .batch = 1,
                    .bits = witness.runs.empty() ? ForcedBits() : witness.runs[0].bits};
  try {
    driver::Outcome compiled = driver::compile(request);
    if (compiled.status != 0) {
      return false;
    }
    auto artifact = runtime::Artifact::fromBytes({compiled.output.begin(), compiled.output.end()},
                                                 checked.spec);
    if (longer > artifact->plan().model.context || artifact->plan().memory.arenaBytes > mostBytes) {
      return false;
    }
    runtime::Executor program(artifact, runtime::availableThreads());
    replay(program, entry, witness);
    return true;
  } catch (const std::exception &) {
    return false; // the verdict is valid even if the replay stops
  }
}

} // namespace sluice::cli
