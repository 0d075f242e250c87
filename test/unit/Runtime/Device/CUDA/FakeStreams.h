// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams, events and graphs of the fake of NVIDIA's driver, and the errors that it returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <vector>

enum {
  invalid = 1,
  outOfMemory = 2,
  noDevice = 100,
  noBinary = 209,
  notFound = 500,
  notReady = 600,
  unjoined = 904
};
constexpr uint64_t deviceBit = uint64_t(1) << 62; // no host address has it

struct FakeStream;
struct Operation {
  std::function<void()> run;
  uint64_t event = 0;                      // a mark, not work
  FakeStream *other = nullptr;             // which must reach `awaited` first
  uint64_t awaited = 0;                    // an event
  std::function<bool()> isReady = nullptr; // if it waits for another process
};
struct FakeEvent;
struct FakeNode {
  std::function<void()> run; // null: records `event`
  std::set<size_t> after;    // nodes
  int priority = 0;
  FakeEvent *event = nullptr;
};
struct FakeGraph {
  std::vector<FakeNode> nodes;
};
struct FakeStream {
  bool captures = false;
  int priority = 0;
  std::set<size_t> last; // predecessors of the next node
  std::deque<Operation> queue;
  bool isLate = false; // has transfers: waits with FAKE_CUDA_EAGER too
  bool hasLaunches = false;
};
struct Module {
  std::string kernel;
};
struct FakeEvent {
  uint64_t recorded = 0;
  FakeStream *on = nullptr;
  bool queried = false; // since it was recorded
  bool captured = false;
  std::set<size_t> nodes; // of the capture
};
