// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/Rpc.h"

#include <algorithm>
#include <charconv>
#include <iostream>

using namespace sluice;
using namespace sluice::editor;
using nlohmann::json;

namespace {

/// A spec has at most 16 MiB; escapes turn one byte into six.
constexpr size_t longestBody = size_t(128) << 20;
constexpr size_t longestHeader = 4096;
/// No message of the protocol nests this deep; copies of JSON values recurse.
constexpr size_t deepest = 200;

/// Returns the value of a Content-Length header; nothing if the line is another header.
std::optional<std::string> contentLength(std::string line) {
  constexpr std::string_view name = "content-length:";
  std::string head = line.substr(0, name.size());
  std::transform(head.begin(), head.end(), head.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (head != name) {
    return std::nullopt;
  }
  line.erase(0, line.find_first_not_of(" \t", name.size()));
  return line.substr(0, line.find_last_not_of(" \t\r") + 1);
}

/// Reads a line without its end, at most longestHeader bytes of it.
bool readLine(std::istream &in, std::string &line) {
  line.clear();
  int c = in.get();
  for (; c != EOF && c != '\n'; c = in.get()) {
    if (line.size() < longestHeader) {
      line += static_cast<char>(c);
    }
  }
  return c != EOF || !line.empty();
}

Incoming broken(std::string message) { return {"", RpcFailure{RpcError::ParseError, message}}; }

/// Parses the text as a size; nothing if it is not one.
std::optional<size_t> parseSize(const std::string &text) {
  size_t size = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(size) : std::nullopt;
}

/// A body that is too long is not skipped: its length may be wrong, and waiting for it would look
/// like a hang.
Incoming readBody(std::istream &in, size_t size) {
  if (size > longestBody) {
    return broken("expected a message of at most 128 MiB, found " + std::to_string(size) +
                  " bytes");
  }
  Incoming incoming;
  incoming.body.resize(size);
  in.read(incoming.body.data(), static_cast<std::streamsize>(size));
  if (static_cast<size_t>(in.gcount()) < size) {
    return broken("expected " + std::to_string(size) + " bytes, found " +
                  std::to_string(in.gcount()) + " before the end of the input");
  }
  return incoming;
}

} // namespace

std::optional<Incoming> editor::readMessage(std::istream &in) {
  std::optional<std::string> length;
  bool any = false;
  for (std::string line; readLine(in, line);) {
    if (line.empty() || line == "\r") {
      if (!any) {
        continue; // blank lines between messages
      }
      std::optional<size_t> size = length ? parseSize(*length) : std::nullopt;
      if (!size) {
        return broken(length ? "expected a number of bytes for Content-Length, found " + *length
                             : "expected a Content-Length header, found none");
      }
      return readBody(in, *size);
    }
    any = true;
    if (std::optional<std::string> value = contentLength(line)) {
      length = value;
    }
  }
  return std::nullopt;
}

size_t editor::computeNesting(std::string_view text) {
  size_t depth = 0, most = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      inString = !inString;
    } else if (inString) {
      i += c == '\\' ? 1 : 0;
    } else if (c == '{' || c == '[') {
      most = std::max(most, ++depth);
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return most;
}

std::optional<RpcFailure> editor::findFault(const std::string &body) {
  if (computeNesting(body) > deepest) {
    return RpcFailure{RpcError::InvalidRequest, "expected a message that nests at most " +
                                                    std::to_string(deepest) + " deep, found more"};
  }
  if (!json::accept(body)) {
    return RpcFailure{RpcError::ParseError, "expected a message in JSON, found none"};
  }
  return std::nullopt;
}

json editor::describeFailure(const json &id, const RpcFailure &failure) {
  return {{"jsonrpc", "2.0"},
          {"id", id},
          {"error", {{"code", static_cast<int>(failure.code)}, {"message", failure.message}}}};
}

std::string editor::frame(const json &message) {
  std::string body = message.dump(-1, ' ', false, json::error_handler_t::replace);
  return "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

void Dispatcher::onRequest(const std::string &method, std::function<Json(const Json &)> handler) {
  requests[method] = std::move(handler);
}

void Dispatcher::onNotification(const std::string &method,
                                std::function<void(const Json &)> handler) {
  notifications[method] = std::move(handler);
}

void Dispatcher::refuse(const Json &id, const RpcFailure &failure) {
  send(describeFailure(id, failure));
}

void Dispatcher::receive(const Incoming &incoming) {
  if (incoming.failure) {
    refuse(nullptr, *incoming.failure);
    return;
  }
  if (std::optional<RpcFailure> fault = findFault(incoming.body)) {
    refuse(nullptr, *fault);
    return;
  }
  dispatch(Json::parse(incoming.body));
}

void Dispatcher::dispatch(const Json &message) {
  auto member = [&](const char *key) {
    return message.is_object() && message.contains(key) ? message[key] : Json();
  };
  Json id = member("id"), method = member("method"), params = member("params");
  bool hasId = id.is_string() || id.is_number();
  bool response = message.is_object() && hasId && !message.contains("method") &&
                  (message.contains("result") || message.contains("error"));
  if (response) {
    return; // this server asks nothing
  }
  if (member("jsonrpc") != "2.0" || !method.is_string() || (!hasId && !id.is_null()) ||
      !(params.is_null() || params.is_structured())) {
    refuse(hasId ? id : Json(),
           {RpcError::InvalidRequest, "expected a request or notification of JSON-RPC 2.0, with a "
                                      "method and parameters that are an object or an array"});
    return;
  }
  if (message.contains("id")) {
    request(method.get<std::string>(), id, params);
  } else {
    notification(method.get<std::string>(), params);
  }
}

json Dispatcher::call(const std::string &method, const Json &params) {
  if (shutDown) {
    throw RpcFailure{RpcError::InvalidRequest, "expected exit after shutdown, found " + method};
  }
  if (method == "initialize" && initialized) {
    throw RpcFailure{RpcError::InvalidRequest, "expected initialize once, found it again"};
  }
  if (method != "initialize" && !initialized) {
    throw RpcFailure{RpcError::ServerNotInitialized, "expected initialize first, found " + method};
  }
  if (method == "shutdown") {
    shutDown = true;
    return nullptr;
  }
  auto handler = requests.find(method);
  if (handler == requests.end()) {
    throw RpcFailure{RpcError::MethodNotFound, "this server has no method " + method};
  }
  Json result = handler->second(params);
  initialized = true;
  return result;
}

void Dispatcher::request(const std::string &method, const Json &id, const Json &params) {
  try {
    send({{"jsonrpc", "2.0"}, {"id", id}, {"result", call(method, params)}});
  } catch (const RpcFailure &failure) {
    refuse(id, failure);
  } catch (const Json::exception &error) {
    refuse(id, {RpcError::InvalidParams,
                "the parameters of " + method + " are not as expected: " + error.what()});
  } catch (const std::exception &error) {
    refuse(id, {RpcError::InternalError, error.what()});
  }
}

void Dispatcher::notification(const std::string &method, const Json &params) {
  if (method == "exit") {
    status = shutDown ? 0 : 1;
    return;
  }
  auto handler = notifications.find(method);
  if (!initialized || shutDown || handler == notifications.end()) {
    return;
  }
  try {
    handler->second(params);
  } catch (const RpcFailure &failure) { // a notification has no answer
    std::cerr << "sluice-spec-lsp: " << method << ": " << failure.message << std::endl;
  } catch (const std::exception &error) {
    std::cerr << "sluice-spec-lsp: " << method << ": " << error.what() << std::endl;
  }
}
