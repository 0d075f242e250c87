// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SharedUpdate.h"

#include "Device/HostLaunch.h"
#include "HostExchange.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cstdlib>

namespace sluice::runtime {

constexpr int64_t lineBytes = 64, lossBytes = sizeof(float);

static int64_t roundToLines(int64_t bytes) {
  return (bytes + lineBytes - 1) / lineBytes * lineBytes;
}

SharedUpdate::SharedUpdate(const ArenaView &view, Device &device, ProcessGroup &group,
                           std::optional<UpdateDivision> division)
    : plan(view.plan()), device(device), ranges(joinDevices(device, group)), group(group),
      division(std::move(division)),
      rows(this->division ? this->division->rows : roundToLines(plan.gradientsBytes) / lineBytes) {
  if (plan.accumulate % group.size() != 0 || !plan.gradientSumsOffset) {
    throw UserError(view.artifact().path() + ": expected batches that " +
                    std::to_string(group.size()) + " processes can share, found " +
                    std::to_string(plan.accumulate) + "; compile the spec again");
  }
  std::vector<std::string> names{"loss"};
  for (const LossFacts &loss : plan.losses) {
    names.push_back(loss.mean);
  }
  for (const std::string &name : names) {
    losses.push_back(plan.scalars.at(name).offset);
  }
  stagedBytes = roundToLines(std::ssize(losses) * lossBytes);
  ownSums.bytes = plan.gradientsBytes;
  for (int64_t bucket = 0; bucket < countBuckets(); ++bucket) {
    StoredRange part = getPart(getSums(), bucket, group.rank());
    ownSums.ranges.push_back({part.offset - *plan.gradientSumsOffset, part.bytes});
    stagedParts.push_back(stagedBytes);
    stagedBytes += roundToLines(part.bytes);
  }
  ranges->reserve(group.size() * stagedBytes);
  nextBucket = countBuckets() - 1;
}

/// The order of the processes alternates: a process owns the parts on both sides of the bound of
/// two buckets, so its launches run fewer items that belong to two parts.
StoredRange SharedUpdate::getPart(const MemoryRange &buffer, int64_t bucket, int64_t rank) const {
  int64_t sumBytes = division ? plan.gradientsBytes / rows : lineBytes;
  auto getRow = [&](int64_t number) {
    return number < countBuckets() ? plan.buckets[static_cast<size_t>(number)] / sumBytes : rows;
  };
  int64_t place = bucket % 2 == 0 ? rank : group.size() - 1 - rank;
  int64_t first = getRow(bucket), last = getRow(bucket + 1);
  int64_t each = (last - first + group.size() - 1) / group.size();
  int64_t rowBytes = division ? buffer.bytes / rows : lineBytes;
  int64_t begin = std::min(std::min(first + place * each, last) * rowBytes, buffer.bytes);
  int64_t end = std::min(std::min(first + (place + 1) * each, last) * rowBytes, buffer.bytes);
  return {RangeStore::Arena, buffer.offset + begin, end - begin};
}

StoredRange SharedUpdate::getStagedLosses(int64_t rank) const {
  return {RangeStore::Staging, rank * stagedBytes, std::ssize(losses) * lossBytes};
}

StoredRange SharedUpdate::getStagedLoss(int64_t rank, size_t index) const {
  return {RangeStore::Staging, rank * stagedBytes + static_cast<int64_t>(index) * lossBytes,
          lossBytes};
}

StoredRange SharedUpdate::getStagedGradients(int64_t rank, int64_t bucket) const {
  return {RangeStore::Staging, rank * stagedBytes + stagedParts[static_cast<size_t>(bucket)],
          ownSums.ranges[static_cast<size_t>(bucket)].bytes};
}

StoredRange SharedUpdate::getLoss(size_t index) const {
  return {RangeStore::Arena, losses[index], lossBytes};
}

void SharedUpdate::run(const std::string &entry, const std::vector<Launch> &launches, size_t first,
                       size_t last) {
  if (!device.sharesMemory()) { // a GPU runs graphs of launches; `finishRound` exchanges
    device.runPart(entry, launches, first, last);
    return;
  }
  std::vector<Collective> collectives = plan.getCollectives(entry);
  auto isDue = [&](size_t launch) {
    return nextBucket >= 0 &&
           collectives[static_cast<size_t>(countBuckets() - 1 - nextBucket)].position <= launch;
  };
  for (size_t i = first; i < last; ++i) {
    while (isDue(i)) {
      beginBucket();
    }
    device.runPart(entry, launches, i, i + 1);
    ranges->progress();
  }
}

void SharedUpdate::beginBucket() {
  std::vector<RangeTransfer> sent, received;
  for (int64_t other = 0; other < group.size(); ++other) {
    StoredRange theirs = getPart(getGradients(), nextBucket, other);
    StoredRange own = getStagedGradients(other, nextBucket);
    if (other != group.rank() && theirs.bytes > 0) {
      sent.push_back({other, theirs});
    }
    if (other != group.rank() && own.bytes > 0) {
      received.push_back({other, own});
    }
  }
  --nextBucket;
  ranges->begin(sent, received);
}

void SharedUpdate::finishRound() {
  while (nextBucket >= 0) {
    beginBucket();
  }
  int64_t own = group.rank();
  for (size_t i = 0; i < losses.size(); ++i) {
    ranges->copy(getLoss(i), getStagedLoss(own, i));
  }
  std::vector<RangeTransfer> sent, received;
  for (int64_t other = 0; other < group.size(); ++other) {
    if (other != own) {
      sent.push_back({other, getStagedLosses(own)});
      received.push_back({other, getStagedLosses(other)});
    }
  }
  ranges->begin(sent, received);
  ranges->complete();
  --rounds;
  isInRound = false;
  nextBucket = countBuckets() - 1;
}

void SharedUpdate::abandon() noexcept {
  if (rounds == 0 || group.isOver()) {
    return;
  }
  try {
    finishRound();
  } catch (const std::exception &) {
    rounds = 0; // this process reports its own failure
  }
}

void SharedUpdate::sum(int64_t last, const std::function<void(int64_t batch)> &accumulate) {
  begin = std::chrono::steady_clock::now();
  finishRound();
  bool isInterrupted = group.isInterrupted && group.isInterrupted();
  std::string seconds = ownSeconds ? std::to_string(*ownSeconds) : "";
  ProcessGroup::Agreement agreement =
      group.agree(isInterrupted ? Intent::Break : Intent::Continue, seconds);
  if (agreement.intent == Intent::Break) {
    throw UpdateBroken();
  }
  if (ownSeconds) { // all processes have one then
    maximumSeconds = 0;
    for (const std::string &text : agreement.texts) {
      maximumSeconds = std::max(*maximumSeconds, std::strtod(text.c_str(), nullptr));
    }
  }
  for (int64_t bucket = 0; bucket < countBuckets(); ++bucket) {
    ranges->copy(getPart(getGradients(), bucket, group.rank()),
                 getStagedGradients(group.rank(), bucket));
  }
  for (int64_t rank = 0; rank < group.size(); ++rank) {
    for (int64_t bucket = 0; bucket < countBuckets(); ++bucket) {
      ranges->copy(getStagedGradients(rank, bucket), getPart(getGradients(), bucket, group.rank()));
    }
    for (size_t i = 0; i < losses.size(); ++i) {
      ranges->copy(getStagedLoss(rank, i), getLoss(i));
    }
    accumulate(last - group.size() + 1 + rank);
  }
}

/// Returns the seconds since `start`.
static double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void SharedUpdate::gather(const MemoryRange &buffer) {
  std::vector<RangeTransfer> sent, received;
  for (int64_t bucket = 0; bucket < countBuckets(); ++bucket) {
    StoredRange own = getPart(buffer, bucket, group.rank());
    for (int64_t other = 0; other < group.size(); ++other) {
      StoredRange theirs = getPart(buffer, bucket, other);
      if (other != group.rank() && own.bytes > 0) {
        sent.push_back({other, own});
      }
      if (other != group.rank() && theirs.bytes > 0) {
        received.push_back({other, theirs});
      }
    }
  }
  ranges->exchange(sent, received);
}

void SharedUpdate::gather() {
  gather(getSums());
  ownSeconds = since(begin);
}

void SharedUpdate::update(const std::pair<const std::string, std::vector<Launch>> &entry) {
  const auto &[name, launches] = entry;
  double seconds = since(begin);
  for (size_t i = 0; i < launches.size(); ++i) {
    if (!division->launches[i].isDivided) {
      device.runPart(name, launches, i, i + 1);
      continue;
    }
    if (isAllowed(plan, launches[i].guard, device.host())) {
      device.launch(launches[i], ownSums);
    }
    auto start = std::chrono::steady_clock::now();
    for (const MemoryRange &buffer : division->launches[i].gathered) {
      gather(buffer);
    }
    seconds += since(start);
  }
  ownSeconds = seconds;
  if (division->hasCopies) {
    device.run("prepare", plan.entries.at("prepare"));
  }
}

void SharedUpdate::gatherState() {
  for (const MemoryRange &state : division->states) {
    std::vector<RangeTransfer> sent, received;
    for (int64_t bucket = 0; bucket < countBuckets(); ++bucket) {
      for (int64_t other = 1; other < group.size(); ++other) {
        StoredRange part = getPart(state, bucket, other);
        if (part.bytes > 0 && group.isFirst()) {
          received.push_back({other, part});
        } else if (part.bytes > 0 && other == group.rank()) {
          sent.push_back({0, part});
        }
      }
    }
    ranges->exchange(sent, received);
  }
}

void SharedUpdate::releaseState() {
  for (const MemoryRange &state : division->states) {
    int64_t free = state.offset;
    auto releaseTo = [&](int64_t end) {
      releasePages({device.host() + free, static_cast<size_t>(end - free)});
    };
    for (int64_t bucket = 0; bucket < countBuckets(); ++bucket) {
      StoredRange own = getPart(state, bucket, group.rank());
      releaseTo(own.offset);
      free = own.offset + own.bytes;
    }
    releaseTo(state.offset + state.bytes);
  }
}

} // namespace sluice::runtime
