// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Processes/ProcessGroup.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <sched.h>
#include <set>
#include <thread>

namespace sluice::runtime {
namespace {

/// The message of `agree`.
struct IntentMessage {
  int64_t intent = 0, bytes = 0;
  std::array<char, ProcessGroup::mostText> text{};
};

/// MPI counts bytes in an int.
constexpr size_t mostBytes = size_t(1) << 28;

template <typename T> std::span<uint8_t> toBytes(T &value) {
  return {reinterpret_cast<uint8_t *>(&value), sizeof value};
}

} // namespace

ProcessGroup::ProcessGroup(std::unique_ptr<Messenger> messenger, std::chrono::seconds limit)
    : messenger(std::move(messenger)), limit(limit) {}

ProcessGroup::~ProcessGroup() {
  if (over && !lost) { // otherwise a process might never answer
    try {
      messenger->finish();
    } catch (const std::exception &) {
      lost = true; // the job is over in any case
    }
  }
}

/// Polls: sleeping processes leave the processor to the others on the same machine.
void ProcessGroup::wait(std::vector<Transfer> transfers) {
  constexpr std::chrono::microseconds busy(2000), pause(100);
  auto start = std::chrono::steady_clock::now();
  while (!transfers.empty()) {
    size_t before = transfers.size();
    try {
      std::erase_if(transfers, [&](const Transfer &each) { return messenger->test(each.request); });
    } catch (const std::exception &) {
      over = lost = true;
      throw;
    }
    auto waited = std::chrono::steady_clock::now() - start;
    if (transfers.empty() || transfers.size() < before) {
      continue;
    }
    if (waited > limit) {
      over = lost = true;
      std::set<int64_t> silent;
      for (const Transfer &each : transfers) {
        silent.insert(each.peer);
      }
      std::string ranks = silent.size() == 1 ? "rank " : "ranks ";
      for (int64_t peer : silent) {
        ranks += (peer == *silent.begin() ? "" : ", ") + std::to_string(peer);
      }
      throw LostPeerError(ranks + (silent.size() == 1 ? " has" : " have") + " not answered rank " +
                          std::to_string(rank()) + " for " + std::to_string(limit.count()) +
                          " s; look for a stopped process or a broken network. If a step, an "
                          "evaluation or a save may take longer, give a higher --wait-limit");
    }
    if (waited < busy) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(pause);
    }
  }
}

void ProcessGroup::exchange(std::span<const Outgoing> sent, std::span<const Incoming> received) {
  std::vector<Transfer> transfers; // receives first, so that a lost peer is named by its silence
  for (const Incoming &each : received) {
    for (size_t at = 0; at < each.bytes.size(); at += mostBytes) {
      auto part = each.bytes.subspan(at, std::min(mostBytes, each.bytes.size() - at));
      transfers.push_back({messenger->receive(part, each.from), each.from});
    }
  }
  for (const Outgoing &each : sent) {
    for (size_t at = 0; at < each.bytes.size(); at += mostBytes) {
      auto part = each.bytes.subspan(at, std::min(mostBytes, each.bytes.size() - at));
      transfers.push_back({messenger->send(part, each.to), each.to});
    }
  }
  wait(std::move(transfers));
}

ProcessGroup::Agreement ProcessGroup::exchangeIntents(Intent intent, const std::string &text) {
  std::vector<IntentMessage> messages(static_cast<size_t>(size()));
  IntentMessage &own = messages[static_cast<size_t>(rank())];
  own.intent = static_cast<int64_t>(intent);
  own.bytes = static_cast<int64_t>(std::min(text.size(), mostText));
  std::memcpy(own.text.data(), text.data(), static_cast<size_t>(own.bytes));
  std::vector<Outgoing> sent;
  std::vector<Incoming> received;
  for (int64_t other = 0; other < size(); ++other) {
    if (other != rank()) {
      sent.push_back({other, toBytes(own)});
      received.push_back({other, toBytes(messages[static_cast<size_t>(other)])});
    }
  }
  exchange(sent, received);
  Agreement agreement{Intent::Continue, {}};
  for (const IntentMessage &message : messages) {
    agreement.intent = std::max(agreement.intent, static_cast<Intent>(message.intent));
    agreement.texts.emplace_back(message.text.data(), static_cast<size_t>(message.bytes));
    if (agreement.intent == Intent::Fail && !over) {
      over = true;
      throw PeerError("rank " + std::to_string(agreement.texts.size() - 1) + ": " +
                      agreement.texts.back());
    }
  }
  return agreement;
}

ProcessGroup::Agreement ProcessGroup::agree(Intent intent, const std::string &text) {
  return exchangeIntents(intent, text);
}

void ProcessGroup::fail(const std::string &message) noexcept {
  if (over) {
    return;
  }
  over = true;
  try {
    exchangeIntents(Intent::Fail, message);
  } catch (const std::exception &) {
    lost = true; // this process reports its own failure
  }
}

void ProcessGroup::end() { over = true; }

} // namespace sluice::runtime
