// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A launch from its first check to its report.
#include "Machine.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>
#include <numeric>

using namespace sluice;
using namespace sluice::emulator;

static thread_local Machine *machine = nullptr;

Machine &Machine::current() { return *machine; }

Machine::Machine(const Program &program, const SharedArena &arena, const Launch &launch,
                 const Options &options, void (*entry)(const uint64_t *))
    : threads(options), program(program), arena(arena), launch(launch), options(options),
      entry(entry), memory(program, clocks, order,
                           [this](Kind kind, const Touch &touch, const std::string &message) {
                             bool ends = kind == Kind::OutOfBounds || kind == Kind::Misaligned;
                             ends ? fail(kind, touch.site, message, touch.address)
                                  : complain(kind, touch.site, message, touch.address);
                           }),
      traffic(program, report.counters) {}

Dim3 Machine::unflatten(uint64_t number, const Dim3 &extent) const {
  return {uint32_t(number % extent.x), uint32_t(number / extent.x % extent.y),
          uint32_t(number / extent.x / extent.y)};
}

Dim3 Machine::threadIndex(unsigned thread) const { return unflatten(thread, launch.block); }

void Machine::complain(Kind kind, uint32_t site, const std::string &message, uint64_t address) {
  // Thousands of threads make the same mistake; the first one holds it.
  if (told[{static_cast<int>(kind), site}]++ == 0) {
    bool inThread = threads.count() > 0;
    report.violations.push_back({kind, program.kernel, block,
                                 inThread ? threadIndex(thread()) : Dim3{0, 0, 0},
                                 program.sites[site].text, program.sites[site].location,
                                 address ? memory.describe(address) : "", message});
    failed |= report.violations.size() >= options.mostViolations;
  }
}

void Machine::fail(Kind kind, uint32_t site, const std::string &message, uint64_t address) {
  complain(kind, site, message, address);
  failed = true;
  threads.stop();
}

void Machine::touch(unsigned thread, const Touch &touch) {
  memory.touch(thread, touch);
  bool shared = isShared(touch.address);
  Counters &counters = report.counters;
  if (touch.reads) {
    (shared ? counters.sharedReadBytes : counters.globalReadBytes) += touch.bytes;
  }
  if (touch.writes) {
    (shared ? counters.sharedWrittenBytes : counters.globalWrittenBytes) += touch.bytes;
  }
  if (options.countTraffic && !touch.barrier) {
    traffic.record(thread, touch.site, touch.address, static_cast<uint32_t>(touch.bytes), shared);
  }
  if (failed && threads.count() > 0) {
    threads.stop();
  }
}

void Machine::access(uint64_t address, uint64_t bytes, uint32_t site) {
  if (threads.onStack(address) || bytes == 0) {
    return;
  }
  const Site &at = program.sites[site];
  Touch touch{address, bytes, at.align};
  touch.reads = at.reads;
  touch.writes = at.writes;
  touch.atomic = at.atomic;
  touch.strong = at.atomic && at.scope == Scope::Device;
  touch.site = site;
  this->touch(thread(), touch);
  if (at.atomic) {
    order.atomic(thread(), address, at, !isShared(address));
  }
}

void Machine::fence(uint32_t site) {
  const Site &at = program.sites[site];
  order.fence(thread(), at.scope, at.acquires, at.releases);
}

void Machine::touchShared(unsigned thread, uint64_t address, uint64_t bytes, bool writes,
                          uint32_t site) {
  if (!isShared(address)) {
    fail(Kind::OutOfBounds, site, "expected an address of shared memory", address);
  }
  Touch touch{address, bytes, bytes};
  touch.reads = !writes;
  touch.writes = writes;
  touch.site = site;
  this->touch(thread, touch);
}

/// Bounds of the buffer that holds `address`: from where to where.
static std::pair<uint64_t, uint64_t> extentOf(const Launch &launch, uint64_t address) {
  for (const Buffer &buffer : launch.buffers) {
    auto begin = reinterpret_cast<uint64_t>(buffer.data);
    if (address - begin < buffer.bytes) {
      return {begin, begin + buffer.bytes};
    }
  }
  return {address, address};
}

void Machine::expect(bool holds, Kind kind, const std::string &message) {
  if (!holds) {
    complain(kind, 0, message);
  }
}

static std::string str(const Dim3 &extent) {
  return std::to_string(extent.x) + " x " + std::to_string(extent.y) + " x " +
         std::to_string(extent.z);
}

/// True if the driver admits the launch.
void Machine::checkLimits() {
  const Dim3 &grid = launch.grid, &threads = launch.block;
  expect(threads.count() > 0 && threads.count() <= 1024 && threads.z <= 64, Kind::Limit,
         "expected 1 to 1024 threads a block, at most 64 of them along z; found " + str(threads));
  expect(grid.count() > 0 && grid.x < 1u << 31 && grid.y < 1 << 16 && grid.z < 1 << 16, Kind::Limit,
         "expected a grid of 1 to 2^31 - 1 blocks along x and 1 to 65535 along y and z; found " +
             str(grid));
  const std::vector<uint32_t> &required = program.requiredThreads;
  auto requiredAt = [&](size_t i) { return i < required.size() ? required[i] : 1; };
  Dim3 wanted{requiredAt(0), requiredAt(1), requiredAt(2)};
  expect(required.empty() || wanted == threads, Kind::Argument,
         "expected blocks of " + str(wanted) + " threads, as the kernel requires (nvvm.reqntid); " +
             "found " + str(threads));
  uint64_t shared = launch.dynamicSharedBytes, end = 0;
  for (const SharedGlobal &global : program.shared) {
    shared += global.bytes;
    end = std::max(end, global.address - arena.begin() +
                            (global.dynamic ? launch.dynamicSharedBytes : global.bytes));
  }
  expect(shared <= mostSharedBytes && end <= SharedArena::bytes, Kind::Limit,
         "expected at most " + std::to_string(mostSharedBytes) + " bytes of shared memory, found " +
             std::to_string(shared));
}

/// True if arguments match the claims of the parameters.
void Machine::checkArguments() {
  size_t count = program.parameters.size();
  if (launch.arguments.size() != count) {
    return expect(false, Kind::Argument,
                  "expected " + std::to_string(count) + " arguments, found " +
                      std::to_string(launch.arguments.size()));
  }
  for (size_t i = 0; i < count; ++i) {
    const Parameter &one = program.parameters[i];
    expect(!one.pointer || launch.arguments[i] % one.align == 0, Kind::Misaligned,
           "expected a pointer aligned to " + std::to_string(one.align) + " bytes for '" +
               one.name + "'");
    for (size_t j = 0; j < i; ++j) {
      const Parameter &other = program.parameters[j];
      bool claimed = one.pointer && other.pointer && (one.noAlias || other.noAlias) &&
                     !(one.readOnly && other.readOnly);
      auto a = extentOf(launch, launch.arguments[i]), c = extentOf(launch, launch.arguments[j]);
      expect(!claimed || a.second <= c.first || c.second <= a.first, Kind::AliasedArguments,
             "expected '" + other.name + "' and '" + one.name +
                 "' to point to buffers that do not overlap: one claims noalias");
    }
  }
}

/// In the thread itself, after its last instruction.
void Machine::endThread() {
  unsigned self = thread();
  commitCopies();
  for (const std::vector<Copy> &group : queues[self].groups) {
    if (!group.empty()) {
      complain(Kind::PendingCopy, group.front().site,
               "expected the thread to wait for its asynchronous copies before it ends",
               group.front().to);
      break;
    }
  }
  waitCopies(0);
  Warp &warp = warps[self / lanes];
  warp.ended |= 1u << lane();
  for (size_t i = 0; i < warp.meetings.size();) {
    i += !complete(warp, i);
  }
}

std::string Machine::whereabouts(unsigned thread) const {
  std::string who = "thread " + std::to_string(thread);
  if (threads.isDone(thread)) {
    return who + " has ended";
  }
  const Wait &wait = waits[thread];
  return who + " waits at '" + program.sites[wait.site].text + "'";
}

/// No thread can continue: names the first who waits, and an example of those that he waits for.
void Machine::explainDeadlock() {
  unsigned count = threads.count();
  unsigned first = 0;
  while (first < count && threads.isDone(first)) {
    ++first;
  }
  const Wait &wait = waits[first];
  auto isMissing = [&](unsigned thread) {
    const Wait &other = waits[thread];
    bool named = wait.what != Wait::For::Lanes ||
                 (thread / lanes == first / lanes && (wait.which >> thread % lanes & 1));
    return named &&
           (threads.isDone(thread) || other.what != wait.what || other.which != wait.which ||
            (wait.what == Wait::For::Lanes && other.site != wait.site));
  };
  std::string missing = "nobody";
  unsigned number = 0;
  for (unsigned thread = count; thread-- > 0;) {
    if (isMissing(thread)) {
      missing = whereabouts(thread);
      ++number;
    }
  }
  Kind kind = Kind::BarrierDivergence;
  std::string expected = "expected all threads that barrier " + std::to_string(wait.which) +
                         " counts; the block cannot go on without";
  if (wait.what == Wait::For::Lanes) {
    kind = Kind::AbsentLane;
    expected = "expected all lanes of mask 0x" + llvm::utohexstr(wait.which, true) + "; absent:";
  } else if (wait.what == Wait::For::Mbarrier) {
    kind = Kind::Mbarrier;
    expected = "expected the phase to complete; nobody is left who arrives:";
  }
  report.violations.push_back(
      {kind, program.kernel, block, threadIndex(first), program.sites[wait.site].text,
       program.sites[wait.site].location, "",
       expected + " " + std::to_string(number) + " threads, of which " + missing});
  failed = true;
}

void Machine::runBlock(uint32_t number) {
  auto count = static_cast<unsigned>(launch.block.count());
  block = unflatten(number, launch.grid);
  clocks.reset(count);
  order.startBlock();
  memory.startBlock(number + 1);
  traffic.start(count);
  warps.assign((count + lanes - 1) / lanes, {});
  if (count % lanes) {
    warps.back().ended = ~0u << count % lanes;
  }
  waits.assign(count, {});
  queues.assign(count, {});
  std::fill(std::begin(named), std::end(named), NamedBarrier());
  mbarriers.clear();
  threads.start(count, [this] {
    entry(launch.arguments.data());
    endThread();
  });
  threads.run();
  bool all = true;
  for (unsigned thread = 0; thread < count; ++thread) {
    all &= threads.isDone(thread);
  }
  if (!all && !threads.stopped()) {
    explainDeadlock();
  }
  for (unsigned warp = 0; warp < warps.size(); ++warp) {
    traffic.flush(warp);
  }
  memory.endBlock();
  ++report.counters.blocks;
  report.counters.threads += count;
}

void Machine::pause(Wait wait) {
  waits[thread()] = wait;
  threads.suspend();
  waits[thread()] = {};
  if (failed) {
    threads.stop();
  }
}

void Machine::summarize(llvm::ArrayRef<uint64_t> counts) {
  for (auto [info, entered] : llvm::zip(program.blocks, counts)) {
    report.counters.coverage.push_back(info);
    report.counters.coverage.back().entered = entered;
    report.counters.instructions += info.instructions * entered;
  }
  traffic.finish();
}

Report Machine::run(llvm::ArrayRef<Buffer> tables, llvm::MutableArrayRef<uint64_t> counts) {
  machine = this;
  checkLimits();
  checkArguments();
  if (report.passed()) {
    order.startLaunch();
    memory.prepare(launch, tables);
    std::fill(counts.begin(), counts.end(), 0);
    std::vector<uint32_t> order(launch.grid.count());
    std::iota(order.begin(), order.end(), 0);
    if (options.seed) {
      std::shuffle(order.begin(), order.end(), threads.random());
    }
    for (size_t i = 0; i < order.size() && !failed; ++i) {
      runBlock(order[i]);
    }
    if (!failed) {
      memory.finish();
    }
    if (options.countTraffic) {
      memory.countDistinct(report.counters);
    }
    summarize(counts);
  }
  machine = nullptr;
  return std::move(report);
}
