// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/IrMessages.h"

#include <algorithm>
#include <cstring>

using namespace sluice;
using namespace sluice::editor;
using nlohmann::json;

namespace {

/// Sluice's IR nests less than 20 brackets deep; a level takes up to a few KiB of the parser's
/// stack.
constexpr size_t deepestText = 500;

/// Brackets of IR that are open at once: those of JSON, and the parentheses and angle brackets that
/// types, attributes and maps nest in. An arrow and a comparison close nothing.
size_t computeTextNesting(std::string_view text) {
  size_t depth = 0, most = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (c == '"' || (inString && c == '\n')) {
      inString = c == '"' && !inString;
    } else if (inString) {
      i += c == '\\' ? 1 : 0;
    } else if (c == '/' && next == '/') {
      i = std::min(text.find('\n', i), text.size());
    } else if ((c == '-' && next == '>') || ((c == '<' || c == '>') && next == '=')) {
      ++i;
    } else if (std::strchr("([{<", c) != nullptr && c != '\0') {
      most = std::max(most, ++depth);
    } else if (std::strchr(")]}>", c) != nullptr && c != '\0' && depth > 0) {
      --depth;
    }
  }
  return most;
}

/// Returns the text that a message puts into a document, or null.
const json *findText(const json &message) {
  const json *params =
      message.is_object() && message.contains("params") ? &message["params"] : nullptr;
  if (params == nullptr || !params->is_object()) {
    return nullptr;
  }
  const json *holder = nullptr;
  if (auto document = params->find("textDocument"); document != params->end()) {
    holder = &*document;
  }
  if (auto changes = params->find("contentChanges");
      changes != params->end() && changes->is_array() && !changes->empty()) {
    holder = &changes->back();
  }
  bool hasText = holder != nullptr && holder->is_object() && holder->contains("text") &&
                 (*holder)["text"].is_string();
  return hasText ? &(*holder)["text"] : nullptr;
}

} // namespace

std::optional<std::string> editor::refuseDeepText(std::string_view text) {
  if (computeTextNesting(text) <= deepestText) {
    return std::nullopt;
  }
  return "expected IR whose brackets nest at most " + std::to_string(deepestText) +
         " deep, found more";
}

std::optional<json> editor::refuseIrMessage(const Incoming &incoming) {
  std::optional<RpcFailure> fault = incoming.failure ? incoming.failure : findFault(incoming.body);
  if (fault) {
    return describeFailure(nullptr, *fault);
  }
  json message = json::parse(incoming.body);
  const json *text = findText(message);
  std::optional<std::string> tooDeep;
  if (text != nullptr) {
    tooDeep = refuseDeepText(text->get_ref<const std::string &>());
  }
  if (!tooDeep) {
    return std::nullopt;
  }
  json start = {{"line", 0}, {"character", 0}};
  json finding = {{"range", {{"start", start}, {"end", start}}},
                  {"severity", 1},
                  {"source", "sluice"},
                  {"message", *tooDeep}};
  json diagnostics = json::array({finding});
  const json &params = message["params"];
  json uri = params.contains("textDocument") && params["textDocument"].is_object() &&
                     params["textDocument"].contains("uri")
                 ? params["textDocument"]["uri"]
                 : json("");
  return json{{"jsonrpc", "2.0"},
              {"method", "textDocument/publishDiagnostics"},
              {"params", {{"uri", uri}, {"diagnostics", diagnostics}}}};
}
