// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Train/StartingWeights.h"

#include "sluice/Runtime/Data/Safetensors.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <fnmatch.h>

namespace sluice::runtime {
namespace {

bool matches(const std::string &glob, const std::string &name) {
  return ::fnmatch(glob.c_str(), name.c_str(), 0) == 0;
}

/// Lists at most six names.
std::string list(const std::vector<std::string> &names) {
  constexpr size_t most = 6;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) {
    text += (i > 0 ? ", " : "") + names[i];
  }
  return names.size() > most ? text + " and " + std::to_string(names.size() - most) + " more"
                             : text;
}

void requireUse(const std::vector<std::string> &match, const Plan &plan) {
  for (const std::string &glob : match) {
    bool any = std::any_of(plan.tensors.begin(), plan.tensors.end(),
                           [&](const Tensor &tensor) { return matches(glob, tensor.name); });
    if (!any) {
      throw UserError("--match: expected a pattern that names a tensor of the model, such as " +
                      plan.tensors.front().name + ", found \"" + glob +
                      "\"; sluice inspect --json lists them");
    }
  }
}

} // namespace

StartingWeights startFromWeights(const Path &path, const std::vector<std::string> &match,
                                 Executor &executor, const Notice &notice, const WeightNames &names,
                                 std::optional<int64_t> step) {
  StartingWeights start;
  if (match.empty()) {
    start.file = loadWeights(path, executor, notice, step, names).string();
    for (const Tensor &tensor : executor.plan().tensors) {
      start.taken.push_back(tensor.name);
    }
    return start;
  }
  requireUse(match, executor.plan());
  auto [file, memory] = readWeights(path, step);
  if (!step) {
    noteWorseLatest(path, notice);
  }
  start.file = file.string();
  SafetensorsFile stored(memory.bytes(), start.file);
  stored.rename(names);
  std::vector<NamedTensor> into;
  for (const Tensor &tensor : executor.plan().tensors) {
    bool wanted = std::any_of(match.begin(), match.end(),
                              [&](const std::string &glob) { return matches(glob, tensor.name); });
    (wanted ? start.taken : start.left).push_back(tensor.name);
    if (wanted) {
      into.push_back({tensor.name, tensor.shape, executor.tensor(tensor)});
    }
  }
  stored.requireNoPrefix(into);
  for (const NamedTensor &tensor : into) {
    stored.check(tensor);
  }
  for (const NamedTensor &tensor : into) {
    stored.copy(tensor);
  }
  if (!stored.hasChecksum() && notice) {
    notice(describeMissingChecksum(file));
  }
  executor.prepare();
  return start;
}

void requireFrozen(const std::vector<std::string> &taken, const Plan &plan) {
  for (const Tensor &tensor : plan.tensors) {
    if (tensor.frozen && std::find(taken.begin(), taken.end(), tensor.name) == taken.end()) {
      std::string stage = tensor.name.substr(0, tensor.name.find('.', tensor.name.find('.') + 1));
      throw UserError(
          "expected weights for the frozen " + stage +
          ", which training leaves as they are given, found none for " + tensor.name +
          "; name a run that has trained them with --weights, and them with --match \"" + stage +
          ".*\"");
    }
  }
}

std::string describeStart(const StartingWeights &weights) {
  size_t all = weights.taken.size() + weights.left.size();
  if (weights.left.empty()) {
    return "took all " + std::to_string(all) + " tensors from " + weights.file;
  }
  return "took " + std::to_string(weights.taken.size()) + " of " + std::to_string(all) +
         " tensors from " + weights.file + ": " + list(weights.taken) +
         "; left as initialized: " + list(weights.left);
}

} // namespace sluice::runtime
