// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The reader of JSON texts, strict: one value and nothing after it, every key once in its object,
// at most 64 levels of nesting.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json; ///< stores keys in the order of insertion

/// A place in a text; both count from 1, columns in bytes.
struct TextPosition {
  unsigned line = 0;
  unsigned column = 0;
};

/// The first error of a JSON text.
struct JsonError {
  enum class Kind : uint8_t { Syntax, RepeatedKey, TooDeep };
  Kind kind;
  size_t read;           ///< bytes that the parser has read, including the wrong one
  TextPosition position; ///< start of the wrong token
  std::string key;       ///< the repeated key
  std::string message;   ///< "expected ..., found ...; remedy"
};

/// Nouns for messages.
struct JsonNouns {
  std::string_view value;    ///< the expected text: "an object with the model's spec"
  std::string_view document; ///< "spec"
};

/// Receives the values of a text in their order, with the offsets of their tokens in bytes.
class JsonHandler {
public:
  virtual ~JsonHandler() = default;
  virtual void addScalar(nlohmann::json value, size_t begin, size_t end) = 0;
  /// Opens an object or an array; later values are its elements until it is closed.
  virtual void open(bool isObject, size_t begin) = 0;
  virtual void close() = 0;
  /// The key of the next value.
  virtual void addKey(std::string key, size_t begin) = 0;
};

/// Maximum nesting. Copying, printing and comparing a JSON value recurse, so deep nesting would
/// overflow the stack. Files of Sluice nest at most 8 levels.
constexpr size_t deepestJson = 64;

/// Parses one JSON value and returns the first error, up to which `handler` has received all
/// values. The stack does not grow with nesting, so any text is safe.
std::optional<JsonError> parseJsonText(std::string_view text, JsonHandler &handler,
                                       const JsonNouns &nouns);

} // namespace sluice
