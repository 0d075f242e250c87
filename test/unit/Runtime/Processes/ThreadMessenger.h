// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages between threads, in place of processes.
#pragma once

#include "sluice/Runtime/Processes/ProcessGroup.h"

#include <atomic>
#include <cstring>
#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

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
    return new Request{{}, -1, channel};
  }
  void *receive(std::span<uint8_t> bytes, int64_t from, Channel channel) override {
    return new Request{bytes, from, channel};
  }
  bool test(void *opaque) override {
    auto *request = static_cast<Request *>(opaque);
    if (request->from >= 0) {
      std::scoped_lock lock(boxes.mutex);
      auto &box = boxes.sent[{request->from, own, request->channel}];
      if (box.empty() || boxes.silent == own) {
        return false;
      }
      EXPECT_EQ(box.front().size(), request->bytes.size());
      std::memcpy(request->bytes.data(), box.front().data(), request->bytes.size());
      box.pop_front();
    }
    delete request;
    return true;
  }
  void finish() override {
    std::scoped_lock lock(boxes.mutex);
    ++boxes.finished;
  }

private:
  struct Request {
    std::span<uint8_t> bytes;
    int64_t from;
    Channel channel;
  };
  Mailboxes &boxes;
  int64_t own, count;
};

} // namespace sluice::test
