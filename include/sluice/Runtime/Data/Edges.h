// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Edge lists between rows of a named input.
#pragma once

#include "sluice/Runtime/Data/Inputs.h"
#include "sluice/Runtime/Plan/Plan.h"

#include <optional>
#include <string_view>

namespace sluice::runtime {

/// An input of edges that kernels of a plan read.
struct EdgeInput {
  std::string name;
  std::string on;       ///< input whose rows the edges connect, or whose bits end their words
  std::string axis;     ///< input that owns the axis of `on`: itself, for edges between rows
  int64_t rows = 0;     ///< capacity of that input
  int64_t capacity = 0; ///< maximum number of edges of a line; 0 if kernels draw them
  std::string pattern;  ///< "chain", "random" or "half"; empty: edges of a file

  /// Returns true for edges between words, segments of the rows of `axis`.
  bool connectsWords() const { return axis != on; }
  /// Returns true for edges that kernels draw by a number of the line.
  bool isDrawn() const { return capacity == 0; }
};
std::vector<EdgeInput> getEdgeInputs(const Plan &plan);
/// Returns the plan's input that holds the lists.
std::string edgesInput(const EdgeInput &edges);

/// Returns the number of words of a line: each bit ends one, and so does the end of the line.
int64_t countWords(std::span<const int32_t> bits);

/// The edges of a line: u < v, in ascending order, each once.
using Edges = std::vector<std::pair<int32_t, int32_t>>;

/// Builds the edges of `rows` rows: between neighbours, or from each row to an earlier one that
/// `key` draws. The edges of a row do not depend on later ones.
Edges buildPattern(const std::string &pattern, int64_t rows, uint64_t key);

/// Returns the number by which kernels draw the edges of a line: 0 to 2^31 - 1.
int32_t computeDrawNumber(uint64_t key);

/// Parses "0-3 1-2". Returns nothing for other text, with the first wrong word in `wrong`.
std::optional<Edges> parseEdges(std::string_view line, std::string &wrong);

/// Writes the lists of all rows: the end of each of `rows` lists, then the neighbours, ascending.
/// An edge to a row past the last one is left out. The edges fit into `into`.
void writeEdgeLists(const Edges &edges, int64_t rows, std::span<int32_t> into);

} // namespace sluice::runtime
