// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/LineBatches.h"

#include <algorithm>
#include <bit>

namespace sluice::runtime {

/// Batches that a window has if none is padded.
constexpr int64_t batchesOfWindow = 64;

LineBatches::LineBatches(const Plan &plan, std::vector<LineLengths> axes, uint64_t seed)
    : shapes(plan.shapes), windowTokens(batchesOfWindow * plan.batchTokens), axes(std::move(axes)),
      seed(seed) {}

int64_t LineBatches::getLine(int64_t epoch, int64_t index) const {
  return static_cast<int64_t>(permute(
      static_cast<uint64_t>(index), static_cast<uint64_t>(countLines()), getEpochKey(seed, epoch)));
}

/// Returns the tokens of a line on its longest axis.
int64_t LineBatches::getLength(int64_t line) const {
  int32_t most = 0;
  for (const LineLengths &axis : axes) {
    most = std::max(most, axis[static_cast<size_t>(line)]);
  }
  return most;
}

int64_t LineBatches::findWindowEnd(int64_t epoch, int64_t first) const {
  int64_t index = first;
  for (int64_t tokens = 0; index < countLines() && tokens < windowTokens; ++index) {
    tokens += getLength(getLine(epoch, index));
  }
  return index;
}

/// Returns the smallest shape that holds lines of these lengths, one per axis, and the rows; none
/// if there is no such shape.
static std::optional<size_t> findShape(const std::vector<BatchShape> &shapes,
                                       const std::vector<int32_t> &lengths, int64_t rows) {
  for (size_t number = shapes.size(); number-- > 0;) {
    const BatchShape &shape = shapes[number];
    bool fits = rows <= shape.rows && lengths.front() <= shape.context;
    size_t axis = 1;
    for (const auto &[name, capacity] : shape.given) {
      fits &= lengths[axis++] <= capacity;
    }
    if (fits) {
      return number;
    }
  }
  return std::nullopt;
}

/// Returns a length without all bits after the first four. Lines of nearly equal lengths are then
/// sorted by each axis, so that no axis has much padding.
static int64_t roundDown(int64_t length) {
  int dropped = std::max(0, static_cast<int>(std::bit_width(static_cast<uint64_t>(length))) - 4);
  return length >> dropped << dropped;
}

std::vector<LineBatches::Batch> LineBatches::cutWindow(int64_t epoch, int64_t first, int64_t last,
                                                       int64_t number) const {
  struct SortedLine {
    int64_t index = 0, line = 0, length = 0; // the length is rounded down
  };
  std::vector<SortedLine> lines;
  for (int64_t index = first; index < last; ++index) {
    int64_t line = getLine(epoch, index);
    lines.push_back({index, line, roundDown(getLength(line))});
  }
  std::ranges::sort(lines, [&](const SortedLine &a, const SortedLine &b) {
    if (a.length != b.length) {
      return a.length < b.length;
    }
    for (const LineLengths &axis : axes) {
      int32_t ofA = axis[static_cast<size_t>(a.line)], ofB = axis[static_cast<size_t>(b.line)];
      if (ofA != ofB) {
        return ofA < ofB;
      }
    }
    return a.index < b.index;
  });
  std::vector<Batch> sorted;
  std::vector<int32_t> longest(axes.size());
  for (const SortedLine &each : lines) {
    std::vector<int32_t> lengths = longest;
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      lengths[axis] = std::max(lengths[axis], axes[axis][static_cast<size_t>(each.line)]);
    }
    int64_t rows = sorted.empty() ? 1 : std::ssize(sorted.back().indices) + 1;
    std::optional<size_t> shape = findShape(shapes, lengths, rows);
    if (sorted.empty() || !shape) {
      for (size_t axis = 0; axis < axes.size(); ++axis) {
        lengths[axis] = axes[axis][static_cast<size_t>(each.line)];
      }
      sorted.emplace_back();
      shape = findShape(shapes, lengths, 1);
    }
    longest = std::move(lengths);
    Batch &batch = sorted.back();
    batch.indices.push_back(each.index);
    batch.size = {*shape, std::ssize(batch.indices), longest.front(),
                  batch.size.tokens + axes.front()[static_cast<size_t>(each.line)]};
  }
  uint64_t key = getEpochKey(getEpochKey(seed, epoch), number + 1);
  std::vector<Batch> shuffled;
  for (size_t i = 0; i < sorted.size(); ++i) {
    Batch &batch = sorted[permute(i, sorted.size(), key)];
    batch.first = first;
    first += batch.size.rows;
    shuffled.push_back(std::move(batch));
  }
  return shuffled;
}

/// Caches the window of a position.
void LineBatches::select(DataPosition position) const {
  bool isLater = window.epoch == position.epoch && window.first <= position.index;
  if (!isLater) {
    window = {position.epoch, 0, findWindowEnd(position.epoch, 0), 0, {}};
  }
  while (window.last <= position.index) {
    window = {position.epoch,
              window.last,
              findWindowEnd(position.epoch, window.last),
              window.number + 1,
              {}};
  }
  if (window.batches.empty()) {
    window.batches = cutWindow(position.epoch, window.first, window.last, window.number);
  }
}

const LineBatches::Batch *LineBatches::find(DataPosition position) const {
  if (position.index < 0 || position.index >= countLines()) {
    return nullptr;
  }
  select(position);
  auto found = std::ranges::find(window.batches, position.index, &Batch::first);
  return found == window.batches.end() ? nullptr : &*found;
}

int64_t LineBatches::count(DataPosition from, int64_t epochs) const {
  int64_t batches = 0;
  for (; from.epoch < epochs; from = {from.epoch + 1, 0}) {
    while (from.index < countLines()) {
      select(from);
      batches += std::ranges::count_if(
          window.batches, [&](const Batch &batch) { return batch.first >= from.index; });
      from.index = window.last;
    }
  }
  return batches;
}

} // namespace sluice::runtime
