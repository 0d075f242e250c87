// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JSON-RPC as the Language Server Protocol frames it.
//
// Not llvm/Support/LSP: its transport drops a message that is no JSON without an answer, parses
// with recursion (so that a deeply nested message ends the program) and takes only file: documents.
#pragma once

#include "sluice/Support/Json.h"

#include <functional>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::editor {

/// Codes of JSON-RPC and of the protocol.
enum class RpcError : int {
  ParseError = -32700,
  InvalidRequest = -32600,
  MethodNotFound = -32601,
  InvalidParams = -32602,
  InternalError = -32603,
  ServerNotInitialized = -32002
};

/// Thrown by a handler to refuse a request.
struct RpcFailure {
  RpcError code;
  std::string message;
};

/// A received message: a body, or why there is none.
struct Incoming {
  std::string body;
  std::optional<RpcFailure> failure;
};

/// The next message; nothing at the end of the stream.
std::optional<Incoming> readMessage(std::istream &in);

/// Why a body is no message that may be parsed with recursion: one that nests deeply, is no JSON,
/// or has a number that no double holds (which would be answered as `inf`); nothing where it may.
std::optional<RpcFailure> findFault(const std::string &body);

/// How deep the brackets of a text nest, outside of strings in double quotes.
size_t computeNesting(std::string_view text);

/// The answer to what is refused; `id` is null where it is not known.
nlohmann::json describeFailure(const nlohmann::json &id, const RpcFailure &failure);

/// Headers and body of one message. Bytes that are no UTF-8 are replaced.
std::string frame(const nlohmann::json &message);

/// Hands messages to handlers by their method.
class Dispatcher {
public:
  using Send = std::function<void(const Json &)>;
  explicit Dispatcher(Send send) : send(std::move(send)) {}

  /// A request's handler gives its result; nlohmann's exceptions count as invalid parameters.
  void onRequest(const std::string &method, std::function<Json(const Json &)> handler);
  void onNotification(const std::string &method, std::function<void(const Json &)> handler);

  /// Answers one message, initialization and shutdown in their order included. Never throws.
  void receive(const Incoming &incoming);
  /// Set once the client has said `exit`: 0 after a shutdown, else 1.
  std::optional<int> exitStatus() const { return status; }

private:
  void dispatch(const Json &message);
  void request(const std::string &method, const Json &id, const Json &params);
  void notification(const std::string &method, const Json &params);
  Json call(const std::string &method, const Json &params);
  void refuse(const Json &id, const RpcFailure &failure);

  Send send;
  std::map<std::string, std::function<Json(const Json &)>> requests;
  std::map<std::string, std::function<void(const Json &)>> notifications;
  bool initialized = false, shutDown = false;
  std::optional<int> status;
};

} // namespace sluice::editor
