// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Generate/Beam.h"

#include "sluice/Runtime/Generate/Sampling.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Format.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace sluice::runtime {

void checkBeam(const BeamOptions &options) {
  auto require = [](const char *flag, int64_t least, int64_t found) {
    if (found < least) {
      throw UserError(format("%s: expected at least %lld, found %lld; change %s", flag,
                             static_cast<long long>(least), static_cast<long long>(found), flag));
    }
  };
  require("--beam", 1, options.width);
  require("--min-tokens", 0, options.minTokens);
  require("--no-repeat", 0, options.noRepeat);
  if (!std::isfinite(options.lengthPenalty) || options.lengthPenalty < 0) {
    throw UserError(format("--length-penalty: expected a finite penalty of at least 0, found %.9g; "
                           "change --length-penalty",
                           options.lengthPenalty));
  }
}

Beam::Beam(const BeamOptions &options, std::vector<int32_t> prompt, int64_t limit)
    : options(options), promptSize(prompt.size()), limit(limit) {
  live.push_back({std::move(prompt)});
}

int64_t Beam::countWritten() const {
  return static_cast<int64_t>(live.front().tokens.size() - promptSize);
}

double Beam::computeScore(const Hypothesis &hypothesis) const {
  auto written = static_cast<double>(hypothesis.tokens.size() - promptSize);
  return hypothesis.logProbability / std::pow(written, options.lengthPenalty);
}

/// Returns the tokens of probability 0: the end of a short continuation, and tokens that would
/// repeat an n-gram of the continuation.
std::vector<int32_t> Beam::findExcluded(const Hypothesis &hypothesis) const {
  std::vector<int32_t> excluded;
  std::span<const int32_t> written = std::span(hypothesis.tokens).subspan(promptSize);
  if (options.end && std::ssize(written) < options.minTokens) {
    excluded.push_back(*options.end);
  }
  if (options.noRepeat == 0 || std::ssize(written) < options.noRepeat) {
    return excluded;
  }
  auto known = static_cast<size_t>(options.noRepeat - 1); // tokens of an n-gram before its last
  std::span<const int32_t> newest = written.last(known);
  for (size_t at = 0; at + known < written.size(); ++at) {
    if (std::ranges::equal(written.subspan(at, known), newest)) {
      excluded.push_back(written[at + known]);
    }
  }
  return excluded;
}

/// Returns at most 2 * width extensions of positive probability, the most probable first. They form
/// a heap whose front is the last of them: most tokens cost one comparison with it.
std::vector<Beam::Extension> Beam::findBest(std::span<const float> logits, int64_t stride,
                                            int64_t ids) const {
  auto isBefore = [](const Extension &a, const Extension &b) {
    return a.logProbability != b.logProbability ? a.logProbability > b.logProbability
           : a.hypothesis != b.hypothesis       ? a.hypothesis < b.hypothesis
                                                : a.token < b.token;
  };
  auto most = static_cast<size_t>(2 * options.width);
  std::vector<Extension> best;
  for (size_t i = 0; i < live.size(); ++i) {
    std::span<const float> row =
        logits.subspan(i * static_cast<size_t>(stride), static_cast<size_t>(ids));
    const double before = live[i].logProbability, sum = computeLogSum(row);
    const std::vector<int32_t> excluded = findExcluded(live[i]);
    double least =
        best.size() < most ? -std::numeric_limits<double>::infinity() : best.front().logProbability;
    for (size_t id = 0; id < row.size(); ++id) {
      Extension extension{before + (row[id] - sum), i, static_cast<int32_t>(id)};
      if (extension.logProbability < least ||
          std::ranges::find(excluded, extension.token) != excluded.end()) {
        continue;
      }
      if (best.size() == most) {
        if (!isBefore(extension, best.front())) {
          continue;
        }
        std::ranges::pop_heap(best, isBefore);
        best.pop_back();
      }
      best.push_back(extension);
      std::ranges::push_heap(best, isBefore);
      least = best.size() < most ? least : best.front().logProbability;
    }
  }
  std::ranges::sort_heap(best, isBefore);
  return best;
}

Beam::Hypothesis Beam::extend(const Extension &extension) const {
  const Hypothesis &parent = live[extension.hypothesis];
  Hypothesis next{{}, extension.logProbability, extension.hypothesis};
  next.tokens.reserve(parent.tokens.size() + 1);
  next.tokens = parent.tokens;
  next.tokens.push_back(extension.token);
  return next;
}

void Beam::advance(std::span<const float> logits, int64_t stride, int64_t ids) {
  std::vector<Extension> best = findBest(logits, stride, ids);
  std::vector<Hypothesis> next;
  auto width = static_cast<size_t>(options.width);
  for (size_t i = 0; i < best.size(); ++i) {
    if (best[i].token != options.end) {
      if (next.size() < width) {
        next.push_back(extend(best[i]));
      }
    } else if (i < width) {
      Hypothesis ended = extend(best[i]);
      double score = computeScore(ended);
      if (finished++ == 0 || score > winner.score) {
        winner = {std::move(ended.tokens), score, true};
      }
    }
  }
  bool canContinue = !next.empty();
  if (canContinue) {
    live = std::move(next);
  }
  done = !canContinue || finished >= options.width || countWritten() >= limit;
}

Beam::Continuation Beam::best() const {
  if (finished > 0) {
    return winner;
  }
  return {live.front().tokens, countWritten() > 0 ? computeScore(live.front()) : 0, false};
}

} // namespace sluice::runtime
