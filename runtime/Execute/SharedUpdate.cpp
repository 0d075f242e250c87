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
  stagedBytes = roundToLines(getRange(getGradients(), group.rank()).bytes) +
                roundToLines(std::ssize(losses) * lossBytes);
  ranges->reserve(group.size() * stagedBytes);
}

StoredRange SharedUpdate::getRange(const MemoryRange &buffer, int64_t rank) const {
  int64_t rowBytes = division ? buffer.bytes / rows : lineBytes,
          each = (rows + group.size() - 1) / group.size() * rowBytes;
  int64_t begin = std::min(rank * each, buffer.bytes), end = std::min(begin + each, buffer.bytes);
  return {RangeStore::Arena, buffer.offset + begin, end - begin};
}

StoredRange SharedUpdate::getStagedLosses(int64_t rank) const {
  return {RangeStore::Staging, rank * stagedBytes, std::ssize(losses) * lossBytes};
}

StoredRange SharedUpdate::getStagedLoss(int64_t rank, size_t index) const {
  return {RangeStore::Staging, rank * stagedBytes + static_cast<int64_t>(index) * lossBytes,
          lossBytes};
}

StoredRange SharedUpdate::getStagedGradients(int64_t rank) const {
  return {RangeStore::Staging, rank * stagedBytes + roundToLines(std::ssize(losses) * lossBytes),
          getRange(getGradients(), group.rank()).bytes};
}

StoredRange SharedUpdate::getLoss(size_t index) const {
  return {RangeStore::Arena, losses[index], lossBytes};
}

void SharedUpdate::sum(int64_t last, const std::function<void(int64_t batch)> &accumulate) {
  bool isInterrupted = group.isInterrupted && group.isInterrupted();
  begin = std::chrono::steady_clock::now();
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
  int64_t own = group.rank();
  StoredRange range = getRange(getGradients(), own);
  for (size_t i = 0; i < losses.size(); ++i) {
    ranges->copy(getLoss(i), getStagedLoss(own, i));
  }
  ranges->copy(range, getStagedGradients(own));
  std::vector<RangeTransfer> sent, received;
  for (int64_t other = 0; other < group.size(); ++other) {
    if (other != own) {
      sent.push_back({other, getStagedLosses(own)});
      sent.push_back({other, getRange(getGradients(), other)});
      received.push_back({other, getStagedLosses(other)});
      received.push_back({other, getStagedGradients(other)});
    }
  }
  ranges->exchange(sent, received);
  for (int64_t rank = 0; rank < group.size(); ++rank) {
    ranges->copy(getStagedGradients(rank), range);
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
  for (int64_t other = 0; other < group.size(); ++other) {
    if (other != group.rank()) {
      sent.push_back({other, getRange(buffer, group.rank())});
      received.push_back({other, getRange(buffer, other)});
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
  StoredRange own = getRange(getSums(), group.rank());
  int64_t first = own.offset - *plan.gradientSumsOffset;
  for (size_t i = 0; i < launches.size(); ++i) {
    if (!division->launches[i].isDivided) {
      device.runPart(name, launches, i, i + 1);
      continue;
    }
    if (isAllowed(plan, launches[i].guard, device.host())) {
      device.launch(launches[i], ResultPart{first, first + own.bytes, plan.gradientsBytes});
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
    if (!group.isFirst()) {
      sent.push_back({0, getRange(state, group.rank())});
    }
    for (int64_t other = 1; group.isFirst() && other < group.size(); ++other) {
      received.push_back({other, getRange(state, other)});
    }
    ranges->exchange(sent, received);
  }
}

void SharedUpdate::releaseState() {
  for (const MemoryRange &state : division->states) {
    StoredRange own = getRange(state, group.rank());
    int64_t end = own.offset + own.bytes;
    releasePages({device.host() + state.offset, static_cast<size_t>(own.offset - state.offset)});
    releasePages({device.host() + end, static_cast<size_t>(state.offset + state.bytes - end)});
  }
}

MemoryRange SharedUpdate::getOwnSums() const {
  StoredRange range = getRange(getSums(), group.rank());
  return {range.offset, range.bytes};
}

} // namespace sluice::runtime
