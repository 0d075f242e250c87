// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The analysis `attention` of `sluice analyze`.
#pragma once

#include "Common.h"
#include "sluice/Runtime/Data/ByteFiles.h"

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

namespace sluice::cli {

struct AttentionFlags {
  std::string layer, part, out;
  std::vector<std::string> inputs;
  std::optional<int64_t> head;
  int64_t line = 1;
};

void addAttentionFlags(CLI::App &command, AttentionFlags &flags);

/// The model and its data, which all analyses have.
struct AttentionCall {
  std::string artifact, weights, data, picture, tokenizer;
  runtime::WeightNames names;
  std::optional<int64_t> step;
  DeviceOptions device;
  int64_t length = 0; ///< most tokens of a text; 0: the context
  bool raw = false, json = false;
};

/// Computes, writes and prints a map.
void analyzeAttention(const AttentionFlags &flags, const AttentionCall &call);

} // namespace sluice::cli
