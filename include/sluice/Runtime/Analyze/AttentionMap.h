// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention maps: their numbers, from a compiled program, and their picture.
#pragma once

#include "sluice/Runtime/Execute/Executor.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::runtime {

/// The map of one text: queries by keys.
struct AttentionMap {
  std::vector<std::string> queries, keys; ///< the text of each row and of each column
  std::vector<float> numbers;

  float at(size_t query, size_t key) const { return numbers[query * keys.size() + key]; }
};

/// The shape of a map with all rows of both sides.
struct MapShape {
  int64_t keys = 0; ///< capacity
  int64_t heads = 0, keyHeads = 0, headSize = 0;
  std::string keysName, columnsName; ///< tensors that select what `predict` returns
};

/// Computes `queries` rows of the map of a head, or of the mean of all heads, over `keys` keys. The
/// inputs of one text must be in row 0 of the batch. Each run of the entry `predict` returns
/// `headSize` columns (driver::AttentionRequest). Throws JobError if a number is not finite.
std::vector<float> computeMap(Executor &executor, const MapShape &shape,
                              std::optional<int64_t> head, int64_t queries, int64_t keys);

/// Draws a map as SVG: a square per query and key, as dark as its number is large, with the text of
/// the queries on the left and the text of the keys above.
std::string drawMap(const AttentionMap &map, const std::string &title);

} // namespace sluice::runtime
