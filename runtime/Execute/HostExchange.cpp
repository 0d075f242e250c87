// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "HostExchange.h"

#include <algorithm>

namespace sluice::runtime {
namespace {

class HostExchange : public RangeExchange {
public:
  HostExchange(uint8_t *arena, ProcessGroup &group) : arena(arena), group(group) {}

  void reserve(int64_t bytes) override { staging.resize(static_cast<size_t>(bytes)); }

  void begin(std::span<const RangeTransfer> sent,
             std::span<const RangeTransfer> received) override {
    std::vector<ProcessGroup::Outgoing> outgoing;
    std::vector<ProcessGroup::Incoming> incoming;
    for (const RangeTransfer &each : sent) {
      outgoing.push_back({each.peer, getBytes(each.range)});
    }
    for (const RangeTransfer &each : received) {
      incoming.push_back({each.peer, getBytes(each.range)});
    }
    group.begin(outgoing, incoming);
  }
  /// Launches have ended when they return.
  void beginBucket(int64_t, std::span<const RangeTransfer> sent,
                   std::span<const RangeTransfer> received) override {
    begin(sent, received);
  }
  void progress() override { group.progress(); }
  void complete() override { group.complete(); }

  void copy(const StoredRange &from, const StoredRange &to) override {
    std::ranges::copy(getBytes(from), getBytes(to).begin());
  }

private:
  std::span<uint8_t> getBytes(const StoredRange &range) {
    uint8_t *memory = range.memory == RangeStore::Arena ? arena : staging.data();
    return {memory + range.offset, static_cast<size_t>(range.bytes)};
  }

  uint8_t *arena;
  ProcessGroup &group;
  std::vector<uint8_t> staging;
};

} // namespace

std::unique_ptr<RangeExchange> joinDevices(Device &device, ProcessGroup &group) {
  if (device.sharesMemory()) {
    return std::make_unique<HostExchange>(device.host(), group);
  }
  return device.join(
      {group.rank(), group.size(), group.waitLimit(),
       [&](const std::string &text) { return group.agree(Intent::Continue, text).texts; },
       [&] { group.watch(); }});
}

} // namespace sluice::runtime
