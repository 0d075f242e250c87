// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Support/Json.h"
#include "JsonText.h"
#include "sluice/Support/Text.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <iterator>
#include <map>
#include <vector>

namespace sluice {
namespace {

constexpr std::string_view byteOrderMark = "\xEF\xBB\xBF"; // which the parser skips

/// Reads bytes and counts them for the handler. The count is shared because the parser copies
/// iterators.
class CountingIterator {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  CountingIterator(const char *at, size_t *count) : at(at), count(count) {}
  reference operator*() const { return *at; }
  CountingIterator &operator++() {
    ++at;
    ++*count;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator &other) const { return at == other.at; }
  bool operator!=(const CountingIterator &other) const { return at != other.at; }

private:
  const char *at;
  size_t *count;
};

/// Follows the parser's events, hands values to the handler and turns errors into messages.
///
/// nlohmann/json's events have no offsets. But its parser pulls characters one at a time from an
/// iterator, so an iterator that counts knows how far the lexer has read when an event arrives; the
/// start of the token follows from the end of the one before.
class JsonReader : public nlohmann::json_sax<nlohmann::json> {
public:
  JsonReader(std::string_view text, const size_t &consumed, JsonHandler &handler,
             const JsonNouns &nouns)
      : text(text), consumed(consumed), handler(handler), nouns(nouns),
        cursor(text.starts_with(byteOrderMark) ? byteOrderMark.size() : 0) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t &) override { return add(value); }
  bool string(string_t &value) override { return add(std::move(value)); }
  bool binary(binary_t &) override { return false; } // no JSON text holds one

  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t &value) override;
  bool parse_error(size_t read, const std::string &, const nlohmann::detail::exception &) override;

  /// The parser takes a zero byte for the end of its input.
  void expectEnd();

  std::optional<JsonError> error;

private:
  enum class JsonEvent : uint8_t { None, Opened, Key, Value };

  /// Where the token of the present event starts. Only well-formed separators can precede it.
  size_t tokenStart() const { return text.skipSeparators(cursor); }

  bool add(nlohmann::json value);
  bool open(bool isObject);
  bool close();

  bool fail(size_t at, std::string message, JsonError::Kind kind = JsonError::Kind::Syntax,
            std::string key = "") {
    error = {kind, bytesRead > 0 ? bytesRead : at + 1, text.position(at), std::move(key),
             std::move(message)};
    return false;
  }
  bool badToken(size_t at, const std::string &expected, bool key);

  JsonText text;
  const size_t &consumed;
  JsonHandler &handler;
  const JsonNouns &nouns;
  size_t cursor; ///< end of the token of the last event
  JsonEvent last = JsonEvent::None;
  size_t bytesRead = 0; ///< up to a syntax error
  std::string lastKey;  ///< key of the present value
  struct JsonLevel {
    bool isObject;
    std::map<std::string, size_t> keys; ///< with their offsets
  };
  std::vector<JsonLevel> levels; ///< open arrays and objects
};

void JsonReader::expectEnd() {
  size_t at = text.skipSpace(cursor);
  if (!error && at < text.size()) {
    fail(at, "expected nothing after the end of the " + std::string(nouns.document) + ", found " +
                 text.found(at) + "; remove what follows");
  }
}

bool JsonReader::add(nlohmann::json value) {
  size_t start = tokenStart();
  // The lexer has read one byte beyond a number, but none beyond other tokens.
  size_t end = value.is_number() ? text.numberEnd(start) : consumed;
  handler.addScalar(std::move(value), start, end);
  cursor = end;
  last = JsonEvent::Value;
  return true;
}

bool JsonReader::open(bool isObject) {
  size_t start = tokenStart();
  if (levels.size() == deepestJson) {
    return fail(start,
                "expected at most " + std::to_string(deepestJson) +
                    " arrays and objects inside one another, found more; no " +
                    std::string(nouns.document) + " needs so many",
                JsonError::Kind::TooDeep);
  }
  levels.push_back({isObject, {}});
  handler.open(isObject, start);
  cursor = consumed;
  last = JsonEvent::Opened;
  return true;
}

bool JsonReader::close() {
  levels.pop_back();
  handler.close();
  cursor = consumed;
  last = JsonEvent::Value;
  return true;
}

bool JsonReader::key(string_t &value) {
  size_t start = tokenStart();
  auto [known, added] = levels.back().keys.try_emplace(value, start);
  if (!added) {
    TextPosition first = text.position(known->second);
    return fail(start,
                "expected each key once, found " + quote(value) + " again (first at " +
                    std::to_string(first.line) + ":" + std::to_string(first.column) +
                    "); remove one of the two",
                JsonError::Kind::RepeatedKey, value);
  }
  lastKey = value;
  handler.addKey(std::move(value), start);
  cursor = consumed;
  last = JsonEvent::Key;
  return true;
}

/// Returns a remedy for the token at `at`, where a key or a value was expected.
std::string findRemedy(const JsonText &text, size_t at, bool isKey, bool isAfterValue) {
  char c = at < text.size() ? text[at] : '\0';
  if (at >= text.size()) {
    return "; the file seems cut off";
  }
  if (c == '/') {
    return "; JSON has no comments";
  }
  if (c == '\'') {
    return "; JSON quotes with \"";
  }
  if ((c == '}' || c == ']') && isAfterValue) {
    return "; remove the comma before it";
  }
  if (isKey && isJsonWord(c)) {
    return "; put the key in double quotes";
  }
  if (isJsonDigit(c) || c == '-' || c == '+' || c == '.') {
    return "; write numbers as 12, -3, 0.5 or 1e-3";
  }
  return isJsonWord(c) ? "; only true, false and null are written without double quotes" : "";
}

bool JsonReader::badToken(size_t at, const std::string &expected, bool key) {
  if (text.has(at, '"')) {
    auto [wrong, message] = text.describeString(at, bytesRead == 0 ? at : bytesRead - 1);
    return fail(wrong, message);
  }
  return fail(at, "expected " + expected + ", found " + text.found(at) +
                      findRemedy(text, at, key, last == JsonEvent::Value));
}

/// Returns the message for a value that ends at `end`, where neither ',' nor the closing bracket
/// follows it.
std::string describeSeparator(const JsonText &text, size_t at, size_t end, bool inObject) {
  std::string remedy;
  if (at >= text.size()) {
    remedy = "; the file seems cut off";
  } else if (at == end && isJsonDigit(text[at])) {
    remedy = "; write the number without leading zeros";
  } else if (at == end && at > 0 && isJsonDigit(text[at - 1]) && isJsonWord(text[at])) {
    bool isBased =
        text[at - 1] == '0' && std::string_view("xXbBoO").find(text[at]) != std::string_view::npos;
    remedy = isBased ? "; JSON has decimal numbers only: write 16, not 0x10"
                     : "; write numbers as 12, -3, 0.5 or 1e-3";
  } else if (text[at] == '"' || text[at] == '{' || text[at] == '[' || isJsonWord(text[at])) {
    remedy = "; put a comma before it";
  }
  return std::string("expected ',' or ") + (inObject ? "'}'" : "']'") + ", found " +
         text.found(at) + remedy;
}

bool JsonReader::parse_error(size_t read, const std::string &,
                             const nlohmann::detail::exception &exception) {
  constexpr int numberOverflow = 406;
  bytesRead = read;
  if (exception.id == numberOverflow) {
    size_t at = tokenStart();
    return fail(at, "expected a number within the range of a double, found " + text.found(at) +
                        "; use a smaller number");
  }
  size_t at = text.skipSpace(cursor);
  bool inObject = !levels.empty() && levels.back().isObject;
  if (last == JsonEvent::Key) {
    if (!text.has(at, ':')) {
      return fail(at, "expected ':' after the key " + quote(lastKey) + ", found " + text.found(at));
    }
    return badToken(text.skipSpace(at + 1), "a value for the key " + quote(lastKey), false);
  }
  if (last == JsonEvent::Value && levels.empty()) {
    expectEnd();
    if (error) {
      return false;
    }
  }
  if (last == JsonEvent::Value) {
    if (!text.has(at, ',')) {
      return fail(at, describeSeparator(text, at, cursor, inObject));
    }
    return badToken(text.skipSpace(at + 1), inObject ? "a key after ','" : "a value after ','",
                    inObject);
  }
  if (last == JsonEvent::Opened) {
    return badToken(at, inObject ? "a key or '}'" : "a value or ']'", inObject);
  }
  if (at >= text.size()) {
    return fail(at, "expected " + std::string(nouns.value) + ", found an empty file");
  }
  return badToken(at, std::string(nouns.value), false);
}

} // namespace

std::optional<JsonError> parseJsonText(std::string_view text, JsonHandler &handler,
                                       const JsonNouns &nouns) {
  size_t consumed = 0;
  JsonReader reader(text, consumed, handler, nouns);
  const char *first = text.data();
  CountingIterator begin(first, &consumed), end(first + text.size(), &consumed);
  nlohmann::json::sax_parse(begin, end, &reader);
  reader.expectEnd();
  return std::move(reader.error);
}

} // namespace sluice
