// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A text with the boundaries that a model sets in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice::runtime {

/// What a text's boundaries are like. A segment begins behind a boundary, or with the text.
struct SegmentedText {
  static constexpr size_t bins = 10;

  std::string name;         ///< of the segments
  bool isPredicted = false; ///< boundaries have probabilities
  bool isRouted = false; ///< a probability of 1/2 is a boundary, as of a router; not of a predictor
  bool begins = false;   ///< boundaries begin segments
  int64_t mostShown = 0; ///< tokens that `pieces` keep, the first ones
  /// The bytes that are shown; a boundary stands between two pieces.
  std::vector<std::string> pieces = {""};
  int64_t tokens = 0, ends = 0, length = 0; ///< length: of the segment that is open
  std::map<int64_t, int64_t> lengths;       ///< segments by tokens
  std::vector<int64_t> certainties = std::vector<int64_t>(bins); ///< tokens by probability

  /// The text's next token, and how probable a boundary is there: 0 or 1 where it is no question.
  void add(uint8_t byte, double probability);
  /// The text ends. A segment that a boundary begins then ends too.
  void finish();
  /// What is shown, with | at each boundary.
  std::string marked() const;
};

} // namespace sluice::runtime
