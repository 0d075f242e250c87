// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "GradientParts.h"

#include <algorithm>

namespace sluice::runtime {

constexpr int64_t lineBytes = 64;

static int64_t roundToLines(int64_t bytes) {
  return (bytes + lineBytes - 1) / lineBytes * lineBytes;
}

GradientParts::GradientParts(const Plan &plan, int64_t rank, int64_t size,
                             std::optional<int64_t> rows, size_t losses)
    : plan(plan), size(size), divided(rows),
      rows(rows.value_or(roundToLines(plan.gradientsBytes) / lineBytes)),
      ownSums{{}, plan.gradientsBytes},
      lossBytes(static_cast<int64_t>(losses) * getByteSize(Type::f32)),
      stagedBytes(roundToLines(lossBytes)) {
  for (int64_t bucket = 0; bucket < countBuckets(); ++bucket) {
    StoredRange part = getPart(getSums(), bucket, rank);
    ownSums.ranges.push_back({part.offset - getSums().offset, part.bytes});
    stagedParts.push_back(stagedBytes);
    stagedBytes += roundToLines(part.bytes);
  }
}

/// The order of the processes alternates: a process owns the parts on both sides of the bound of
/// two buckets, so its launches run fewer items that belong to two parts.
StoredRange GradientParts::getPart(const MemoryRange &buffer, int64_t bucket, int64_t rank) const {
  int64_t gradientBytes = divided ? plan.gradientsBytes / rows : lineBytes; // of a row
  int64_t rowBytes = divided ? buffer.bytes / rows : lineBytes;
  auto getRow = [&](int64_t number) {
    return number < countBuckets() ? plan.buckets[static_cast<size_t>(number)] / gradientBytes
                                   : rows;
  };
  int64_t place = bucket % 2 == 0 ? rank : size - 1 - rank;
  int64_t first = getRow(bucket), last = getRow(bucket + 1);
  int64_t each = (last - first + size - 1) / size;
  int64_t begin = std::min(std::min(first + place * each, last) * rowBytes, buffer.bytes);
  int64_t end = std::min(std::min(first + (place + 1) * each, last) * rowBytes, buffer.bytes);
  return {RangeStore::Arena, buffer.offset + begin, end - begin};
}

StoredRange GradientParts::getStagedGradients(int64_t rank, int64_t bucket) const {
  return {RangeStore::Staging, rank * stagedBytes + stagedParts[static_cast<size_t>(bucket)],
          ownSums.ranges[static_cast<size_t>(bucket)].bytes};
}

StoredRange GradientParts::getStagedLosses(int64_t rank) const {
  return {RangeStore::Staging, rank * stagedBytes, lossBytes};
}

StoredRange GradientParts::getStagedLoss(int64_t rank, size_t index) const {
  int64_t bytes = getByteSize(Type::f32);
  return {RangeStore::Staging, rank * stagedBytes + static_cast<int64_t>(index) * bytes, bytes};
}

} // namespace sluice::runtime
