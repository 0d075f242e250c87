// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The language server for specs, without its input and output.
#pragma once

#include "sluice/Editor/Findings.h"
#include "sluice/Editor/Rpc.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

namespace sluice::editor {

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

  Examiner(Check check, Publish publish);
  /// Waits for a check that is running.
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
  bool stopping = false;
  std::thread worker;
};

/// The name that diagnostics and a model without a name give the document: its path, or its uri.
std::string fileOf(const std::string &uri);

class SpecServer {
public:
  using Json = nlohmann::json;

  /// `send` is called from two threads, never at once.
  SpecServer(std::function<void(const Json &)> send, Check check, Examiner::Duration rest,
             std::string version);

  void receive(const Incoming &incoming) { dispatcher.receive(incoming); }
  std::optional<int> exitStatus() const { return dispatcher.exitStatus(); }

private:
  struct Open {
    std::shared_ptr<const Document> document;
    std::optional<int64_t> version;
    std::shared_ptr<const Findings> findings; ///< of this very text; null while they are made
  };
  struct Spot {
    Open open;
    size_t offset = 0;
  };

  void registerHandlers();
  Json initialize(const Json &params) const;
  void take(const Json &document, std::string text, Examiner::Duration rest);
  void change(const Json &params);
  void close(const Json &params);
  void publish(const Examiner::Job &job, std::shared_ptr<const Findings> findings);
  void sendLocked(const Json &message);
  Open find(const Json &params);
  Spot spotOf(const Json &params);

  std::function<void(const Json &)> send;
  std::mutex mutex; ///< of what follows
  std::map<std::string, Open> documents;
  std::mutex sending;
  Examiner::Duration rest;
  std::string version;
  Dispatcher dispatcher;
  Examiner examiner; // last: its thread ends before what it uses
};

/// Answers about one document. `findings` may be null: not examined yet.
nlohmann::json hoverAt(const Document &document, size_t offset, const std::string &file,
                       const Findings *findings);
nlohmann::json completionsAt(const Document &document, size_t offset);
nlohmann::json symbolsOf(const Document &document);

} // namespace sluice::editor
