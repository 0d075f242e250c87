// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/PlacedJson.h"
#include "JsonText.h"
#include "sluice/Support/Text.h"

#include <nlohmann/json.hpp>

namespace sluice {
namespace {

/// Builds the tree.
class TreeBuilder : public JsonHandler {
public:
  TreeBuilder(std::string_view text, JsonValue &root) : text(text), root(root) {}

  void addScalar(nlohmann::json scalar, size_t begin, size_t end) override;
  void open(bool isObject, size_t begin) override {
    stack.push_back(&place(isObject ? JsonKind::Object : JsonKind::Array, begin));
  }
  void close() override { stack.pop_back(); }
  void addKey(std::string key, size_t begin) override {
    stack.back()->members.push_back({std::move(key), text.position(begin), {}});
  }

private:
  JsonValue &place(JsonKind kind, size_t begin);

  JsonText text;
  JsonValue &root;
  std::vector<JsonValue *> stack; ///< open arrays and objects; a parent does not grow meanwhile
};

} // namespace

JsonValue &TreeBuilder::place(JsonKind kind, size_t begin) {
  JsonValue *value = &root;
  if (!stack.empty()) {
    JsonValue &parent = *stack.back();
    value = parent.kind == JsonKind::Array ? &parent.items.emplace_back()
                                           : &parent.members.back().value;
  }
  value->kind = kind;
  value->position = text.position(begin);
  return *value;
}

void TreeBuilder::addScalar(nlohmann::json scalar, size_t begin, size_t end) {
  JsonValue &value = place(JsonKind::Null, begin);
  std::string_view raw = text.slice(begin, end);
  value.text = raw;
  value.escaped = raw.find('\\') != std::string_view::npos;
  if (scalar.is_boolean()) {
    value.kind = JsonKind::Boolean;
    value.boolean = scalar.get<bool>();
  } else if (scalar.is_string()) {
    value.kind = JsonKind::String;
    value.text = std::move(scalar.get_ref<std::string &>());
  } else if (scalar.is_number()) {
    bool fits = scalar.is_number_integer() &&
                (!scalar.is_number_unsigned() || scalar.get<uint64_t>() <= uint64_t(INT64_MAX));
    value.kind = fits ? JsonKind::Integer : JsonKind::Number;
    value.integer = fits ? scalar.get<int64_t>() : 0;
    value.number = scalar.get<double>();
  }
}

std::string describe(const JsonValue &value) {
  constexpr size_t longestShown = 40;
  switch (value.kind) {
  case JsonKind::Null:
    return "null";
  case JsonKind::Boolean:
    return value.boolean ? "true" : "false";
  case JsonKind::Integer:
  case JsonKind::Number:
    return value.text.size() > longestShown ? value.text.substr(0, longestShown) + "..."
                                            : value.text;
  case JsonKind::String:
    return quote(value.text);
  case JsonKind::Array:
    return value.items.empty() ? "an empty array" : "an array";
  case JsonKind::Object:
    return "an object";
  }
  return "";
}

std::optional<JsonError> parsePlacedJson(std::string_view text, const JsonNouns &nouns,
                                         JsonValue &value) {
  TreeBuilder builder(text, value);
  return parseJsonText(text, builder, nouns);
}

} // namespace sluice
