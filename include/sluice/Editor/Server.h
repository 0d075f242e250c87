// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The language server for specs, without its input and output.
#pragma once

#include "sluice/Editor/Examiner.h"
#include "sluice/Editor/Rpc.h"
#include "sluice/Support/Json.h"

namespace sluice::editor {

class SpecServer {
public:
  /// `send` is called from two threads, never at once. Without a `rest` texts are checked where
  /// they arrive, and no second thread starts.
  SpecServer(std::function<void(const Json &)> send, Check check,
             std::optional<Examiner::Duration> rest, std::string version);

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
  Spot findSpot(const Json &params);

  std::function<void(const Json &)> send;
  std::mutex mutex; ///< of what follows
  std::map<std::string, Open> documents;
  std::mutex sending;
  Examiner::Duration rest;
  std::string version;
  Dispatcher dispatcher;
  Examiner examiner; // last: its thread ends before the members that it uses
};

} // namespace sluice::editor
