// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Generate/Sampling.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Hash.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice::runtime {

void checkSampling(const SamplingOptions &options) {
  auto require = [](bool holds, const std::string &flag, const char *expected, double found) {
    if (!holds || !std::isfinite(found)) {
      throw UserError(flag + ": expected " + expected + ", found " + format("%.9g", found) +
                      "; change " + flag);
    }
  };
  require(options.temperature >= 0, "--temperature", "a finite temperature of at least 0",
          options.temperature);
  require(options.topP > 0 && options.topP <= 1, "--top-p", "a top-p above 0 and at most 1",
          options.topP);
  require(options.minP >= 0 && options.minP <= 1, "--min-p", "a min-p from 0 to 1", options.minP);
  require(options.typical > 0 && options.typical <= 1, "--typical",
          "a typical probability above 0 and at most 1", options.typical);
  require(options.repetitionPenalty > 0, "--repetition-penalty",
          "a finite repetition penalty above 0 (1 is none)", options.repetitionPenalty);
  if (options.topK < 0) {
    throw UserError("--top-k: expected a top-k of at least 0, found " +
                    std::to_string(options.topK) + "; change --top-k");
  }
}

void checkPrompt(std::span<const int32_t> prompt, int64_t vocabulary, const std::string &name,
                 const std::string &unit) {
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] < 0 || prompt[i] >= vocabulary) {
      throw UserError(name + ": " + unit + " " + std::to_string(i) +
                      ": expected token ids below the vocabulary of " + std::to_string(vocabulary) +
                      ", found " + std::to_string(prompt[i]) + "; change the prompt");
    }
  }
}

namespace {

struct Candidate {
  size_t id = 0;
  double weight = 0; // probability times the sum of all weights
};

/// Truncates to the shortest prefix, of at least one candidate, whose weights reach `share` of the
/// sum.
void keepShare(std::vector<Candidate> &candidates, double share) {
  double sum = 0, reached = 0;
  for (const Candidate &candidate : candidates) {
    sum += candidate.weight;
  }
  size_t kept = 0;
  while (kept < candidates.size() && (kept == 0 || reached < share * sum)) {
    reached += candidates[kept++].weight;
  }
  candidates.resize(kept);
}

/// Locally typical sampling (Meister et al.): sorts by the distance of -log p from its mean, the
/// entropy.
void keepTypical(std::vector<Candidate> &candidates, double share) {
  double sum = 0, entropy = 0;
  for (const Candidate &candidate : candidates) {
    sum += candidate.weight;
  }
  auto surprise = [&](const Candidate &candidate) { return -std::log(candidate.weight / sum); };
  for (const Candidate &candidate : candidates) {
    entropy += candidate.weight > 0 ? candidate.weight / sum * surprise(candidate) : 0;
  }
  auto likeliestFirst = [](const Candidate &a, const Candidate &b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  };
  auto distance = [&](const Candidate &each) { return std::abs(surprise(each) - entropy); };
  std::sort(candidates.begin(), candidates.end(), [&](const Candidate &a, const Candidate &b) {
    return distance(a) != distance(b) ? distance(a) < distance(b) : likeliestFirst(a, b);
  });
  keepShare(candidates, share);
  std::sort(candidates.begin(), candidates.end(), likeliestFirst);
}

/// Repetition penalty (Keskar et al., CTRL): makes tokens of the text less probable.
std::vector<double> penalized(std::span<const float> logits, double penalty,
                              std::span<const int32_t> text) {
  std::vector<double> result(logits.begin(), logits.end());
  if (penalty == 1) {
    return result;
  }
  std::vector<bool> seen(result.size());
  for (int32_t token : text) {
    auto id = static_cast<size_t>(token);
    if (id < seen.size() && !seen[id]) {
      seen[id] = true;
      result[id] = result[id] > 0 ? result[id] / penalty : result[id] * penalty;
    }
  }
  if (!std::ranges::all_of(result, [](double logit) { return std::isfinite(logit); })) {
    throw UserError(format("--repetition-penalty: expected one with which logits stay finite, "
                           "found %.9g; change --repetition-penalty",
                           penalty));
  }
  return result;
}

/// Returns the `count` most probable ids, most probable first. Takes time V log `count` of V ids.
std::vector<Candidate> ranked(const std::vector<double> &logits, size_t count) {
  std::vector<Candidate> candidates(logits.size());
  for (size_t id = 0; id < logits.size(); ++id) {
    candidates[id].id = id;
  }
  auto isBefore = [&](const Candidate &a, const Candidate &b) {
    return logits[a.id] != logits[b.id] ? logits[a.id] > logits[b.id] : a.id < b.id;
  };
  auto end = candidates.begin() + static_cast<std::ptrdiff_t>(count);
  if (end == candidates.end()) {
    std::sort(candidates.begin(), end, isBefore);
  } else {
    std::partial_sort(candidates.begin(), end, candidates.end(), isBefore);
  }
  candidates.resize(count);
  return candidates;
}

} // namespace

static void requireFinite(std::span<const float> logits) {
  if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) {
    throw JobError(
        "the model's predictions are not finite; use the weights of an earlier checkpoint");
  }
}

double computeLogSum(std::span<const float> logits) {
  requireFinite(logits);
  double most = *std::ranges::max_element(logits), sum = 0;
  for (float logit : logits) {
    sum += std::exp(logit - most);
  }
  return std::log(sum) + most;
}

double computeSurprise(std::span<const float> logits, size_t id) {
  return computeLogSum(logits) - logits[id];
}

int64_t pickToken(std::span<const float> logits, const SamplingOptions &options, double uniform,
                  std::span<const int32_t> text) {
  requireFinite(logits);
  std::vector<double> scores = penalized(logits, options.repetitionPenalty, text);
  size_t kept =
      options.topK > 0 ? std::min(static_cast<size_t>(options.topK), scores.size()) : scores.size();
  std::vector<Candidate> candidates = ranked(scores, options.temperature == 0 ? 1 : kept);
  if (options.temperature == 0) {
    return static_cast<int64_t>(candidates.front().id);
  }
  double most = scores[candidates.front().id];
  for (Candidate &candidate : candidates) {
    candidate.weight = std::exp((scores[candidate.id] - most) / options.temperature);
  }
  keepShare(candidates, options.topP);
  // The most probable candidate has the weight 1.
  std::erase_if(candidates, [&](const Candidate &each) { return each.weight < options.minP; });
  if (options.typical < 1) {
    keepTypical(candidates, options.typical);
  }
  double sum = 0;
  for (const Candidate &candidate : candidates) {
    sum += candidate.weight;
  }
  double target = uniform * sum;
  for (size_t i = 0; i + 1 < candidates.size(); ++i) {
    target -= candidates[i].weight;
    if (target < 0) {
      return static_cast<int64_t>(candidates[i].id);
    }
  }
  return static_cast<int64_t>(candidates.back().id);
}

double drawUniform(uint64_t seed, int64_t sample, int64_t token) {
  uint64_t own = sample == 0 ? seed : mix64(seed ^ mix64(~static_cast<uint64_t>(sample)));
  return static_cast<double>(mix64(own ^ mix64(static_cast<uint64_t>(token))) >> 11) * 0x1p-53;
}

std::string StopFilter::push(uint8_t byte) {
  held += static_cast<char>(byte);
  size_t longest = 0, begun = 0; // stop text at the end; start of one
  for (const std::string &stop : *stops) {
    longest = held.ends_with(stop) ? std::max(longest, stop.size()) : longest;
    for (size_t size = std::min(held.size(), stop.size() - 1); size > begun; --size) {
      begun = held.ends_with(std::string_view(stop).substr(0, size)) ? size : begun;
    }
  }
  stopped = longest > 0;
  std::string free = held.substr(0, held.size() - (stopped ? longest : begun));
  held.erase(0, stopped ? held.size() : free.size());
  return free;
}

std::string StopFilter::flush() { return std::exchange(held, {}); }

} // namespace sluice::runtime
