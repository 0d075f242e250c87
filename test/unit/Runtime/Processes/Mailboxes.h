// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Processes of a job as threads of one process, which exchange messages in memory.
#pragma once

#include "sluice/Runtime/Processes/ProcessGroup.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <tuple>

namespace sluice::test {

using runtime::Messenger;

/// Messages between threads.
struct Mailboxes {
  std::mutex mutex;
  std::map<std::tuple<int64_t, int64_t, Messenger::Channel>, std::deque<std::vector<uint8_t>>>
      sent; ///< by both ranks and the channel
  int finished = 0;
  std::atomic<int64_t> silent = -1; ///< a rank whose messages are lost, and which receives none
};

/// Receives match messages in the order in which they begin, as in MPI.
class ThreadMessenger : public Messenger {
public:
  ThreadMessenger(Mailboxes &boxes, int64_t own, int64_t count)
      : boxes(boxes), own(own), count(count) {}

  int64_t rank() const override { return own; }
  int64_t size() const override { return count; }
  void *send(std::span<const uint8_t> bytes, int64_t to, Channel channel) override {
    std::scoped_lock lock(boxes.mutex);
    if (boxes.silent != own) {
      boxes.sent[{own, to, channel}].emplace_back(bytes.begin(), bytes.end());
    }
    return new Request{{}, {}, /*isDone=*/true};
  }
  void *receive(std::span<uint8_t> bytes, int64_t from, Channel channel) override {
    auto *request = new Request{bytes, {from, channel}};
    posted[request->box].push_back(request);
    return request;
  }
  bool test(void *opaque) override {
    auto *request = static_cast<Request *>(opaque);
    if (!request->isDone) {
      deliver(request->box);
    }
    bool isDone = request->isDone;
    if (isDone) {
      delete request;
    }
    return isDone;
  }
  void finish() override {
    std::scoped_lock lock(boxes.mutex);
    ++boxes.finished;
  }

private:
  using Box = std::pair<int64_t, Channel>; ///< the sender
  struct Request {
    std::span<uint8_t> bytes;
    Box box;
    bool isDone = false;
  };

  void deliver(const Box &from) {
    std::scoped_lock lock(boxes.mutex);
    auto &box = boxes.sent[{from.first, own, from.second}];
    auto &waiting = posted[from];
    while (!box.empty() && !waiting.empty() && boxes.silent != own) {
      Request &next = *waiting.front();
      EXPECT_EQ(box.front().size(), next.bytes.size());
      std::memcpy(next.bytes.data(), box.front().data(),
                  std::min(box.front().size(), next.bytes.size()));
      next.isDone = true;
      box.pop_front();
      waiting.pop_front();
    }
  }

  Mailboxes &boxes;
  int64_t own, count;
  std::map<Box, std::deque<Request *>> posted;
};

} // namespace sluice::test
