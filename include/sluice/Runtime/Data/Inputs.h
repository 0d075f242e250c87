// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inputs of a batch, in the form in which the host writes them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// The tokens of each named input of one text, and the edges u0, v0, u1, v1, ... of each input of
/// edges; of edges that kernels draw, the number by which they do, and the number of rows.
using GivenLines = std::map<std::string, std::vector<int32_t>>;

struct BatchInputs {
  /// A named input: tokens [batch, capacity], and the number of valid tokens of each row, 0 to
  /// capacity. Kernels may read tokens after the valid ones, but predictions do not depend on them.
  struct Given {
    int64_t capacity = 0;
    std::span<int32_t> tokens;
    std::span<int64_t> counts; ///< empty for tokens on the axis of another input
  };

  std::span<int32_t> tokens; ///< [batch, context + 1]
  std::map<std::string, Given> given;
  /// Writes the named inputs of a text to row `row`. Inputs missing in `lines` become empty.
  void write(int64_t row, const GivenLines &lines) const;
  /// [batch, context]: 1 where a row is excluded from all losses, 0 elsewhere; empty if no row is
  /// excluded.
  std::span<float> padding;
  /// Labels of each token, [batch, width], 0 or 1. Only losses read them.
  struct Labels {
    int64_t width = 0;
    std::span<float> rows;
  };
  std::map<std::string, Labels> labels = {};
  /// Numbers of each token, [batch, context, width], with rows `stride` numbers apart: named inputs
  /// of numbers.
  struct TokenNumbers {
    int64_t context = 0, stride = 0;
    std::span<float> rows;
  };
  std::map<std::string, TokenNumbers> numbers = {};
  /// [batch]: number of each row for random draws; empty if none draws by it.
  std::span<int64_t> drawRows = {};
  int64_t context = 0; ///< capacity of `tokens`; 0: of the model
  /// [batch]: the number of predicted tokens of each line, at which the rows that are computed
  /// stop; empty if all rows of a batch have the same length.
  std::span<int64_t> lengths = {};

  /// Edge lists between the rows of an input [batch, rows + entries] (writeEdgeLists). Without
  /// entries each valid row has the number by which its edges are drawn, others -1.
  struct EdgeLists {
    int64_t rows = 0, entries = 0;
    std::span<int32_t> lists;
  };
  std::map<std::string, EdgeLists> edges = {};
};

} // namespace sluice::runtime
