// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SharedUpdate.h"

#include "Device/HostLaunch.h"
#include "HostExchange.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cstdlib>

namespace sluice::runtime {

constexpr int64_t lossBytes = sizeof(float);

static StoredRange getLoss(int64_t offset) { return {RangeStore::Arena, offset, lossBytes}; }

SharedUpdate::SharedUpdate(const ArenaView &view, Device &device, ProcessGroup &group,
                           std::optional<UpdateDivision> division)
    : plan(view.plan()), device(device), ranges(joinDevices(device, group)), group(group),
      division(std::move(division)) {
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
  std::optional<int64_t> rows = this->division ? std::optional(this->division->rows) : std::nullopt;
  parts.emplace(plan, group.rank(), group.size(), rows, losses.size());
  ranges->reserve(parts->getStagedBytes());
  nextBucket = parts->countBuckets() - 1;
}

void SharedUpdate::run(const std::string &entry, const std::vector<Launch> &launches, size_t first,
                       size_t last) {
  if (!device.sharesMemory()) { // launches wait in a stream when `finishRound` begins exchanges
    device.runPart(entry, launches, first, last);
    return;
  }
  std::vector<Collective> collectives = plan.getCollectives(entry);
  auto isDue = [&](size_t launch) {
    return nextBucket >= 0 &&
           collectives[static_cast<size_t>(parts->countBuckets() - 1 - nextBucket)].position <=
               launch;
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
    StoredRange theirs = parts->getPart(parts->getGradients(), nextBucket, other);
    StoredRange own = parts->getStagedGradients(other, nextBucket);
    if (other != group.rank() && theirs.bytes > 0) {
      sent.push_back({other, theirs});
    }
    if (other != group.rank() && own.bytes > 0) {
      received.push_back({other, own});
    }
  }
  if (plan.collectives.empty()) { // of an earlier version
    ranges->begin(sent, received);
  } else {
    ranges->beginBucket(nextBucket, sent, received);
  }
  --nextBucket;
}

void SharedUpdate::finishRound() {
  while (nextBucket >= 0) {
    beginBucket();
  }
  int64_t own = group.rank();
  for (size_t i = 0; i < losses.size(); ++i) {
    ranges->copy(getLoss(losses[i]), parts->getStagedLoss(own, i));
  }
  std::vector<RangeTransfer> sent, received;
  for (int64_t other = 0; other < group.size(); ++other) {
    if (other != own) {
      sent.push_back({other, parts->getStagedLosses(own)});
      received.push_back({other, parts->getStagedLosses(other)});
    }
  }
  ranges->begin(sent, received);
  ranges->complete();
  --rounds;
  isInRound = false;
  nextBucket = parts->countBuckets() - 1;
}

void SharedUpdate::abandon() noexcept {
  if (group.isOver()) {
    return;
  }
  try {
    if (!device.sharesMemory()) {
      ranges->confirm(); // the others agree before they begin another exchange
    } else if (rounds > 0) {
      finishRound();
    }
  } catch (const std::exception &) {
    rounds = 0; // this process reports its own failure
  }
}

void SharedUpdate::sum(int64_t last, const std::function<void(int64_t batch)> &accumulate) {
  ranges->startClock();
  if (device.sharesMemory()) {
    finishRound();
  } else {
    ranges->confirm(); // of the round before
  }
  bool isInterrupted = group.isInterrupted && group.isInterrupted();
  std::string seconds = ownSeconds ? std::to_string(*ownSeconds) : "";
  ProcessGroup::Agreement agreement =
      group.agree(isInterrupted ? Intent::Break : Intent::Continue, seconds);
  if (agreement.intent == Intent::Break) {
    rounds = 0; // on all processes
    throw UpdateBroken();
  }
  if (!device.sharesMemory()) { // all processes have launched a batch now, which may still run
    finishRound();
  }
  if (ownSeconds) { // all processes have one then
    maximumSeconds = 0;
    for (const std::string &text : agreement.texts) {
      maximumSeconds = std::max(*maximumSeconds, std::strtod(text.c_str(), nullptr));
    }
  }
  for (int64_t bucket = 0; bucket < parts->countBuckets(); ++bucket) {
    ranges->copy(parts->getPart(parts->getGradients(), bucket, group.rank()),
                 parts->getStagedGradients(group.rank(), bucket));
  }
  for (int64_t rank = 0; rank < group.size(); ++rank) {
    for (int64_t bucket = 0; bucket < parts->countBuckets(); ++bucket) {
      ranges->copy(parts->getStagedGradients(rank, bucket),
                   parts->getPart(parts->getGradients(), bucket, group.rank()));
    }
    for (size_t i = 0; i < losses.size(); ++i) {
      ranges->copy(parts->getStagedLoss(rank, i), getLoss(losses[i]));
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
  for (int64_t bucket = 0; bucket < parts->countBuckets(); ++bucket) {
    StoredRange own = parts->getPart(buffer, bucket, group.rank());
    for (int64_t other = 0; other < group.size(); ++other) {
      StoredRange theirs = parts->getPart(buffer, bucket, other);
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
  gather(parts->getSums());
  ownSeconds = ranges->readClock();
}

void SharedUpdate::update(const std::pair<const std::string, std::vector<Launch>> &entry) {
  const auto &[name, launches] = entry;
  double seconds = ranges->readClock();
  for (size_t i = 0; i < launches.size(); ++i) {
    if (!division->launches[i].isDivided) {
      device.runPart(name, launches, i, i + 1);
      continue;
    }
    if (isAllowed(plan, launches[i].guard, device.host())) {
      device.launch(launches[i], parts->getOwnSums());
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
    for (int64_t bucket = 0; bucket < parts->countBuckets(); ++bucket) {
      for (int64_t other = 1; other < group.size(); ++other) {
        StoredRange part = parts->getPart(state, bucket, other);
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
    for (int64_t bucket = 0; bucket < parts->countBuckets(); ++bucket) {
      StoredRange own = parts->getPart(state, bucket, group.rank());
      releaseTo(own.offset);
      free = own.offset + own.bytes;
    }
    releaseTo(state.offset + state.bytes);
  }
}

} // namespace sluice::runtime
