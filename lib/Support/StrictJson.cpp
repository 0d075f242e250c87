// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/StrictJson.h"
#include "sluice/Support/Json.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr size_t longestShown = 60;

/// Builds the value.
class ValueBuilder : public JsonHandler {
public:
  void addScalar(Json scalar, size_t, size_t) override { place(std::move(scalar)); }
  void open(bool isObject, size_t) override {
    ancestors.push_back(place(isObject ? Json::object() : Json::array()));
  }
  void close() override { ancestors.pop_back(); }
  void addKey(std::string key, size_t) override { nextKey = std::move(key); }

  Json root;

private:
  Json *place(Json value) {
    if (ancestors.empty()) {
      root = std::move(value);
      return &root;
    }
    Json &parent = *ancestors.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[nextKey] = std::move(value));
  }

  std::vector<Json *> ancestors; // a parent does not grow while one of its elements is open
  std::string nextKey;
};

/// Describes the place of the last of the first `read` bytes of `text`.
std::string describeSyntaxError(std::string_view text, size_t read) {
  std::string_view before = text.substr(0, read > 0 ? read - 1 : 0);
  auto line = std::count(before.begin(), before.end(), '\n') + 1;
  size_t start = before.rfind('\n');
  size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
  return "text that is not JSON at line " + std::to_string(line) + ", column " +
         std::to_string(column);
}

std::string describe(const JsonError &error, std::string_view text) {
  switch (error.kind) {
  case JsonError::Kind::RepeatedKey:
    return "an object with the key " + showJson(error.key) + " twice";
  case JsonError::Kind::TooDeep:
    return "JSON that nests more than " + std::to_string(deepestJson) + " levels deep";
  case JsonError::Kind::Syntax:
    break;
  }
  return describeSyntaxError(text, error.read);
}

} // namespace

ParsedJson parseJson(std::string_view text) {
  if (size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return {nullptr, describeSyntaxError(text, zero + 1)};
  }
  ValueBuilder builder;
  if (std::optional<JsonError> error = parseJsonText(text, builder, {"a JSON value", "file"})) {
    return {nullptr, describe(*error, text)};
  }
  return {std::move(builder.root), ""};
}

Json readJson(std::string_view text, const std::string &where, const std::string &expected,
              const std::string &remedy) {
  ParsedJson parsed = parseJson(text);
  if (!parsed.problem.empty()) {
    throw UserError(where + ": expected " + expected + ", found " + parsed.problem + remedy);
  }
  return std::move(parsed.value);
}

std::string showJson(const Json &value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > longestShown ? text.substr(0, longestShown - 3) + "..." : text;
}

} // namespace sluice
