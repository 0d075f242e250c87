// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice generate --score`: prints the probabilities of given continuations.
#pragma once

#include "sluice/Runtime/Generate/Generator.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace sluice::cli {

void addScoreFlag(CLI::App &command, std::vector<std::string> &continuations);

/// Throws UserError if a flag for writing texts is given.
void refuseBesideScore(const CLI::App &command);

/// Prints one line per continuation of every prompt, as JSON objects if `json`. `texts` start with
/// the prompts.
void printScores(const std::vector<std::string> &prompts, const std::vector<runtime::Text> &texts,
                 const std::vector<std::string> &continuations, bool json,
                 runtime::Executor &executor, runtime::Predictor &predictor,
                 const runtime::TextEncoder *encoder);

} // namespace sluice::cli
