// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JSON with the place of every key and value.
//
// nlohmann/json's tree drops places, and this version's event interface does not report them either
// . But its parser pulls characters one at a time from an iterator, so an iterator that
// counts knows how far the lexer has read when an event arrives; the start of the token follows
// from the end of the one before.

#ifndef SLUICE_LIB_SPEC_JSON_H
#define SLUICE_LIB_SPEC_JSON_H

#include "sluice/Runtime/Text.h"
#include "sluice/Spec/Diagnostic.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::spec {

/// How the reader gives up inside the library; the public functions turn it into a Diagnostic.
struct Failure {
  Diagnostic diagnostic;
};

struct Position {
  unsigned line = 0;
  unsigned column = 0;
};

enum class JsonKind : uint8_t { Null, Boolean, Integer, Number, String, Array, Object };

struct JsonMember;

struct JsonValue {
  JsonKind kind = JsonKind::Null;
  Position position;
  bool boolean = false;
  int64_t integer = 0;  ///< of Integer
  double number = 0;    ///< of Integer (rounded) and Number
  std::string text;     ///< a string's contents; a number as it was written
  bool escaped = false; ///< the string was written with escapes: offsets in it are not columns
  std::vector<JsonValue> items;
  std::vector<JsonMember> members; ///< in the order of the file, keys distinct
};

struct JsonMember {
  std::string key;
  Position position; ///< of the key
  JsonValue value;
};

/// The value as a message shows it: `"text"`, `12.5`, `an array`; one line, cut after 40 bytes.
std::string describe(const JsonValue &value);

using sluice::quote;

/// Parses one JSON document. Throws Failure at the first error: syntax, a key given twice, nesting
/// deeper than 64, a number out of a double's range, a byte-order mark.
JsonValue parseJson(std::string_view text, const std::string &file);

} // namespace sluice::spec

#endif // SLUICE_LIB_SPEC_JSON_H
