// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Editor/Findings.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace sluice::editor {

/// The name that diagnostics and a model without a name give the document: its path, or its uri.
std::string getFilePath(const std::string &uri);

/// Checks texts in the background, the newest of each document only, once it has rested for a
/// while.
class Examiner {
public:
  struct Job {
    std::string uri;
    std::shared_ptr<const Document> document;
    std::optional<int64_t> version;
  };
  /// Called from another thread, unless a newer text of the document came meanwhile.
  using Publish = std::function<void(const Job &, std::shared_ptr<const Findings>)>;
  using Duration = std::chrono::milliseconds;

  /// Where `background` is false, no thread starts, and `submit` checks and publishes before it
  /// returns: each run does the same, and costs no thread.
  Examiner(Check check, Publish publish, bool background = true);
  /// Cancels a check that is running and waits for it.
  ~Examiner();
  Examiner(const Examiner &) = delete;
  Examiner &operator=(const Examiner &) = delete;

  void submit(Job job, Duration rest);
  /// Checks a waiting text at once.
  void hurry(const std::string &uri);
  /// Nothing is published for this document until it is submitted again.
  void forget(const std::string &uri);

private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    Job job;
    Clock::time_point due;
  };

  void run();
  void examineOne(Job job, std::unique_lock<std::mutex> &lock);

  Check check;
  Publish publish;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Waiting> waiting;
  std::string running; ///< its uri; cleared when a newer text makes its findings worthless
  std::atomic<bool> cancelled = false; ///< the check that is running
  bool stopping = false;
  std::thread worker; ///< none where there is no background
};

} // namespace sluice::editor
