// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JSON values with their places in the text.
#pragma once

#include "sluice/Support/Json.h"

#include <vector>

namespace sluice {

enum class JsonKind : uint8_t { Null, Boolean, Integer, Number, String, Array, Object };

struct JsonMember;

struct JsonValue {
  JsonKind kind = JsonKind::Null;
  TextPosition position;
  bool boolean = false;
  int64_t integer = 0;  ///< value of an Integer
  double number = 0;    ///< value of an Integer (rounded) or a Number
  std::string text;     ///< a string's contents; a number as it was written
  bool escaped = false; ///< the string was written with escapes: offsets in it are not columns
  std::vector<JsonValue> items;
  std::vector<JsonMember> members; ///< in the order of the file, keys distinct
};

struct JsonMember {
  std::string key;
  TextPosition position; ///< position of the key
  JsonValue value;
};

/// Formats the value for a message: `"text"`, `12.5`, `an array`; one line, cut after 40 bytes.
std::string describe(const JsonValue &value);

/// Parses one JSON value, with the places of its keys and values. Returns the first error.
std::optional<JsonError> parsePlacedJson(std::string_view text, const JsonNouns &nouns,
                                         JsonValue &value);

} // namespace sluice
