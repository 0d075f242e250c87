// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Processes/ProcessGroup.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <sched.h>
#include <set>
#include <thread>
#include <utility>

namespace sluice::runtime {
namespace {

using Channel = Messenger::Channel;

/// The message of `agree`.
struct IntentMessage {
  int64_t intent = 0, bytes = 0;
  std::array<char, ProcessGroup::mostText> text{};
};

/// The intent in a message of presence, which the receiver skips.
constexpr int64_t presence = -1;
/// The intent of a process that waits for data and answers the failure of another one. It goes to
/// all, as the agreement of a failure has the messages of all.
constexpr int64_t abandoned = -2;

/// MPI counts bytes in an int.
constexpr size_t mostBytes = size_t(1) << 28;

template <typename T> std::span<uint8_t> toBytes(T &value) {
  return {reinterpret_cast<uint8_t *>(&value), sizeof value};
}

bool isPresence(std::span<const uint8_t> message) {
  IntentMessage read;
  if (message.size() != sizeof read) {
    return false;
  }
  std::memcpy(&read, message.data(), sizeof read);
  return read.intent == presence;
}

} // namespace

struct ProcessGroup::Shown {
  IntentMessage message;
  std::vector<void *> requests;
};

struct ProcessGroup::Intents {
  std::vector<IntentMessage> messages; ///< by rank
  std::vector<Transfer> awaited;       ///< receives that are not complete

  /// Begins to receive the messages of the others.
  void begin(Messenger &messenger) {
    messages.resize(static_cast<size_t>(messenger.size()));
    for (int64_t other = 0; other < messenger.size(); ++other) {
      if (other != messenger.rank()) {
        std::span<uint8_t> message = toBytes(messages[static_cast<size_t>(other)]);
        awaited.push_back({messenger.receive(message, other, Channel::Agreement), other, message});
      }
    }
  }
};

ProcessGroup::ProcessGroup(std::unique_ptr<Messenger> messenger, std::chrono::seconds limit)
    : messenger(std::move(messenger)), ownRank(this->messenger->rank()),
      count(this->messenger->size()), limit(limit) {}

ProcessGroup::~ProcessGroup() {
  // Otherwise a process might never answer, or data might arrive in memory that is freed.
  if (over && !lost && !incomplete && begun.empty()) {
    try {
      messenger->finish();
    } catch (const std::exception &) {
      lost = true; // the job is over in any case
    }
  }
}

/// Polls: sleeping processes leave the processor to the others on the same machine.
void ProcessGroup::wait(std::vector<Transfer> transfers, bool watches) {
  constexpr std::chrono::microseconds busy(2000), pause(100);
  auto start = std::chrono::steady_clock::now();
  while (!transfers.empty()) {
    size_t before = transfers.size();
    try {
      std::erase_if(transfers, [&](Transfer &each) {
        if (!messenger->test(each.request)) {
          return false;
        }
        if (!isPresence(each.message)) {
          return true;
        }
        // A lost process is reported after the busy one is ready, as it may be saving.
        start = std::chrono::steady_clock::now();
        each.request = messenger->receive(each.message, each.peer, Channel::Agreement);
        return false;
      });
    } catch (const std::exception &) {
      over = lost = true;
      throw;
    }
    auto waited = std::chrono::steady_clock::now() - start;
    if (transfers.empty() || transfers.size() < before) {
      continue;
    }
    if (watches) {
      findFailure();
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
                          " s; look for a stopped process or a broken network. If a step may "
                          "take longer, give a higher --wait-limit");
    }
    if (waited < busy) {
      ::sched_yield();
    } else {
      std::this_thread::sleep_for(pause);
    }
  }
}

void ProcessGroup::begin(std::span<const Outgoing> sent, std::span<const Incoming> received) {
  std::scoped_lock lock(mutex);
  try {
    // Receives first, so that a lost peer is named by its silence.
    for (const Incoming &each : received) {
      for (size_t at = 0; at < each.bytes.size(); at += mostBytes) {
        auto part = each.bytes.subspan(at, std::min(mostBytes, each.bytes.size() - at));
        begun.push_back({messenger->receive(part, each.from, Channel::Data), each.from, {}});
      }
    }
    for (const Outgoing &each : sent) {
      for (size_t at = 0; at < each.bytes.size(); at += mostBytes) {
        auto part = each.bytes.subspan(at, std::min(mostBytes, each.bytes.size() - at));
        begun.push_back({messenger->send(part, each.to, Channel::Data), each.to, {}});
      }
    }
  } catch (const std::exception &) {
    over = lost = true; // others wait for the rest in vain
    throw;
  }
}

void ProcessGroup::progress() {
  std::scoped_lock lock(mutex);
  try {
    std::erase_if(begun, [&](const Transfer &each) { return messenger->test(each.request); });
  } catch (const std::exception &) {
    over = lost = true;
    throw;
  }
}

void ProcessGroup::complete() {
  std::scoped_lock lock(mutex);
  wait(std::exchange(begun, {}), /*watches=*/true);
}

void ProcessGroup::watch() {
  std::scoped_lock lock(mutex);
  findFailure();
}

void ProcessGroup::findFailure() {
  bool hasFailed = false;
  try {
    if (!std::exchange(isAwaiting, true)) {
      intents.emplace_back().begin(*messenger);
    }
    std::erase_if(intents.back().awaited, [&](Transfer &each) {
      if (!messenger->test(each.request)) {
        return false;
      }
      if (isPresence(each.message)) {
        each.request = messenger->receive(each.message, each.peer, Channel::Agreement);
        return false;
      }
      const IntentMessage &message = intents.back().messages[static_cast<size_t>(each.peer)];
      hasFailed |= message.intent == static_cast<int64_t>(Intent::Fail);
      return true;
    });
  } catch (const std::exception &) {
    over = lost = true;
    throw;
  }
  if (hasFailed) {
    exchangeIntents(abandoned, "");
  }
}

ProcessGroup::Agreement ProcessGroup::exchangeIntents(int64_t intent, const std::string &text) {
  if (!std::exchange(isAwaiting, false)) { // receives first, so that a lost peer is named
    intents.emplace_back().begin(*messenger);
  }
  std::vector<IntentMessage> &messages = intents.back().messages;
  IntentMessage &own = messages[static_cast<size_t>(rank())];
  own.intent = intent;
  own.bytes = static_cast<int64_t>(std::min(text.size(), mostText));
  std::memcpy(own.text.data(), text.data(), static_cast<size_t>(own.bytes));
  std::vector<Transfer> transfers = std::exchange(intents.back().awaited, {});
  for (int64_t other = 0; other < size(); ++other) {
    if (other != rank()) {
      transfers.push_back({messenger->send(toBytes(own), other, Channel::Agreement), other, {}});
    }
  }
  wait(std::move(transfers));
  std::vector<IntentMessage> complete = std::move(messages);
  intents.pop_back();
  Agreement agreement{Intent::Continue, {}};
  incomplete = incomplete || std::ranges::count(complete, abandoned, &IntentMessage::intent) > 0;
  for (const IntentMessage &message : complete) {
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
  std::scoped_lock lock(mutex);
  return exchangeIntents(static_cast<int64_t>(intent), text);
}

void ProcessGroup::fail(const std::string &message) noexcept {
  std::scoped_lock lock(mutex);
  if (over) {
    return;
  }
  over = true;
  try {
    exchangeIntents(static_cast<int64_t>(Intent::Fail), message);
  } catch (const std::exception &) {
    lost = true; // this process reports its own failure
  }
}

void ProcessGroup::lose() {
  std::scoped_lock lock(mutex);
  over = lost = true;
}

void ProcessGroup::end() {
  std::scoped_lock lock(mutex);
  over = true;
}

void ProcessGroup::show() {
  std::scoped_lock lock(mutex);
  if (over) {
    return;
  }
  std::erase_if(shown, [&](Shown &each) {
    std::erase_if(each.requests, [&](void *request) { return messenger->test(request); });
    return each.requests.empty();
  });
  Shown &next = shown.emplace_back();
  next.message.intent = presence;
  for (int64_t other = 0; other < size(); ++other) {
    if (other != rank()) {
      next.requests.push_back(messenger->send(toBytes(next.message), other, Channel::Agreement));
    }
  }
}

ProcessGroup::Presence::Presence(ProcessGroup *group) {
  if (!group) {
    return;
  }
  thread = std::jthread([group](const std::stop_token &stop) {
    std::chrono::milliseconds period = std::chrono::milliseconds(group->limit) / 4;
    std::mutex own;
    std::condition_variable_any stopped;
    std::unique_lock lock(own);
    while (!stopped.wait_for(lock, stop, period, [&] { return stop.stop_requested(); })) {
      try {
        group->show();
      } catch (const std::exception &) {
        return; // the next `agree` of this process finds the loss
      }
    }
  });
}

ProcessGroup::Presence::~Presence() = default; // stops and joins the thread

} // namespace sluice::runtime
