// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the threads of a block as fibers of one thread of this machine.
#pragma once

#include "sluice/Emulator/Emulator.h"

#include <boost/context/detail/fcontext.hpp>
#include <functional>
#include <random>

namespace sluice::emulator {

/// Memory for the stacks of a block's threads.
struct Stacks {
  static constexpr uint64_t each = 128 * 1024; ///< bytes

  Stacks() = default;
  Stacks(char *start, uint64_t count) : start(start), count(count) {}
  Stacks(Stacks &&other) noexcept { *this = std::move(other); }
  Stacks &operator=(Stacks &&other) noexcept {
    std::swap(start, other.start);
    std::swap(count, other.count);
    return *this;
  }
  ~Stacks();

  char *start = nullptr;
  uint64_t count = 0;
};

class Threads {
public:
  static constexpr unsigned lanes = 32;

  explicit Threads(const Options &options);
  ~Threads();
  Threads(const Threads &) = delete;
  Threads &operator=(const Threads &) = delete;

  /// Starts `count` threads, each of which will call `body` once.
  void start(unsigned count, std::function<void()> body);

  /// Runs threads until none is ready, or one calls `stop`.
  void run();

  /// Suspends the running thread until another thread wakes it.
  void suspend();
  /// Ends the block from the running thread at once, without unwinding.
  [[noreturn]] void stop();
  /// Ends the running thread.
  [[noreturn]] void finish();

  void wake(unsigned thread);

  unsigned running() const { return current; }
  unsigned count() const { return static_cast<unsigned>(contexts.size()); }
  bool stopped() const { return stopping; }
  bool isDone(unsigned thread) const { return done[thread]; }
  std::mt19937_64 &random() { return generator; }

  bool onStack(uint64_t address) const {
    return address - reinterpret_cast<uint64_t>(stacks.start) < stacks.count * Stacks::each;
  }

private:
  static void enter(boost::context::detail::transfer_t transfer);
  void leave();
  void growStacks(unsigned count);
  unsigned pick();

  Stacks stacks;
  Schedule schedule;
  std::mt19937_64 generator;
  std::function<void()> body;
  std::vector<boost::context::detail::fcontext_t> contexts;
  std::vector<uint32_t> ready; ///< a mask of lanes for each warp
  std::vector<char> done;
  boost::context::detail::fcontext_t scheduler = nullptr;
  unsigned current = 0, warp = 0;
  bool stopping = false;
};

} // namespace sluice::emulator
