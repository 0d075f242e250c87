// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generates a line for each line of a model's named inputs.
#pragma once

#include "sluice/Runtime/Data/LinePairs.h"
#include "sluice/Runtime/Execute/Executor.h"
#include "sluice/Runtime/Generate/BeamSearch.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// A search for the best line, of at most `limit` tokens, its end included.
struct LineSearch {
  BeamOptions options;
  int64_t limit;
};

/// Generates the text after a line end for each line of `inputs`, up to the next line end or until
/// the context is full: the line that `search` finds or, without one, always the most probable
/// token. Without `encoder`, tokens are bytes. `progress` receives the share of finished lines.
/// Throws UserError if the artifact has fewer rows than the search has hypotheses.
std::vector<std::string> generateLines(Executor &executor, const InputLines &inputs,
                                       const std::shared_ptr<const TextEncoder> &encoder,
                                       const std::optional<LineSearch> &search,
                                       const std::function<void(double)> &progress = {});

} // namespace sluice::runtime
