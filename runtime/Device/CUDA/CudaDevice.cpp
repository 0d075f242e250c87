// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a plan on an NVIDIA GPU through the driver API.
#include "sluice/Runtime/Device/CUDA/CudaDevice.h"

#include "CudaExchange.h"
#include "CudaGpu.h"
#include "CudaGraph.h"
#include "CudaLaunch.h"
#include "CudaProducts.h"
#include "Device/HostLaunch.h"
#include "Mirror.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <thread>

namespace sluice::runtime {
namespace {

using namespace cuda;

class CudaDevice : public Device {
public:
  CudaDevice(std::shared_ptr<const Artifact> artifact, const std::string &wanted,
             const GpuChoice &choice)
      : Device(std::move(artifact)), driver(openDriver(*loaded, wanted)),
        gpu(findGpu(driver, choice)), chosen(chooseTarget(*loaded, gpu, wanted)),
        mirror(static_cast<size_t>(plan().memory.arenaBytes)) {
    Context primary = nullptr;
    driver.check(driver.primaryContextRetain(&primary, gpu.number), "create a context");
    context = {gpu.number, driver.primaryContextRelease};
    current = primary;
    enter();
    makeStreams();
    products = std::make_unique<Products>(driver, *loaded, chosen);
    makeSegments();
    arenaBytes = plan().arenaFor(0);
    makeArena();
    bool takesCubin = chosen == "sm_90a" || gpu.major == 8;
    code =
        std::make_unique<LoadedFunctions>(driver, *loaded, chosen, takesCubin, gpu.mostSharedBytes);
    said = joinNotices(code->notice(), products->notice());
    makeArguments();
    products->warmUp(arena.get(), arenaBytes, stream.get()); // the arena is cleared afterwards
    clearArena();
    uploadConstants();
    makeStaging();
  }

  ~CudaDevice() override {
    driver.contextSetCurrent(current); // may be called on any thread
    driver.streamSynchronize(stream.get());
  }

  std::string target() const override { return chosen; }
  std::string describe() const override { return gpu.name; }
  std::string notice() const override { return said; }
  bool sharesMemory() const override { return false; }
  uint8_t *host() override { return mirror.get(); }

  void upload(MemoryRange range) override {
    if (range.bytes == 0) {
      return;
    }
    enter();
    makeRoom(range.offset + range.bytes);
    const uint8_t *from = mirror.get() + range.offset;
    auto bytes = static_cast<size_t>(range.bytes);
    if (range.bytes > slotBytes) {
      confirmExchange();
      driver.copyAndWait(at(range.offset), from, bytes, stream.get(), "upload");
      return;
    }
    DeviceSlot &slot = slots[nextSlot++ % slots.size()];
    if (exchange && driver.eventQuery(slot.free.get()) == notReady) {
      exchange->confirm();
    }
    driver.check(driver.eventSynchronize(slot.free.get()), "wait for an upload");
    std::memcpy(slot.memory, from, bytes);
    driver.check(driver.copyToDevice(at(range.offset), slot.memory, bytes, stream.get()), "upload");
    driver.check(driver.eventRecord(slot.free.get(), stream.get()), "record an event");
  }

  void download(MemoryRange range) override {
    if (isScalar(range)) {
      fetchScalars();
      return;
    }
    enter();
    makeRoom(range.offset + range.bytes);
    driver.check(driver.copyToHost(mirror.get() + range.offset, at(range.offset),
                                   static_cast<size_t>(range.bytes), stream.get()),
                 "download");
    synchronize();
  }

  void copy(MemoryRange range, int64_t offset) override {
    enter();
    makeRoom(std::max(range.offset, offset) + range.bytes);
    driver.check(driver.copyOnDevice(at(offset), at(range.offset), static_cast<size_t>(range.bytes),
                                     stream.get()),
                 "copy a part of the arena");
  }

  std::unique_ptr<RangeExchange> join(const ExchangeGroup &group) override {
    enter();
    int least = 0, greatest = 0;
    driver.check(driver.contextGetPriorities(&least, &greatest), "report its streams' priorities");
    makeMarks(least);
    ExchangeDevice own{driver, stream.get(), greatest, {}, {}, {}, {}};
    own.enter = [this] { enter(); };
    own.locate = [this](int64_t offset, int64_t bytes) {
      makeRoom(offset + bytes);
      scalarsFresh = false; // the range may have some
      return at(offset);
    };
    own.getMark = [this](int64_t bucket) { return marks.at(static_cast<size_t>(bucket)).get(); };
    own.attach = [this](RangeExchange *joined) { exchange = joined; };
    return joinByNccl(own, group);
  }

  void runPart(const std::string &entry, const std::vector<Launch> &launches, size_t first,
               size_t last) override {
    enter();
    makeRoom(plan().getArenaBytes(entry));
    for (Segment &segment : segments.at(entry)) {
      if (segment.first < first || segment.last > last) {
        continue;
      }
      if (segment.guard) {
        // Waits for the launches that write the guard; later reads of metrics need no wait.
        fetchScalars();
        if (!isAllowed(plan(), segment.guard, mirror.get())) {
          for (const Mark &mark : getMarks(entry, segment)) {
            driver.check(driver.eventRecord(mark.event, stream.get()), "record an event");
          }
          continue;
        }
      }
      std::vector<Mark> found = getMarks(entry, segment);
      timing ? runTimed(segment, launches, found) : runGraph(segment, launches, found);
      scalarsFresh &= !segment.writesScalars;
    }
  }

  void launch(const Launch &launch, const std::optional<ResultParts> &) override {
    enter();
    makeRoom(plan().memory.arenaBytes); // for any entry
    launchOne(launch, stream.get());
    scalarsFresh = false;
  }

  void synchronize() override {
    enter();
    confirmExchange();
    driver.check(driver.streamSynchronize(stream.get()), "run the kernels");
  }

private:
  /// Pinned memory for one upload in flight.
  struct DeviceSlot {
    uint8_t *memory = nullptr;
    Owned<Event> free;
  };

  Address at(int64_t offset) const { return arena.get() + static_cast<Address>(offset); }

  /// Makes the context current for the calling thread, which may change between calls.
  void enter() {
    if (lastThread != std::this_thread::get_id()) {
      driver.check(driver.contextSetCurrent(current), "use its context");
      lastThread = std::this_thread::get_id();
    }
  }

  /// Creates the streams. The main stream has the higher priority: the step waits for it, but waits
  /// for the side stream only at the end. Nodes of a graph have the priority of the stream that
  /// they were captured from.
  void makeStreams() {
    int least = 0, greatest = 0;
    driver.check(driver.contextGetPriorities(&least, &greatest), "report its streams' priorities");
    auto make = [&](int priority) -> Owned<Stream> {
      Stream made = nullptr;
      driver.check(driver.streamCreate(&made, streamNonBlocking, priority), "create a stream");
      return {made, driver.streamDestroy};
    };
    stream = make(greatest);
    side = make(least);
  }

  /// Creates the events of buckets, which graphs of gradients record from now on.
  void makeMarks(int priority) {
    Stream made = nullptr;
    driver.check(driver.streamCreate(&made, streamNonBlocking, priority), "create a stream");
    marker = {made, driver.streamDestroy};
    marks.clear();
    for (size_t i = 0; i < plan().buckets.size(); ++i) {
      marks.push_back(makeEvent(eventDisableTiming));
    }
    for (const auto &[entry, collectives] : plan().collectives) {
      for (Segment &segment : segments.at(entry)) {
        segment.graphs = {};
      }
    }
  }

  /// Returns the marks of a segment's collectives.
  std::vector<Mark> getMarks(const std::string &entry, const Segment &segment) const {
    std::vector<Mark> found;
    auto collectives = plan().collectives.find(entry);
    if (marks.empty() || collectives == plan().collectives.end()) {
      return found;
    }
    for (const Collective &each : collectives->second) {
      if (each.position > segment.first && each.position <= segment.last) {
        found.push_back({each.position, marks[static_cast<size_t>(each.bucket)].get()});
      }
    }
    return found;
  }

  /// Waits for transfers before a wait for the main stream, which waits for them without a limit.
  void confirmExchange() {
    if (exchange) {
      exchange->confirm();
    }
  }

  void makeSegments() {
    for (const auto &[entry, launches] : plan().entries) {
      segments[entry] = cutSegments(plan(), entry, launches);
      for (const Segment &segment : segments[entry]) {
        SideMemory needed = sideMemory(plan(), chosen, launches, segment.first, segment.last);
        sideNeeds.workspaceBytes = std::max(sideNeeds.workspaceBytes, needed.workspaceBytes);
        sideNeeds.counterBytes = std::max(sideNeeds.counterBytes, needed.counterBytes);
      }
    }
  }

  size_t freeMemory() const {
    size_t free = 0, total = 0;
    driver.check(driver.memoryGetInfo(&free, &total), "report its free memory");
    return free;
  }

  /// Allocates an arena of `arenaBytes`, followed by counters and a workspace for the side stream.
  /// If they do not fit, both streams share the workspace in the arena.
  void makeArena() {
    size_t free = freeMemory();
    auto bytes = static_cast<size_t>(std::max<int64_t>(arenaBytes, 256));
    int64_t end = static_cast<int64_t>(bytes) + sideNeeds.counterBytes;
    sideWorkspaceOffset = (end + 4095) / 4096 * 4096;
    auto both = static_cast<size_t>(sideWorkspaceOffset + sideNeeds.workspaceBytes);
    Address memory = 0;
    sideHasOwn = both <= free && driver.memoryAllocate(&memory, both) == success;
    bytes = sideHasOwn ? both : bytes;
    Result result = sideHasOwn     ? success
                    : free < bytes ? outOfMemory
                                   : driver.memoryAllocate(&memory, bytes);
    if (result == outOfMemory) {
      throw UserError(
          explainMemory(*loaded, gpu, arenaBytes, free, 2 * products->workspaceBytes()));
    }
    driver.check(result, "allocate the arena");
    arena = {memory, driver.memoryFree};
    allocatedBytes = bytes;
  }

  /// Grows the arena to at least `bytes`. Persistent data moves through the host, so that the old
  /// and the new arena do not exist at the same time. This happens at most once per bucket.
  void makeRoom(int64_t bytes) {
    if (bytes <= arenaBytes) {
      return;
    }
    synchronize();
    bytes = plan().arenaFor(bytes);
    size_t free = freeMemory() + allocatedBytes;
    if (free < static_cast<size_t>(bytes)) { // the arena does not change
      throw UserError(explainMemory(*loaded, gpu, bytes, free, 2 * products->workspaceBytes()));
    }
    auto lasting = static_cast<size_t>(plan().lastingBytes());
    Mirror kept(lasting);
    driver.check(driver.copyToHost(kept.get(), arena.get(), lasting, stream.get()),
                 "download what lasts of the arena");
    synchronize();
    for (auto &[entry, ofEntry] : segments) {
      for (Segment &segment : ofEntry) {
        segment.graphs = {}; // graphs were captured with the arena's address
      }
    }
    arena = {};
    arenaBytes = bytes;
    makeArena();
    makeArguments();
    clearArena();
    driver.copyAndWait(arena.get(), kept.get(), lasting, stream.get(),
                       "upload what lasts of the arena");
  }

  void clearArena() {
    driver.check(driver.memset8(arena.get(), 0, allocatedBytes, stream.get()), "clear the arena");
  }

  void uploadConstants() {
    std::span<const uint8_t> constants = loaded->constants();
    if (!constants.empty()) {
      driver.copyAndWait(at(plan().constantsOffset), constants.data(), constants.size(),
                         stream.get(), "upload the constants");
    }
  }

  /// Uploads the arguments of every launch once.
  void makeArguments() {
    std::vector<int64_t> all;
    for (auto &[name, entrySegments] : segments) {
      const std::vector<Launch> &launches = plan().entries.at(name);
      for (Segment &segment : entrySegments) {
        segment.lanes =
            assignLanes(plan(), chosen, launches, segment.first, segment.last, sideHasOwn);
        for (size_t i = segment.first; i < segment.last; ++i) {
          const Launch &launch = launches[i];
          argumentsOf[&launch] = static_cast<Address>(all.size() * sizeof(int64_t));
          all.insert(all.end(), launch.arguments.begin(), launch.arguments.end());
          bool moves = segment.lanes[i - segment.first].side && sideHasOwn;
          if (moves && getWorkspace(plan(), chosen, launch).any()) {
            all.back() = sideWorkspaceOffset; // the last argument is the workspace
          }
        }
      }
    }
    size_t bytes = std::max<size_t>(all.size(), 1) * sizeof(int64_t);
    Address memory = 0;
    driver.check(driver.memoryAllocate(&memory, bytes), "allocate the launches' arguments");
    arguments = {memory, driver.memoryFree};
    driver.copyAndWait(memory, all.data(), all.size() * sizeof(int64_t), stream.get(),
                       "upload the launches' arguments");
  }

  /// Allocates staging slots of the size of the tokens, within bounds, and space for the scalars.
  void makeStaging() {
    for (const auto &[name, scalar] : plan().scalars) {
      scalarsBegin = std::min(scalarsBegin, scalar.offset);
      scalarsEnd = std::max(scalarsEnd, scalar.offset + getByteSize(scalar.type));
    }
    scalarsBegin = std::min(scalarsBegin, scalarsEnd);
    slotBytes = stagingBytes(plan());
    void *memory = nullptr;
    int64_t bytes = slotBytes * static_cast<int64_t>(slots.size()) + scalarsEnd - scalarsBegin;
    driver.check(driver.hostAllocate(&memory, static_cast<size_t>(bytes)), "pin memory");
    pinned = {memory, driver.hostFree};
    auto *next = static_cast<uint8_t *>(memory);
    for (DeviceSlot &slot : slots) {
      slot = {next, makeEvent(eventDisableTiming)};
      next += slotBytes;
    }
    scalarCopy = next;
  }

  Owned<Event> makeEvent(unsigned flags) const {
    Event event = nullptr;
    driver.check(driver.eventCreate(&event, flags), "create an event");
    return {event, driver.eventDestroy};
  }

  bool isScalar(MemoryRange range) const {
    return std::any_of(plan().scalars.begin(), plan().scalars.end(), [&](const auto &named) {
      return named.second.offset == range.offset && getByteSize(named.second.type) == range.bytes;
    });
  }

  /// Downloads all scalars that entries write in one copy, unless they are current.
  void fetchScalars() {
    if (scalarsFresh) {
      return;
    }
    enter();
    driver.check(driver.copyToHost(scalarCopy, at(scalarsBegin),
                                   static_cast<size_t>(scalarsEnd - scalarsBegin), stream.get()),
                 "download the scalars");
    synchronize();
    for (const auto &[name, scalar] : plan().scalars) {
      if (name != "length" && name != "rows" && name != "step" && name != "seed" &&
          name != "first_row" && name != "draw_rows") {
        std::memcpy(mirror.get() + scalar.offset, scalarCopy + (scalar.offset - scalarsBegin),
                    static_cast<size_t>(getByteSize(scalar.type)));
      }
    }
    scalarsFresh = true;
  }

  /// Checks for full length and batch, the sizes for which the library computes products.
  bool isFull() const { return products->any() && isFullSize(plan(), mirror.get()); }

  void launchOne(const Launch &launch, Stream lane) const {
    if (products->covers(launch) && isFull()) {
      products->run(launch, arena.get(), lane, lane == side.get());
      return;
    }
    code->launch(launch, arena.get(), arguments.get() + argumentsOf.at(&launch), lane);
  }

  void runGraph(Segment &segment, const std::vector<Launch> &launches,
                const std::vector<Mark> &segmentMarks) {
    Owned<GraphExec> &graph = segment.graphs[isFull() ? 1 : 0];
    if (!graph) {
      confirmExchange(); // the driver may wait for the GPU
      graph = captureGraph(driver, segment, {stream.get(), side.get(), marker.get()}, segmentMarks,
                           [&](size_t i, Stream lane) { launchOne(launches[i], lane); });
    }
    driver.check(driver.graphLaunch(graph.get(), stream.get()), "launch a graph");
  }

  /// Runs the launches one at a time between events.
  void runTimed(const Segment &segment, const std::vector<Launch> &launches,
                const std::vector<Mark> &segmentMarks) {
    std::vector<Owned<Event>> events;
    auto mark = [&] {
      events.push_back(makeEvent(0));
      driver.check(driver.eventRecord(events.back().get(), stream.get()), "record an event");
    };
    mark();
    for (size_t i = segment.first; i < segment.last; ++i) {
      launchOne(launches[i], stream.get());
      mark();
      for (const Mark &each : segmentMarks) {
        if (each.position == i + 1) {
          driver.check(driver.eventRecord(each.event, stream.get()), "record an event");
        }
      }
    }
    synchronize();
    for (size_t i = segment.first; i < segment.last; ++i) {
      float milliseconds = 0;
      size_t event = i - segment.first;
      driver.check(
          driver.eventElapsedTime(&milliseconds, events[event].get(), events[event + 1].get()),
          "time a kernel");
      addTime(launches[i], milliseconds * 1e-3);
    }
  }

  const Driver &driver;
  const Gpu gpu;
  const std::string chosen;
  Mirror mirror;
  Owned<DeviceNumber> context;
  Context current = nullptr;
  std::thread::id lastThread;
  Owned<Stream> stream, side, marker;
  std::vector<Owned<Event>> marks;   // of collectives, by bucket; none without `join`
  RangeExchange *exchange = nullptr; // the result of `join`
  std::unique_ptr<Products> products;
  Owned<Address> arena, arguments;
  int64_t arenaBytes = 0;    // size of the arena: of a bucket or the plan's total
  size_t allocatedBytes = 0; // the arena and the memory after it
  Owned<void *> pinned;
  std::unique_ptr<LoadedFunctions> code;
  std::string said; // message to show to the user once
  std::map<const Launch *, Address> argumentsOf;
  std::map<std::string, std::vector<Segment>> segments; // by entry
  std::array<DeviceSlot, 8> slots;
  size_t nextSlot = 0;
  SideMemory sideNeeds;
  bool sideHasOwn = false;
  int64_t slotBytes = 0, sideWorkspaceOffset = 0;
  int64_t scalarsBegin = INT64_MAX, scalarsEnd = 0;
  uint8_t *scalarCopy = nullptr;
  bool scalarsFresh = false;
};

} // namespace

std::unique_ptr<Device> makeCudaDevice(std::shared_ptr<const Artifact> artifact,
                                       const std::string &target, const GpuChoice &choice) {
  return std::make_unique<CudaDevice>(std::move(artifact), target, choice);
}

} // namespace sluice::runtime
