// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Entries of a plan: their names, launches and memory.
#include "sluice/Runtime/Plan/Plan.h"

#include <algorithm>
#include <iterator>

namespace sluice::runtime {

std::string entryOfFactor(const std::string &entry, int64_t factor) {
  return entry + "." + std::to_string(factor);
}

static constexpr char bucketMark = '@';

std::string entryOfBucket(const std::string &entry, int64_t rows) {
  return entry + bucketMark + std::to_string(rows);
}

bool isGpuTarget(std::string_view target) { return target.starts_with("sm_"); }

const SegmentFacts *Plan::findSegmentFacts(const std::string &loss) const {
  auto told = std::ranges::find(segments, loss, &SegmentFacts::share);
  return told == segments.end() ? nullptr : &*told;
}

std::string Plan::lengthName(const std::string &axis) const {
  auto found = std::ranges::find(segments, axis, &SegmentFacts::axis);
  return found == segments.end() ? "length." + axis : found->length;
}

std::vector<int64_t> Plan::sortedFactors() const {
  std::vector<int64_t> sorted = factors;
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

const CountedLoss *Plan::findCounted(const std::string &loss) const {
  if (losses.empty()) { // the only loss
    return counted.empty() ? nullptr : &counted.front();
  }
  const std::string &name = loss.empty() ? losses.front().name : loss;
  auto found = std::ranges::find(counted, name, &CountedLoss::loss);
  return found == counted.end() ? nullptr : &*found;
}

std::vector<std::pair<std::string, int64_t>> Plan::entriesOfUpdate() const {
  std::vector<std::pair<std::string, int64_t>> all{{"gradient", accumulate}, {"update", 1}};
  if (!counted.empty() && accumulate > 1) {
    all.insert(all.begin(), {"count", accumulate});
  }
  if (accumulate > 1) {
    all.insert(all.end() - 1, {"accumulate", accumulate});
  }
  return all;
}

std::vector<Plan::Count> Plan::countsIn(const std::vector<Launch> &launches) const {
  std::vector<Count> counts;
  for (size_t i = 0; i < launches.size(); ++i) {
    const std::vector<Operand> &operands =
        kernels[static_cast<size_t>(launches[i].kernel)].operands;
    for (const SegmentFacts &each : segments) {
      int64_t length = scalars.at(each.length).offset;
      for (size_t j = 0; j < operands.size(); ++j) {
        if (operands[j].written && launches[i].arguments[j] == length) {
          counts.push_back({i, &each});
        }
      }
    }
  }
  return counts;
}

std::vector<Collective> Plan::getCollectives(const std::string &entry) const {
  auto found = collectives.find(entry);
  if (found != collectives.end()) {
    return found->second;
  }
  std::vector<Collective> atEnd;
  for (int64_t bucket = std::ssize(buckets); bucket-- > 0;) {
    atEnd.push_back({entries.at(entry).size(), bucket, {}});
  }
  return atEnd;
}

bool Plan::isOfBucket(const std::string &entry) const {
  return std::ranges::any_of(memoryBuckets, [&](const Bucket &bucket) {
    return entry.ends_with(entryOfBucket("", bucket.rows));
  });
}

int64_t Plan::getArenaBytes(const std::string &entry) const {
  for (const Bucket &bucket : memoryBuckets) {
    if (entry.ends_with(entryOfBucket("", bucket.rows))) {
      return bucket.arenaBytes;
    }
  }
  bool isSame =
      !memoryBuckets.empty() && std::ranges::none_of(memoryBuckets, [&](const Bucket &bucket) {
        return entries.contains(entryOfBucket(entry, bucket.rows));
      });
  return isSame ? memoryBuckets.front().arenaBytes : memory.arenaBytes;
}

int64_t Plan::arenaFor(int64_t bytes) const {
  for (const Bucket &bucket : memoryBuckets) {
    if (bucket.arenaBytes >= bytes) {
      return bucket.arenaBytes;
    }
  }
  return memory.arenaBytes;
}

int64_t Plan::lastingBytes() const {
  int64_t bytes = memory.arenaBytes;
  for (const Buffer &buffer : buffers) {
    bytes = buffer.kind == "activation" ? std::min(bytes, buffer.offset) : bytes;
  }
  return bytes;
}

std::vector<std::string> Plan::gpuTargets() const {
  std::vector<std::string> names;
  std::copy_if(targets.begin(), targets.end(), std::back_inserter(names), isGpuTarget);
  return names;
}

} // namespace sluice::runtime
