// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a launch from its first check to its report.
#include "Machine.h"

#include "LaunchChecks.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <numeric>

using namespace sluice;
using namespace sluice::emulator;

static thread_local Machine *machine = nullptr;

Machine &Machine::current() { return *machine; }

Machine::Machine(const Program &program, const SharedArena &arena, const EmulatedLaunch &launch,
                 const Options &options, void (*entry)(const uint64_t *))
    : program(program), launch(launch), options(options), threads(options),
      memory(program, clocks, order,
             [this](ViolationKind kind, const Touch &touch, const std::string &message) {
               bool ends = kind == ViolationKind::OutOfBounds || kind == ViolationKind::Misaligned;
               ends ? fail(kind, touch.site, message, touch.address)
                    : complain(kind, touch.site, message, touch.address);
             }),
      traffic(program, report.counters), arena(arena), entry(entry) {}

static Dim3 unflatten(uint64_t number, const Dim3 &extent) {
  return {uint32_t(number % extent.x), uint32_t(number / extent.x % extent.y),
          uint32_t(number / extent.x / extent.y)};
}

Dim3 Machine::threadIndex(unsigned thread) const { return unflatten(thread, launch.block); }

void Machine::complain(ViolationKind kind, uint32_t site, const std::string &message,
                       uint64_t address) {
  // Reports only the first violation at a site, because thousands of threads make the same mistake.
  if (reported[{static_cast<int>(kind), site}]++ == 0) {
    bool inThread = threads.count() > 0;
    report.violations.push_back({kind, program.kernel, block,
                                 inThread ? threadIndex(thread()) : Dim3{0, 0, 0},
                                 program.sites[site].text, program.sites[site].location,
                                 address ? memory.describe(address) : "", message});
    failed |= report.violations.size() >= options.mostViolations;
  }
}

void Machine::fail(ViolationKind kind, uint32_t site, const std::string &message,
                   uint64_t address) {
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
  // Tensor cores read tiles themselves: banks matter to threads alone.
  if (options.countTraffic && !touch.barrier && !touch.product) {
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
    fail(ViolationKind::OutOfBounds, site, "expected an address of shared memory", address);
  }
  Touch touch{address, bytes, bytes};
  touch.reads = !writes;
  touch.writes = writes;
  touch.site = site;
  this->touch(thread, touch);
}

/// Runs on the ending thread, after its last instruction.
void Machine::endThread() {
  copies.endThread();
  products.endThread();
  meetings.endLane();
}

void Machine::reportDeadlock() {
  Deadlock found = explainDeadlock(program, threads, waits);
  report.violations.push_back({found.kind, program.kernel, block, threadIndex(found.thread),
                               program.sites[found.site].text, program.sites[found.site].location,
                               "", found.message});
  failed = true;
}

void Machine::runBlock(uint32_t number) {
  auto count = static_cast<unsigned>(launch.block.count());
  block = unflatten(number, launch.grid);
  clocks.reset(count);
  order.startBlock();
  memory.startBlock(number + 1);
  traffic.start(count);
  waits.assign(count, {});
  meetings.startBlock(count);
  mbarriers.startBlock();
  copies.startBlock(count);
  products.startBlock(count);
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
    reportDeadlock();
  }
  if (all) {
    products.endBlock();
  }
  for (unsigned warp = 0; warp * lanes < count; ++warp) {
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

/// Adds the number of entries of each basic block.
static void addCoverage(const Program &program, llvm::ArrayRef<uint64_t> counts,
                        Counters &counters) {
  for (auto [info, entered] : llvm::zip(program.blocks, counts)) {
    counters.coverage.push_back(info);
    counters.coverage.back().entered = entered;
    counters.instructions += info.instructions * entered;
  }
}

Report Machine::run(llvm::ArrayRef<Buffer> tables, llvm::MutableArrayRef<uint64_t> counts) {
  machine = this;
  checkLaunch(program, arena, launch, [this](ViolationKind kind, const std::string &message) {
    complain(kind, 0, message);
  });
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
    addCoverage(program, counts, report.counters);
    traffic.finish();
  }
  machine = nullptr;
  return std::move(report);
}
