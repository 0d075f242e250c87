// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A map from the tensors of another program's state dict to the weights of a model
// (docs/import.md).
#pragma once

#include "sluice/Runtime/Import/NamePattern.h"
#include "sluice/Support/Json.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::runtime {

/// A rule of a map. It has one of three forms: `from` and `to`, `dropped`, or `filled`.
struct ImportRule {
  TextPosition position; ///< place in the map

  /// Tensors that are joined; the first is matched, and the others follow from its match.
  std::vector<NamePattern> from;
  /// Weights that the joined tensor is cut into.
  std::vector<NamePattern> to;
  bool isTransposed = false; ///< transposes every tensor before they are joined
  size_t axis = 0;           ///< dimension along which tensors are joined and cut
  /// Extents of the weights along `axis`. If empty, extents of the model's weights, or equal parts.
  std::vector<int64_t> parts;
  /// For each weight the head size, if its rows of heads that rotate by halves become rows that
  /// rotate by adjacent pairs; else 0.
  std::vector<int64_t> rotatedHeads;

  std::optional<NamePattern> dropped;  ///< tensors that are left out
  std::optional<std::string> original; ///< `dropped` must repeat the numbers of this tensor

  std::optional<NamePattern> filled; ///< weights that no other rule fills
  float value = 0;                   ///< their numbers

  bool isOptional = false; ///< the state may lack the tensors
};

struct WeightMap {
  std::string origin;                ///< path, for messages
  std::vector<std::string> prefixes; ///< removed in this order from names that start with them
  std::vector<ImportRule> rules;

  /// Returns the place of a rule: "gpt2.map:5:3".
  std::string showPlace(const ImportRule &rule) const;
};

/// Parses a map. `sizes` replace numbers of its object "sizes". Throws UserError with file, line
/// and column for a text of another form, an unknown key, or an unknown size.
WeightMap parseWeightMap(std::string_view text, const std::string &origin,
                         const std::map<std::string, int64_t> &sizes = {});

} // namespace sluice::runtime
