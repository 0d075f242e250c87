// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "StrictJson.h"

#include <algorithm>

namespace sluice::runtime {
namespace {

using Json = nlohmann::json;

/// Maximum nesting. Copying, printing and comparing a JSON value recurse, so deep nesting would
/// overflow the stack. Files of Sluice nest at most 8 levels.
constexpr size_t deepest = 64;
constexpr size_t longestShown = 60;

/// Builds the value from the parser's events. The parser itself does not recurse.
class Builder : public nlohmann::json_sax<Json> {
public:
  explicit Builder(std::string_view text) : text(text) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t &) override { return add(value); }
  bool string(string_t &value) override { return add(std::move(value)); }
  bool binary(binary_t &) override { return false; } // JSON text has no binary values
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t &name) override {
    if (ancestors.back()->contains(name)) {
      result.problem = "an object with the key " + showJson(name) + " twice";
      return false;
    }
    nextKey = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string &,
                   const nlohmann::detail::exception &) override {
    fail(position);
    return false;
  }

  /// `position` counts bytes, including the wrong one.
  void fail(size_t position) {
    std::string_view before = text.substr(0, position > 0 ? position - 1 : 0);
    auto line = std::count(before.begin(), before.end(), '\n') + 1;
    size_t start = before.rfind('\n');
    size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1) + 1;
    result.problem = "text that is not JSON at line " + std::to_string(line) + ", column " +
                     std::to_string(column);
  }

  ParsedJson result;

private:
  Json *place(Json value) {
    if (ancestors.empty()) {
      result.value = std::move(value);
      return &result.value;
    }
    Json &parent = *ancestors.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[nextKey] = std::move(value));
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (ancestors.size() == deepest) {
      result.problem = "JSON that nests more than " + std::to_string(deepest) + " levels deep";
      return false;
    }
    ancestors.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    ancestors.pop_back();
    return true;
  }

  std::string_view text;
  std::vector<Json *> ancestors; // a parent does not grow while one of its elements is open
  std::string nextKey;
};

} // namespace

ParsedJson parseJson(std::string_view text) {
  Builder builder(text);
  if (size_t zero = text.find('\0'); zero != std::string_view::npos) {
    builder.fail(zero + 1); // the parser would interpret it as the end of the text
  } else {
    Json::sax_parse(text.begin(), text.end(), &builder);
  }
  if (!builder.result.problem.empty()) {
    builder.result.value = nullptr;
  }
  return std::move(builder.result);
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

} // namespace sluice::runtime
