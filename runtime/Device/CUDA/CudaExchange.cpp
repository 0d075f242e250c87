// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CudaExchange.h"

#include "Nccl.h"
#include "sluice/Runtime/Processes/ProcessGroup.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cstring>
#include <sched.h>
#include <set>
#include <thread>

namespace sluice::runtime::cuda {
namespace {

/// Returns "rank 1" or "ranks 1, 2".
std::string listRanks(const std::set<int64_t> &ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (int64_t rank : ranks) {
    text += (rank == *ranks.begin() ? " " : ", ") + std::to_string(rank);
  }
  return text;
}

class NcclExchange : public RangeExchange {
public:
  NcclExchange(ExchangeDevice given, const ExchangeGroup &group)
      : device(std::move(given)), driver(device.driver), library(nccl::NcclLibrary::open()),
        rank(group.rank), limit(group.limit), watch(group.watch) {
    device.enter();
    Stream made = nullptr;
    driver.check(driver.streamCreate(&made, streamNonBlocking, device.priority), "create a stream");
    stream = {made, driver.streamDestroy};
    ready = makeEvent(eventDisableTiming);
    clock = makeEvent(0);
    end = makeEvent(0);
    join(group);
    device.attach(this);
  }

  /// Does not wait for other processes: they have agreed to end, or have failed.
  ~NcclExchange() override {
    device.attach(nullptr);
    device.enter();
    abort();
  }

  void reserve(int64_t bytes) override {
    device.enter();
    Address memory = 0;
    Result result =
        driver.memoryAllocate(&memory, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
    if (result == outOfMemory) {
      throw UserError("--device cuda: expected " + std::to_string(bytes) +
                      " bytes of GPU memory for the gradients of other processes, found less; "
                      "set a smaller batch and compile the spec again");
    }
    driver.check(result, "allocate memory for an exchange");
    staging = {memory, driver.memoryFree};
  }

  void begin(std::span<const RangeTransfer> sent,
             std::span<const RangeTransfer> received) override {
    device.enter();
    driver.check(driver.eventRecord(ready.get(), device.main), "record an event");
    beginAfter(ready.get(), sent, received);
  }

  void beginBucket(int64_t bucket, std::span<const RangeTransfer> sent,
                   std::span<const RangeTransfer> received) override {
    device.enter();
    beginAfter(device.getMark(bucket), sent, received);
  }

  /// The main stream waits for the transfers, and the host does not.
  void complete() override {
    device.enter();
    driver.check(driver.eventRecord(end.get(), stream.get()), "record an event");
    driver.check(driver.streamWaitEvent(device.main, end.get(), 0), "wait for an event");
    isPending = true;
  }

  void confirm() override {
    if (!isPending) {
      return;
    }
    device.enter();
    wait("exchange gradients", [&] {
      Result state = driver.eventQuery(end.get());
      if (state != notReady) {
        driver.check(state, "exchange gradients");
      }
      return state == success;
    });
    isPending = hasBegun = false;
    peers.clear();
  }

  void copy(const StoredRange &from, const StoredRange &to) override {
    device.enter();
    driver.check(driver.copyOnDevice(getAddress(to), getAddress(from),
                                     static_cast<size_t>(from.bytes), device.main),
                 "copy gradients");
  }

  void startClock() override {
    device.enter();
    driver.check(driver.eventRecord(clock.get(), device.main), "record an event");
  }

  double readClock() override {
    float milliseconds = 0;
    device.enter();
    driver.check(driver.eventElapsedTime(&milliseconds, clock.get(), end.get()),
                 "time an exchange");
    return static_cast<double>(milliseconds) * 1e-3;
  }

private:
  void beginAfter(Event event, std::span<const RangeTransfer> sent,
                  std::span<const RangeTransfer> received) {
    if (!communicator) {
      throw JobError("--device cuda: expected to exchange gradients, found that NCCL has failed; "
                     "look at the first message");
    }
    driver.check(driver.streamWaitEvent(stream.get(), event, 0), "wait for an event");
    hasBegun = true;
    // The group must end even if one of its calls fails.
    nccl::NcclResult first = library.groupStart();
    auto keep = [&](nccl::NcclResult result) {
      bool isFirst = first == nccl::success || first == nccl::inProgress;
      first = isFirst ? result : first;
    };
    for (const RangeTransfer &each : received) {
      peers.insert(each.peer);
      keep(library.receive(at(each.range), static_cast<size_t>(each.range.bytes), nccl::uint8,
                           static_cast<int>(each.peer), communicator, stream.get()));
    }
    for (const RangeTransfer &each : sent) {
      peers.insert(each.peer);
      keep(library.send(at(each.range), static_cast<size_t>(each.range.bytes), nccl::uint8,
                        static_cast<int>(each.peer), communicator, stream.get()));
    }
    keep(library.groupEnd());
    check(first, "exchange gradients");
    wait("exchange gradients", [&] { return true; }); // until the transfers are in the stream
  }

  void join(const ExchangeGroup &group) {
    constexpr size_t digits = 8;
    nccl::UniqueId id{};
    if (rank == 0) {
      check(library.getUniqueId(&id), "start a group");
    }
    std::string version = std::to_string(library.version);
    version.resize(digits, ' ');
    std::vector<std::string> texts =
        group.share(version + std::string(id.bytes, rank == 0 ? sizeof id.bytes : 0));
    for (size_t other = 1; other < texts.size(); ++other) {
      if (texts[other].substr(0, digits) != texts.front().substr(0, digits)) {
        auto show = [](const std::string &text) { return nccl::showVersion(std::stoi(text)); };
        throw UserError("rank " + std::to_string(other) + ": expected the NCCL of rank 0, " +
                        show(texts.front()) + ", found " + show(texts[other]) +
                        "; install one version on all machines");
      }
    }
    if (texts.front().size() != digits + sizeof id.bytes) {
      throw JobError("expected NCCL's identifier of rank 0, found another text; start all "
                     "processes with --device cuda");
    }
    std::memcpy(id.bytes, texts.front().data() + digits, sizeof id.bytes);
    for (int64_t other = 0; other < group.size; ++other) {
      peers.insert(other);
    }
    nccl::Config config;
    check(library.initRank(&communicator, static_cast<int>(group.size), id, static_cast<int>(rank),
                           &config),
          "join the GPUs");
    wait("join the GPUs", [] { return true; });
    peers.clear();
  }

  Owned<Event> makeEvent(unsigned flags) const {
    Event made = nullptr;
    driver.check(driver.eventCreate(&made, flags), "create an event");
    return {made, driver.eventDestroy};
  }

  Address getAddress(const StoredRange &range) const {
    return range.memory == RangeStore::Staging ? staging.get() + static_cast<Address>(range.offset)
                                               : device.locate(range.offset, range.bytes);
  }
  void *at(const StoredRange &range) const { return reinterpret_cast<void *>(getAddress(range)); }

  void check(nccl::NcclResult result, const std::string &doing) {
    if (result != nccl::success && result != nccl::inProgress) {
      std::string why = library.explain(result, communicator);
      abort();
      throw JobError("--device cuda: NCCL failed to " + doing + ": " + why +
                     "; NCCL_DEBUG=INFO shows more. Look at the GPUs of all machines and the "
                     "network between them");
    }
  }

  /// Waits until NCCL has nothing in progress on the host, and `isDone` returns true. Ends at the
  /// limit, at an error that NCCL notices meanwhile, and when another process fails.
  template <typename Done> void wait(const std::string &doing, const Done &isDone) {
    constexpr std::chrono::microseconds busy(2000), pause(50);
    auto start = std::chrono::steady_clock::now();
    while (true) {
      nccl::NcclResult state = nccl::success;
      check(library.getAsyncError(communicator, &state), doing);
      check(state, doing);
      if (state == nccl::success && isDone()) {
        return;
      }
      findFailure();
      auto waited = std::chrono::steady_clock::now() - start;
      if (waited > limit) {
        abort();
        peers.erase(rank);
        throw LostPeerError("the GPUs of rank " + std::to_string(rank) + " and " +
                            listRanks(peers) + " have not finished to " + doing + " for " +
                            std::to_string(limit.count()) +
                            " s; look for a stopped process or a broken network. If it may take "
                            "longer, give a higher --wait-limit");
      }
      if (waited < busy) {
        ::sched_yield();
      } else {
        std::this_thread::sleep_for(pause);
      }
    }
  }

  /// Throws if another process has failed.
  void findFailure() {
    try {
      if (watch) {
        watch();
      }
    } catch (const std::exception &) {
      abort();
      throw;
    }
  }

  /// Ends the transfers, with meaningless data. Those that wait for launches of this device start
  /// first: they use the memory of the communicator.
  void abort() {
    if (communicator && hasBegun) {
      if (!isPending) { // the main stream does not wait for transfers yet
        driver.eventRecord(ready.get(), device.main);
      }
      driver.eventSynchronize(ready.get());
    }
    isPending = hasBegun = false;
    if (communicator) {
      library.abort(communicator);
      communicator = nullptr;
    }
  }

  const ExchangeDevice device;
  const Driver &driver;
  const nccl::NcclLibrary &library;
  const int64_t rank;
  const std::chrono::seconds limit;
  const std::function<void()> watch;
  Owned<Address> staging;
  Owned<Stream> stream;
  Owned<Event> clock;                       ///< of `startClock`
  Owned<Event> ready, end;                  ///< of earlier launches, and of the transfers
  bool hasBegun = false, isPending = false; ///< since `confirm`: `begin`, `complete`
  nccl::Communicator communicator = nullptr;
  std::set<int64_t> peers; ///< of the current transfers
};

} // namespace

std::unique_ptr<RangeExchange> joinByNccl(const ExchangeDevice &device,
                                          const ExchangeGroup &group) {
  return std::make_unique<NcclExchange>(device, group);
}

} // namespace sluice::runtime::cuda
