// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Analyze/Ngram.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace sluice::runtime {
namespace {

/// Returns the last `length` bytes before `end` as a number with a leading one bit, which is never
/// 0 and unique within a table.
uint64_t getHashKey(std::span<const uint8_t> text, size_t end, size_t length) {
  uint64_t key = 1;
  for (size_t i = end - length; i < end; ++i) {
    key = key << 8 | text[i];
  }
  return key;
}

} // namespace

NgramModel::Cell &NgramModel::Table::touch(uint64_t key) {
  if (2 * (used + 1) > cells.size()) {
    grow();
  }
  size_t at = mix64(key) & (cells.size() - 1);
  while (cells[at].key != 0 && cells[at].key != key) {
    at = (at + 1) & (cells.size() - 1);
  }
  if (cells[at].key == 0) {
    cells[at].key = key;
    ++used;
  }
  return cells[at];
}

const NgramModel::Cell *NgramModel::Table::find(uint64_t key) const {
  size_t at = mix64(key) & (cells.size() - 1);
  while (cells[at].key != 0 && cells[at].key != key) {
    at = (at + 1) & (cells.size() - 1);
  }
  return cells[at].key == 0 ? nullptr : &cells[at];
}

void NgramModel::Table::grow() {
  std::vector<Cell> old(2 * cells.size());
  std::swap(old, cells);
  for (const Cell &cell : old) {
    if (cell.key == 0) {
      continue;
    }
    size_t at = mix64(cell.key) & (cells.size() - 1);
    while (cells[at].key != 0) {
      at = (at + 1) & (cells.size() - 1);
    }
    cells[at] = cell;
  }
}

NgramModel::NgramModel(int order) : order(order) {
  if (order < 1 || order > 7) {
    throw UserError("expected an n-gram order from 1 to 7, found " + std::to_string(order));
  }
  histories.resize(static_cast<size_t>(order));
  grams.resize(static_cast<size_t>(order));
}

void NgramModel::train(std::span<const uint8_t> text) {
  for (size_t i = 0; i < text.size(); ++i) {
    for (size_t length = 0; length < std::min(static_cast<size_t>(order), i + 1); ++length) {
      uint64_t history = getHashKey(text, i, length);
      Cell &gram = grams[length].touch(history << 8 | text[i]);
      Cell &cell = histories[length].touch(history);
      ++cell.count;
      cell.kinds += gram.count == 0 ? 1 : 0;
      ++gram.count;
    }
  }
}

double NgramModel::probability(std::span<const uint8_t> history, uint8_t byte) const {
  double probability = 1.0 / 256;
  for (size_t length = 0; length < std::min(static_cast<size_t>(order), history.size() + 1);
       ++length) {
    uint64_t key = getHashKey(history, history.size(), length);
    const Cell *cell = histories[length].find(key);
    if (!cell) {
      break; // longer histories have not been seen either
    }
    const Cell *gram = grams[length].find(key << 8 | byte);
    double count = gram ? gram->count : 0, kinds = cell->kinds;
    probability = (count + kinds * probability) / (cell->count + kinds);
  }
  return probability;
}

double NgramModel::bits(std::span<const uint8_t> text) const {
  double sum = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    sum -= std::log2(probability(text.first(i), text[i]));
  }
  return sum;
}

} // namespace sluice::runtime
