// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JSON values without places, and a value with its path, so that each message has the location.
#pragma once

#include "sluice/Support/Error.h"
#include "sluice/Support/Json.h"

#include <nlohmann/json.hpp>

#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A parsed JSON value, or the reason why the text is invalid (the end of "expected ..., found").
struct ParsedJson {
  nlohmann::json value; ///< null if there is a problem
  std::string problem;  ///< empty if the text is valid
};

/// Parses one JSON value with nothing after it. Rejects more than 64 levels, and objects with
/// duplicate keys. Its stack does not grow with nesting, so any text is safe.
ParsedJson parseJson(std::string_view text);

/// Parses a JSON value, or throws UserError: "`where`: expected `expected`, found ...`remedy`".
nlohmann::json readJson(std::string_view text, const std::string &where,
                        const std::string &expected, const std::string &remedy);

/// Formats a value for a message: one line of ASCII, truncated to 60 characters.
std::string showJson(const nlohmann::json &value);

class StrictJson {
public:
  StrictJson(const Json &value, std::string where, const std::string &remedy)
      : value(&value), where(std::move(where)), remedy(&remedy) {}

  [[noreturn]] void fail(const std::string &expected, const std::string &found) const {
    throw UserError(where + ": expected " + expected + ", found " + found + *remedy);
  }
  [[noreturn]] void failType(const std::string &expected) const {
    fail(expected, showJson(*value));
  }

  /// Requires an object with all keys in `required`, and no others except keys in `optional`.
  void keys(std::initializer_list<const char *> required,
            std::initializer_list<const char *> optional = {}) const {
    object();
    for (const auto &[key, ignored] : value->items()) {
      auto same = [&, &key = key](const char *name) { return key == name; };
      if (std::none_of(required.begin(), required.end(), same) &&
          std::none_of(optional.begin(), optional.end(), same)) {
        fail("only keys that this version knows", showJson(key));
      }
    }
    for (const char *name : required) {
      if (!value->contains(name)) {
        fail(std::string("the key \"") + name + "\"", "none");
      }
    }
  }

  void object() const {
    if (!value->is_object()) {
      failType("an object");
    }
  }
  bool isNull() const { return value->is_null(); }
  bool has(const char *key) const { return value->contains(key); }
  StrictJson at(const std::string &key) const {
    return {(*value)[key], where + "." + key, *remedy};
  }

  int64_t integer(int64_t least = 0, int64_t most = std::numeric_limits<int64_t>::max()) const {
    bool fits =
        value->is_number_unsigned()
            ? value->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())
            : value->is_number_integer();
    if (!fits || value->get<int64_t>() < least || value->get<int64_t>() > most) {
      bool anyMost = most == std::numeric_limits<int64_t>::max();
      failType("an integer " +
               (anyMost ? "of at least " + std::to_string(least)
                        : "from " + std::to_string(least) + " to " + std::to_string(most)));
    }
    return value->get<int64_t>();
  }
  /// Requires a finite number that is at least `least`.
  double number(double least) const {
    if (!value->is_number() || !(value->get<double>() >= least) ||
        value->get<double>() > std::numeric_limits<double>::max()) {
      failType("a number of at least " + std::to_string(least));
    }
    return value->get<double>();
  }
  std::string string() const {
    if (!value->is_string()) {
      failType("a string");
    }
    return value->get<std::string>();
  }
  std::string matchChoice(std::initializer_list<const char *> choices) const {
    std::string text = string(), list;
    for (const char *choice : choices) {
      if (text == choice) {
        return text;
      }
      list += (list.empty() ? "\"" : ", \"") + std::string(choice) + "\"";
    }
    failType("one of " + list);
  }
  bool boolean() const {
    if (!value->is_boolean()) {
      failType("true or false");
    }
    return value->get<bool>();
  }
  std::vector<StrictJson> array() const {
    if (!value->is_array()) {
      failType("an array");
    }
    std::vector<StrictJson> elements;
    elements.reserve(value->size());
    for (size_t i = 0; i < value->size(); ++i) {
      elements.emplace_back((*value)[i], where + "[" + std::to_string(i) + "]", *remedy);
    }
    return elements;
  }
  std::vector<int64_t> integers(int64_t least = 0) const {
    std::vector<int64_t> list;
    for (const StrictJson &element : array()) {
      list.push_back(element.integer(least));
    }
    return list;
  }
  std::vector<std::string> strings() const {
    std::vector<std::string> list;
    for (const StrictJson &element : array()) {
      list.push_back(element.string());
    }
    return list;
  }
  /// Returns the members of an object with arbitrary keys.
  std::vector<std::pair<std::string, StrictJson>> members() const {
    object();
    std::vector<std::pair<std::string, StrictJson>> list;
    for (const auto &[key, element] : value->items()) {
      std::string shown = showJson(key); // with quotes
      list.emplace_back(
          key, StrictJson(element, where + "." + shown.substr(1, shown.size() - 2), *remedy));
    }
    return list;
  }

private:
  const Json *value;
  std::string where;
  const std::string *remedy;
};

} // namespace sluice
