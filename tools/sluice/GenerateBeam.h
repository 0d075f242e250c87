// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Beam search of `sluice generate` and `sluice eval`.
#pragma once

#include "CommandLine.h"
#include "sluice/Runtime/Generate/BeamSearch.h"

#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

struct BeamFlags {
  std::optional<int64_t> width, maxTokens;
  std::optional<int32_t> endToken;
  runtime::BeamOptions options;
};

/// Adds --beam and the flags that need it; `ends` is the end of a hypothesis, and `most` the
/// default of --max-tokens.
void addBeamFlags(CLI::App &command, BeamFlags &flags, const std::string &ends,
                  const std::string &most);

/// Adds --end-token, in place of --stop.
void addEndToken(CLI::App &command, BeamFlags &flags);

/// Throws UserError for flags of sampling, sessions, scores and traces.
void refuseBesideBeam(const CLI::App &command);

/// Returns the options of the search. The end is the token of --end-token, or the only token of the
/// only one of `stops`. Throws UserError if a stop text is not one token.
runtime::BeamOptions readBeamOptions(const BeamFlags &flags, const std::vector<std::string> &stops,
                                     int64_t vocabulary, const runtime::TextEncoder *encoder);

/// Throws UserError unless the end fits into `limit` tokens after --min-tokens others.
void requireEnd(const BeamFlags &flags, int64_t limit);

/// Returns the maximum number of tokens to write of each text: the value of --max-tokens or
/// --tokens, or the default, which the context may lower. Throws UserError if a prompt and the
/// given number exceed the context.
int64_t getBeamLimit(const BeamFlags &flags, const CLI::App &command, int64_t tokens,
                     const runtime::Plan &plan, const std::vector<runtime::Text> &texts,
                     const std::string &unit);

} // namespace sluice::cli
