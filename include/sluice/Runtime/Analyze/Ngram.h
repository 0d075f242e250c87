// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Byte n-gram models, which are baselines of held-out bits per byte.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::runtime {

/// Interpolated Witten-Bell smoothing over bytes. With c(h) the number of occurrences of history h
/// before any byte, and t(h) the number of distinct bytes after it,
///   P(b | h) = (c(h b) + t(h) P(b | h')) / (c(h) + t(h)),     h' = h without its oldest byte,
/// and 1/256 below the empty history. For an unseen history, P(b | h) = P(b | h').
class NgramModel {
public:
  /// `order` from 1 to 7: a byte and order - 1 bytes of history.
  explicit NgramModel(int order);

  /// Counts every byte of `text` after its history, which is shorter at the start. O(order * text).
  void train(std::span<const uint8_t> text);

  /// Returns P(byte | the last order - 1 bytes of history).
  double probability(std::span<const uint8_t> history, uint8_t byte) const;

  /// Returns the sum of -log2 P over the bytes 1 .. of `text`; its first byte is not scored, as in
  /// evaluate().
  double bits(std::span<const uint8_t> text) const;

private:
  struct Cell {
    uint64_t key = 0; // 0: free
    uint32_t count = 0, kinds = 0;
  };
  /// Hash table with open addressing for byte strings of one length: counts of the string, and for
  /// histories also `kinds`.
  class Table {
  public:
    Cell &touch(uint64_t key);
    const Cell *find(uint64_t key) const;

  private:
    void grow();
    std::vector<Cell> cells = std::vector<Cell>(1024);
    size_t used = 0;
  };

  int order;
  std::vector<Table> histories; // by length of history: count and kinds
  std::vector<Table> grams;     // by length of history: count of history and byte
};

} // namespace sluice::runtime
