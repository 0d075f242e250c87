// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of one access against the shadow of its bytes.
#include "Memory.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <cstring>

using namespace sluice;
using namespace sluice::emulator;

Memory::Memory(const Program &program, const Clocks &clocks, const Order &order, Complaint complain)
    : program(program), clocks(clocks), histories(clocks), complain(std::move(complain)),
      earlier(program, order, this->complain) {}

/// Allocates memory that the system zeroes page by page when it is touched.
template <typename T> static Region::Shadow<T> makeShadow(uint64_t count) {
  auto *memory = static_cast<T *>(std::calloc(std::max<uint64_t>(count, 1), sizeof(T)));
  if (!memory) {
    llvm::report_bad_alloc_error("no memory for the emulator's shadow");
  }
  return {memory, std::free};
}

static uint8_t getBufferFlags(const Buffer &buffer) {
  uint8_t flags = buffer.initialized ? Region::Initialized : 0;
  switch (buffer.writes) {
  case Writes::None:
    return flags;
  case Writes::Any:
    return flags | Region::Writable;
  case Writes::AtMostOnce:
    return flags | Region::Writable | Region::AtMostOnce;
  case Writes::Once:
    return flags | Region::Writable | Region::AtMostOnce | Region::Must;
  }
  llvm_unreachable("a new kind of writes");
}

/// Adds a buffer. Overlapping buffers share one region, and the permissions and initialization of
/// each buffer apply to its bytes.
void Memory::addGlobal(std::vector<Buffer> buffers) {
  Region region;
  region.begin = reinterpret_cast<uint64_t>(buffers.front().data);
  for (const Buffer &buffer : buffers) {
    uint64_t end = reinterpret_cast<uint64_t>(buffer.data) + buffer.bytes;
    region.bytes = std::max(region.bytes, end - region.begin);
    region.written |= buffer.writes != Writes::None;
  }
  region.flags = makeShadow<uint8_t>(region.bytes);
  for (const Buffer &buffer : buffers) {
    uint64_t offset = reinterpret_cast<uint64_t>(buffer.data) - region.begin;
    for (uint64_t i = 0; i < buffer.bytes; ++i) {
      region.flags[offset + i] |= getBufferFlags(buffer);
    }
  }
  if (region.written) {
    region.history = makeShadow<uint32_t>(region.bytes);
    region.past = makeShadow<uint32_t>(region.bytes);
  }
  region.buffers = std::move(buffers);
  regions.push_back(std::move(region));
}

void Memory::addShared(const SharedGlobal &global, uint64_t bytes) {
  Region region;
  region.begin = global.address;
  region.bytes = bytes;
  region.shared = region.written = true;
  region.flags = makeShadow<uint8_t>(bytes);
  region.history = makeShadow<uint32_t>(bytes);
  region.buffers = {{global.name, reinterpret_cast<void *>(global.address), bytes, Writes::Any}};
  regions.push_back(std::move(region));
}

void Memory::prepare(const EmulatedLaunch &launch, llvm::ArrayRef<Buffer> tables) {
  regions.clear();
  earlier.startLaunch();
  severalBlocks = launch.grid.count() > 1;
  std::vector<Buffer> buffers(launch.buffers);
  buffers.insert(buffers.end(), tables.begin(), tables.end());
  llvm::erase_if(buffers, [](const Buffer &buffer) { return buffer.bytes == 0; });
  llvm::sort(buffers, [](const Buffer &a, const Buffer &b) {
    return std::tie(a.data, a.bytes, a.name) < std::tie(b.data, b.bytes, b.name);
  });
  for (size_t i = 0; i < buffers.size();) {
    auto *end = static_cast<char *>(buffers[i].data) + buffers[i].bytes;
    std::vector<Buffer> together{buffers[i]};
    for (++i; i < buffers.size() && buffers[i].data < end; ++i) {
      end = std::max(end, static_cast<char *>(buffers[i].data) + buffers[i].bytes);
      together.push_back(buffers[i]);
    }
    addGlobal(std::move(together));
  }
  for (const SharedGlobal &global : program.shared) {
    addShared(global, global.dynamic ? launch.dynamicSharedBytes : global.bytes);
  }
  llvm::sort(regions, [](const Region &a, const Region &b) { return a.begin < b.begin; });
  nearby.assign(program.sites.size(), nullptr);
}

void Memory::startBlock(uint32_t number) {
  histories.reset();
  earlier.startBlock(number);
  for (Region &region : regions) {
    if (region.shared) {
      std::memset(region.flags.get(), Region::Writable, region.bytes);
      std::memset(region.history.get(), 0, region.bytes * sizeof(uint32_t));
      // Fills memory with a pattern that is unlikely to be data: quiet NaN as f32, f16 and bf16.
      std::memset(reinterpret_cast<void *>(region.begin), 0xff, region.bytes);
    }
  }
}

void Memory::endBlock() { earlier.addBlock(histories); }

Region *Memory::find(uint64_t address, uint64_t bytes) {
  auto after = llvm::partition_point(regions, [&](const Region &r) { return r.begin <= address; });
  if (after == regions.begin() || !std::prev(after)->contains(address, bytes)) {
    return nullptr;
  }
  return &*std::prev(after);
}

std::string Memory::describe(uint64_t address) const {
  const Buffer *nearest = nullptr;
  uint64_t distance = ~0ull;
  auto distanceTo = [&](const Buffer &buffer) -> uint64_t {
    auto begin = reinterpret_cast<uint64_t>(buffer.data);
    return address < begin ? begin - address
                           : address - std::min(address, begin + buffer.bytes - 1);
  };
  for (const Region &region : regions) {
    for (const Buffer &buffer : region.buffers) {
      if (buffer.bytes && distanceTo(buffer) < distance) {
        distance = distanceTo(buffer);
        nearest = &buffer;
      }
    }
  }
  if (!nearest || distance > 1 << 20) {
    return "0x" + llvm::utohexstr(address, true) + ", near no buffer";
  }
  auto begin = reinterpret_cast<uint64_t>(nearest->data);
  if (address < begin) {
    return "'" + nearest->name + "' - " + std::to_string(begin - address);
  }
  return "'" + nearest->name + "' + " + std::to_string(address - begin) + " of " +
         std::to_string(nearest->bytes) + " bytes";
}

void Memory::outOfBounds(const Touch &touch) {
  complain(ViolationKind::OutOfBounds, touch,
           "expected " + std::to_string(touch.bytes) + " bytes inside a buffer or shared memory");
}

void Memory::touch(unsigned thread, const Touch &touch) {
  Region *region = nearby[touch.site];
  if (!region || !region->contains(touch.address, touch.bytes)) {
    region = find(touch.address, touch.bytes);
    if (!region) {
      return outOfBounds(touch);
    }
    nearby[touch.site] = region;
  }
  if (touch.address & (touch.align - 1)) {
    complain(ViolationKind::Misaligned, touch,
             "expected an address that is a multiple of " + std::to_string(touch.align) +
                 ", as the instruction claims; found one of remainder " +
                 std::to_string(touch.address & (touch.align - 1)));
    return;
  }
  uint64_t offset = touch.address - region->begin;
  checkFlags(*region, touch, offset);
  if (region->written) {
    checkThreads(*region, thread, touch, offset);
    if (!region->shared) {
      earlier.check(*region, thread, touch, offset);
    }
  }
}

/// Returns the flags that all bytes have, and the flags that some byte has. Processes four bytes at
/// once, because most accesses are of words.
static std::pair<uint8_t, uint8_t> fold(const uint8_t *flags, uint64_t count) {
  uint32_t all = ~0u, any = 0;
  uint64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    uint32_t four;
    std::memcpy(&four, flags + i, 4);
    all &= four;
    any |= four;
  }
  for (; i < count; ++i) {
    all &= flags[i] * 0x01010101u;
    any |= flags[i];
  }
  all &= all >> 16;
  any |= any >> 16;
  return {static_cast<uint8_t>(all & all >> 8), static_cast<uint8_t>(any | any >> 8)};
}

void Memory::checkFlags(Region &region, const Touch &touch, uint64_t offset) {
  uint8_t *flags = region.flags.get() + offset;
  auto [all, any] = fold(flags, touch.bytes);
  if ((any & Region::Barrier) && !touch.barrier) {
    complain(ViolationKind::Mbarrier, touch,
             "expected the bytes of an mbarrier object to be left to mbarrier instructions");
  }
  if (touch.reads && !(all & Region::Initialized)) {
    complain(ViolationKind::Uninitialized, touch,
             "expected bytes that something has written before");
    // Marks the bytes as initialized, so that each byte is reported only once.
    std::for_each_n(flags, touch.bytes, [](uint8_t &flag) { flag |= Region::Initialized; });
  }
  if (touch.reads && !(all & Region::Read)) {
    std::for_each_n(flags, touch.bytes, [](uint8_t &flag) { flag |= Region::Read; });
  }
  if (!touch.writes) {
    return;
  }
  if (!(all & Region::Writable)) {
    complain(ViolationKind::OutOfBounds, touch, "expected no write to a buffer that is only read");
    return;
  }
  if ((any & Region::AtMostOnce) && (any & Region::Written) && !touch.atomic) {
    complain(ViolationKind::WrittenTwice, touch,
             "expected every element of an output to be written once");
  }
  constexpr uint8_t done = Region::Initialized | Region::Written;
  std::for_each_n(flags, touch.bytes, [](uint8_t &flag) { flag |= done; });
}

static AccessEvent makeEvent(const Clocks &clocks, unsigned thread, const Touch &touch) {
  Access access = makeAccess(touch.writes, touch.atomic, touch.strong);
  if (touch.product) {
    return {clocks.getProducts(thread), touch.agentTime, touch.site, access};
  }
  return touch.copy ? AccessEvent(thread + clocks.threads(), touch.agentTime, touch.site, access)
                    : AccessEvent(thread, clocks.now(thread), touch.site, access);
}

/// Reports an access that is not ordered after `other`.
void Memory::reportConflict(const Touch &at, unsigned thread, const AccessEvent &other) {
  unsigned threads = clocks.threads();
  bool products = other.agent() >= 2 * threads, copies = !products && other.agent() >= threads;
  bool known = at.product && clocks.knows(thread, other.agent(), other.time());
  std::string what =
      products ? "a product of warp " + std::to_string(other.agent() - 2 * threads)
      : copies ? "a copy that thread " + std::to_string(other.agent() - threads) + " issued"
               : "thread " + std::to_string(other.agent());
  what += writes(other.access()) ? " wrote" : " read";
  ViolationKind kind = known               ? ViolationKind::UnfencedProduct
                       : products          ? ViolationKind::UnwaitedProduct
                       : copies || at.copy ? ViolationKind::UnwaitedCopy
                                           : ViolationKind::Race;
  complain(kind, at,
           "expected to be ordered after what " + what + " here, at '" +
               program.sites[other.site()].text +
               (known                ? "': no fence.proxy.async is between"
                : copies || products ? "': no wait of its own and no barrier after one is between"
                                     : "': no barrier is between"));
}

/// Checks an access against the other threads of the block. Bytes of one access mostly have the
/// same history, so each run of equal histories is looked up once.
void Memory::checkThreads(Region &region, unsigned thread, const Touch &touch, uint64_t offset) {
  AccessEvent event = makeEvent(clocks, thread, touch);
  uint32_t *history = region.history.get() + offset;
  for (uint64_t i = 0; i < touch.bytes;) {
    uint32_t before = history[i];
    const Histories::Step &step = histories.add(before, event, thread);
    if (step.conflict) {
      Touch at = touch;
      at.address += i;
      reportConflict(at, thread, step.conflict);
    }
    uint64_t from = i;
    for (; i < touch.bytes && history[i] == before; ++i) {
      history[i] = step.next;
    }
    if (severalBlocks && !region.shared && histories.isEmpty(before)) {
      earlier.addTouched(region, offset + from, i - from);
    }
  }
}

void Memory::markBarrier(uint64_t address, bool present) {
  Region *region = find(address, 8);
  for (uint64_t i = 0; i < 8; ++i) {
    uint8_t &flag = region->flags[address - region->begin + i];
    flag = present ? flag | Region::Barrier : flag & ~Region::Barrier;
  }
}

void Memory::finish() {
  for (const Region &region : regions) {
    for (const Buffer &buffer : region.buffers) {
      auto begin = reinterpret_cast<uint64_t>(buffer.data);
      const uint8_t *flags = region.flags.get() + (begin - region.begin);
      const uint8_t *missing = std::find_if(flags, flags + buffer.bytes, [&](uint8_t flag) {
        return buffer.writes == Writes::Once && !(flag & Region::Written);
      });
      if (missing != flags + buffer.bytes) {
        complain(ViolationKind::NeverWritten, {begin + uint64_t(missing - flags), 1},
                 "expected every byte of the output to be written");
      }
    }
  }
}

void Memory::countDistinct(Counters &counters) const {
  for (const Region &region : regions) {
    for (uint64_t i = 0; !region.shared && i < region.bytes; ++i) {
      counters.distinctReadBytes += (region.flags[i] & Region::Read) != 0;
      counters.distinctWrittenBytes += (region.flags[i] & Region::Written) != 0;
    }
  }
}
