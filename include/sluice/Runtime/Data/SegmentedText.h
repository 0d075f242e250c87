// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A text with the segment boundaries that a model predicts in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::runtime {

/// Statistics of the boundaries of a text. A segment starts after a boundary or at the start of the
/// text.
struct SegmentedText {
  static constexpr size_t bins = 10;

  std::string name;         ///< name of the segments
  bool isPredicted = false; ///< boundaries have probabilities
  /// A probability of 1/2 is a boundary, as for a router, in contrast to a predictor.
  bool isRouted = false;
  bool begins = false;   ///< a boundary starts a segment
  int64_t mostShown = 0; ///< number of leading tokens to store in `pieces`
  /// The displayed bytes, split at boundaries.
  std::vector<std::string> pieces = {""};
  int64_t tokens = 0, ends = 0, length = 0; ///< `length`: tokens of the open segment
  std::map<int64_t, int64_t> lengths;       ///< number of segments by length in tokens
  /// Number of tokens by probability.
  std::vector<int64_t> certainties = std::vector<int64_t>(bins);

  /// Adds the next token and the probability of a boundary there, which is 0 or 1 if the boundary
  /// is certain. The token's bytes are only needed for the first `mostShown` tokens.
  void add(std::string_view bytes, double probability);
  /// Ends the text, and with it a segment that a boundary starts.
  void finish();
  /// Returns the displayed bytes with | at each boundary.
  std::string marked() const;
};

} // namespace sluice::runtime
