// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Indices, barriers, shuffles, votes.
#include "Builtins.h"
#include "Machine.h"

#include "llvm/ADT/bit.h"

using namespace sluice::emulator;

static constexpr unsigned lanes = Machine::lanes;

template <char Axis> static uint32_t along(const Dim3 &extent) {
  return Axis == 'x' ? extent.x : Axis == 'y' ? extent.y : extent.z;
}
template <char Axis> static uint32_t threadIndex(uint32_t) {
  Machine &machine = Machine::current();
  return along<Axis>(machine.threadIndex(machine.thread()));
}
template <char Axis> static uint32_t blockIndex(uint32_t) {
  return along<Axis>(Machine::current().blockIndex());
}
template <char Axis> static uint32_t blockExtent(uint32_t) {
  return along<Axis>(Machine::current().launch.block);
}
template <char Axis> static uint32_t gridExtent(uint32_t) {
  return along<Axis>(Machine::current().launch.grid);
}
static uint32_t laneIndex(uint32_t) { return Machine::current().lane(); }
static uint32_t warpSize(uint32_t) { return lanes; }
static uint32_t isShared(uint32_t, uint64_t address) {
  return Machine::current().isShared(address);
}
static uint32_t isGlobal(uint32_t, uint64_t address) {
  return Machine::current().isGlobal(address);
}
static uint32_t dynamicBytes(uint32_t) {
  return static_cast<uint32_t>(Machine::current().launch.dynamicSharedBytes);
}

template <bool Aligned> static void barrierAll(uint32_t site, uint32_t id) {
  Machine::current().meetings.barrier(site, id, 0, true, Aligned);
}
template <bool Aligned, bool Waits>
static void barrierCount(uint32_t site, uint32_t id, uint32_t count) {
  Machine::current().meetings.barrier(site, id, count, Waits, Aligned);
}
static void arriveFirst(uint32_t site, uint32_t count) {
  Machine::current().meetings.barrier(site, 0, count, false, true);
}

static void syncWarp(uint32_t site, uint32_t mask) {
  Machine::current().meetings.meet(site, "bar.warp.sync", mask, false, nullptr,
                                   [](Machine &machine, void *const *, uint32_t present) {
                                     machine.meetings.joinWarp(present);
                                   });
}

namespace {

enum class From { Index, Up, Down, Butterfly };

struct Exchange {
  uint32_t site, value, offset, clamp, result;
  bool inside;
};

} // namespace

/// Implements PTX's shfl.sync: `clamp` has the segment's mask in bits 8 to 12 and the bound in bits
/// 0 to 4.
template <From Way> static uint32_t sourceLane(const Exchange &mine, uint32_t lane, bool &inside) {
  uint32_t segment = mine.clamp >> 8 & 31, bound = mine.clamp & 31, offset = mine.offset & 31;
  uint32_t most = (lane & segment) | (bound & ~segment), least = lane & segment;
  int32_t source = 0;
  switch (Way) {
  case From::Up:
    source = int32_t(lane) - int32_t(offset);
    inside = source >= int32_t(most);
    break;
  case From::Down:
    source = int32_t(lane + offset);
    inside = source <= int32_t(most);
    break;
  case From::Butterfly:
    source = int32_t(lane ^ offset);
    inside = source <= int32_t(most);
    break;
  case From::Index:
    source = int32_t(least | (offset & ~segment));
    inside = source <= int32_t(most);
  }
  return inside ? uint32_t(source) : lane;
}

template <From Way> static void exchange(Machine &machine, void *const *brought, uint32_t present) {
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    if (!(present >> lane & 1)) {
      continue;
    }
    Exchange &mine = *static_cast<Exchange *>(brought[lane]);
    uint32_t source = sourceLane<Way>(mine, lane, mine.inside);
    if (!(present >> source & 1)) {
      machine.fail(ViolationKind::AbsentLane, mine.site,
                   "expected lane " + std::to_string(source) + ", which lane " +
                       std::to_string(lane) + " reads from, to take part in the shuffle");
    }
    mine.result = static_cast<Exchange *>(brought[source])->value;
  }
}

template <From Way>
static Exchange shuffle(uint32_t site, uint32_t mask, uint32_t value, uint32_t offset,
                        uint32_t clamp) {
  Exchange mine{site, value, offset, clamp, 0, false};
  static const char *const names[] = {"shfl.sync.idx", "shfl.sync.up", "shfl.sync.down",
                                      "shfl.sync.bfly"};
  Machine::current().meetings.meet(site, names[int(Way)], mask, false, &mine, exchange<Way>);
  return mine;
}

template <From Way>
static uint32_t shuffleInteger(uint32_t site, uint32_t mask, uint32_t value, uint32_t offset,
                               uint32_t clamp) {
  return shuffle<Way>(site, mask, value, offset, clamp).result;
}
template <From Way>
static float shuffleFloat(uint32_t site, uint32_t mask, float value, uint32_t offset,
                          uint32_t clamp) {
  return llvm::bit_cast<float>(
      shuffle<Way>(site, mask, llvm::bit_cast<uint32_t>(value), offset, clamp).result);
}

namespace {
/// Layout of LLVM's { i32, i1 } and { float, i1 }.
struct WithPredicate {
  uint32_t value;
  uint8_t predicate;
};
} // namespace

template <From Way>
static void shufflePredicated(uint32_t site, WithPredicate *out, uint32_t mask, uint32_t value,
                              uint32_t offset, uint32_t clamp) {
  Exchange result = shuffle<Way>(site, mask, value, offset, clamp);
  *out = {result.result, result.inside};
}
template <From Way>
static void shufflePredicatedFloat(uint32_t site, WithPredicate *out, uint32_t mask, float value,
                                   uint32_t offset, uint32_t clamp) {
  shufflePredicated<Way>(site, out, mask, llvm::bit_cast<uint32_t>(value), offset, clamp);
}

namespace {
struct Ballot {
  uint32_t value, result, present;
};
} // namespace

static void gather(Machine &, void *const *brought, uint32_t present) {
  uint32_t all = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (present >> lane & 1) {
      all |= (static_cast<Ballot *>(brought[lane])->value & 1) << lane;
    }
  }
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (present >> lane & 1) {
      auto *mine = static_cast<Ballot *>(brought[lane]);
      mine->result = all;
      mine->present = present;
    }
  }
}

static Ballot vote(uint32_t site, const char *operation, uint32_t mask, uint32_t predicate) {
  Ballot mine{predicate, 0, 0};
  Machine::current().meetings.meet(site, operation, mask, false, &mine, gather);
  return mine;
}
static uint32_t ballot(uint32_t site, uint32_t mask, uint32_t predicate) {
  return vote(site, "vote.ballot.sync", mask, predicate).result;
}
static uint32_t voteAll(uint32_t site, uint32_t mask, uint32_t predicate) {
  Ballot result = vote(site, "vote.all.sync", mask, predicate);
  return result.result == result.present;
}
static uint32_t voteAny(uint32_t site, uint32_t mask, uint32_t predicate) {
  return vote(site, "vote.any.sync", mask, predicate).result != 0;
}
static uint32_t voteUniform(uint32_t site, uint32_t mask, uint32_t predicate) {
  Ballot result = vote(site, "vote.uni.sync", mask, predicate);
  return result.result == 0 || result.result == result.present;
}
/// Elects the lowest lane; PTX allows any.
static void elect(uint32_t site, WithPredicate *out, uint32_t mask) {
  Ballot result = vote(site, "elect.sync", mask, 1);
  auto leader = static_cast<uint32_t>(llvm::countr_zero(result.present));
  *out = {leader, Machine::current().lane() == leader};
}

namespace {
struct Reduction {
  uint32_t value, result;
};
} // namespace

template <typename T, T (*Combine)(T, T)>
static void reduce(Machine &, void *const *brought, uint32_t present) {
  auto at = [&](unsigned lane) { return static_cast<Reduction *>(brought[lane]); };
  auto first = static_cast<unsigned>(llvm::countr_zero(present));
  T result = static_cast<T>(at(first)->value);
  for (unsigned lane = first + 1; lane < lanes; ++lane) {
    result = present >> lane & 1 ? Combine(result, static_cast<T>(at(lane)->value)) : result;
  }
  for (unsigned lane = first; lane < lanes; ++lane) {
    if (present >> lane & 1) {
      at(lane)->result = static_cast<uint32_t>(result);
    }
  }
}
template <typename T, T (*Combine)(T, T)>
static uint32_t reduceWarp(uint32_t site, uint32_t value, uint32_t mask) {
  Reduction mine{value, 0};
  Machine::current().meetings.meet(site, "redux.sync", mask, false, &mine, reduce<T, Combine>);
  return mine.result;
}
template <typename T> static T sum(T x, T y) { return x + y; }
template <typename T> static T smaller(T x, T y) { return x < y ? x : y; }
template <typename T> static T larger(T x, T y) { return x < y ? y : x; }
static uint32_t both(uint32_t x, uint32_t y) { return x & y; }
static uint32_t either(uint32_t x, uint32_t y) { return x | y; }
static uint32_t different(uint32_t x, uint32_t y) { return x ^ y; }

static void endThread(uint32_t site) {
  Machine::current().fail(ViolationKind::Limit, site, "expected threads that end by returning");
}

template <Scope Reach> static void fence(uint32_t) {
  Machine &machine = Machine::current();
  machine.order.fence(machine.thread(), Reach, true, true);
}

static void fenceProxy(uint32_t) {
  Machine &machine = Machine::current();
  machine.clocks.fenceProducts(machine.thread());
}

/// Ignores operations about other warps, multiprocessors or time: the clocks model all orderings on
/// which a kernel may rely.
static void nothing(uint32_t) {}
static void sleepNow(uint32_t, uint32_t) {}

#define SHUFFLES(WAY, NAME)                                                                        \
  makeBuiltin("shfl.sync." NAME ".i32", shuffleInteger<WAY>),                                      \
      makeBuiltin("shfl.sync." NAME ".f32", shuffleFloat<WAY>),                                    \
      makeBuiltin("shfl.sync." NAME ".i32p", shufflePredicated<WAY>),                              \
      makeBuiltin("shfl.sync." NAME ".f32p", shufflePredicatedFloat<WAY>)

#define INDICES(AXIS, LETTER)                                                                      \
  makeBuiltin("read.ptx.sreg.tid." AXIS, threadIndex<LETTER>),                                     \
      makeBuiltin("read.ptx.sreg.ctaid." AXIS, blockIndex<LETTER>),                                \
      makeBuiltin("read.ptx.sreg.ntid." AXIS, blockExtent<LETTER>),                                \
      makeBuiltin("read.ptx.sreg.nctaid." AXIS, gridExtent<LETTER>)

llvm::ArrayRef<Builtin> sluice::emulator::threadBuiltins() {
  static const Builtin table[] = {
      INDICES("x", 'x'),
      INDICES("y", 'y'),
      INDICES("z", 'z'),
      makeBuiltin("read.ptx.sreg.laneid", laneIndex),
      makeBuiltin("read.ptx.sreg.warpsize", warpSize),
      makeBuiltin("read.ptx.sreg.dynamic.smem.size", dynamicBytes),
      makeBuiltin("isspacep.shared", isShared),
      makeBuiltin("isspacep.global", isGlobal),
      makeBuiltin("barrier.cta.sync.aligned.all", barrierAll<true>),
      makeBuiltin("barrier.cta.sync.all", barrierAll<false>),
      makeBuiltin("barrier.cta.sync.aligned.count", barrierCount<true, true>),
      makeBuiltin("barrier.cta.sync.count", barrierCount<false, true>),
      makeBuiltin("barrier.cta.arrive.aligned.count", barrierCount<true, false>),
      makeBuiltin("barrier.cta.arrive.count", barrierCount<false, false>),
      makeBuiltin("asm.barrier.arrive.0", arriveFirst),
      makeBuiltin("bar.warp.sync", syncWarp),
      SHUFFLES(From::Index, "idx"),
      SHUFFLES(From::Up, "up"),
      SHUFFLES(From::Down, "down"),
      SHUFFLES(From::Butterfly, "bfly"),
      makeBuiltin("vote.ballot.sync", ballot),
      makeBuiltin("vote.all.sync", voteAll),
      makeBuiltin("vote.any.sync", voteAny),
      makeBuiltin("vote.uni.sync", voteUniform),
      makeBuiltin("elect.sync", elect),
      makeBuiltin("redux.sync.add", reduceWarp<uint32_t, sum<uint32_t>>),
      makeBuiltin("redux.sync.min", reduceWarp<int32_t, smaller<int32_t>>),
      makeBuiltin("redux.sync.max", reduceWarp<int32_t, larger<int32_t>>),
      makeBuiltin("redux.sync.umin", reduceWarp<uint32_t, smaller<uint32_t>>),
      makeBuiltin("redux.sync.umax", reduceWarp<uint32_t, larger<uint32_t>>),
      makeBuiltin("redux.sync.and", reduceWarp<uint32_t, both>),
      makeBuiltin("redux.sync.or", reduceWarp<uint32_t, either>),
      makeBuiltin("redux.sync.xor", reduceWarp<uint32_t, different>),
      makeBuiltin("exit", endThread),
      makeBuiltin("membar.cta", fence<Scope::Block>),
      makeBuiltin("membar.gl", fence<Scope::Device>),
      makeBuiltin("membar.sys", fence<Scope::Device>),
      makeBuiltin("fence.sc.cluster", fence<Scope::Block>),
      makeBuiltin("fence.mbarrier_init.release.cluster", nothing),
      makeBuiltin("fence.proxy.async", fenceProxy),
      makeBuiltin("fence.proxy.async.shared_cta", fenceProxy),
      makeBuiltin("fence.proxy.async.global", nothing),
      makeBuiltin("nanosleep", sleepNow),
  };
  return table;
}
