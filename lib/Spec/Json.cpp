// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "JsonText.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <iterator>
#include <map>

namespace sluice::spec {
namespace {

constexpr size_t deepest = 64;
constexpr size_t longestShown = 40;

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

/// Turns the parser's events into a tree, and its errors into messages about the text.
class Builder : public nlohmann::json_sax<nlohmann::json> {
public:
  Builder(const JsonText &text, const size_t &consumed) : text(text), consumed(consumed) {}

  bool null() override {
    return leaf(JsonKind::Null, [](JsonValue &) {});
  }
  bool boolean(bool value) override {
    return leaf(JsonKind::Boolean, [&](JsonValue &v) { v.boolean = value; });
  }
  bool number_integer(number_integer_t value) override {
    return leaf(JsonKind::Integer, [&](JsonValue &v) {
      v.integer = value;
      v.number = static_cast<double>(value);
    });
  }
  bool number_unsigned(number_unsigned_t value) override {
    bool fits = value <= static_cast<number_unsigned_t>(INT64_MAX);
    return leaf(fits ? JsonKind::Integer : JsonKind::Number, [&](JsonValue &v) {
      v.integer = fits ? static_cast<int64_t>(value) : 0;
      v.number = static_cast<double>(value);
    });
  }
  bool number_float(number_float_t value, const string_t &) override {
    return leaf(JsonKind::Number, [&](JsonValue &v) { v.number = value; });
  }
  bool string(string_t &value) override {
    return leaf(JsonKind::String, [&](JsonValue &v) { v.text = value; });
  }
  bool binary(binary_t &) override { return false; } // no JSON text holds one

  bool start_object(size_t) override { return open(JsonKind::Object); }
  bool start_array(size_t) override { return open(JsonKind::Array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t &value) override;
  bool parse_error(size_t read, const std::string &, const nlohmann::detail::exception &) override;

  /// The parser takes a zero byte for the end of its input.
  void expectEnd() const {
    size_t at = text.skipSpace(cursor);
    if (at < text.size()) {
      text.fail(at, "expected nothing after the end of the spec, found " + text.found(at) +
                        "; remove what follows");
    }
  }

  JsonValue root;

private:
  enum class Event : uint8_t { None, Opened, Key, Value };

  /// Where the token of the present event starts. Only well-formed separators can precede it.
  size_t tokenStart() const { return text.skipSeparators(cursor); }

  JsonValue &place(JsonKind kind, size_t start);
  template <typename Fill> bool leaf(JsonKind kind, Fill fill);
  bool open(JsonKind kind);
  bool close();

  std::string remedy(size_t at, bool key) const;
  [[noreturn]] void badSeparator(size_t at, bool inObject) const;
  [[noreturn]] void badToken(size_t at, size_t read, const std::string &expected, bool key) const;

  const JsonText &text;
  const size_t &consumed;
  size_t cursor = 0; ///< end of the last token that an event told of
  Event last = Event::None;
  std::vector<JsonValue *> stack; ///< open arrays and objects; a parent does not grow meanwhile
  std::vector<std::map<std::string, Position>> keys; ///< of the open arrays and objects
};

JsonValue &Builder::place(JsonKind kind, size_t start) {
  JsonValue *value = &root;
  if (!stack.empty()) {
    JsonValue &parent = *stack.back();
    value = parent.kind == JsonKind::Array ? &parent.items.emplace_back()
                                           : &parent.members.back().value;
  }
  value->kind = kind;
  value->position = text.position(start);
  return *value;
}

template <typename Fill> bool Builder::leaf(JsonKind kind, Fill fill) {
  size_t start = tokenStart();
  // The lexer has read one byte beyond a number, but none beyond other tokens.
  bool number = kind == JsonKind::Integer || kind == JsonKind::Number;
  size_t end = number ? text.numberEnd(start) : consumed;
  JsonValue &value = place(kind, start);
  std::string_view raw = text.slice(start, end);
  value.text = raw;
  value.escaped = raw.find('\\') != std::string_view::npos;
  fill(value);
  cursor = end;
  last = Event::Value;
  return true;
}

bool Builder::open(JsonKind kind) {
  size_t start = tokenStart();
  if (stack.size() == deepest) {
    text.fail(start,
              "expected at most " + std::to_string(deepest) +
                  " arrays and objects inside one another, found more; no spec needs so many");
  }
  stack.push_back(&place(kind, start));
  keys.emplace_back();
  cursor = consumed;
  last = Event::Opened;
  return true;
}

bool Builder::close() {
  stack.pop_back();
  keys.pop_back();
  cursor = consumed;
  last = Event::Value;
  return true;
}

bool Builder::key(string_t &value) {
  size_t start = tokenStart();
  auto [known, added] = keys.back().try_emplace(value, text.position(start));
  if (!added) {
    text.fail(start, "expected each key once, found " + quote(value) + " again (first at " +
                         std::to_string(known->second.line) + ":" +
                         std::to_string(known->second.column) + "); remove one of the two");
  }
  stack.back()->members.push_back({value, known->second, {}});
  cursor = consumed;
  last = Event::Key;
  return true;
}

/// Remedy for the token at `at`; `key` is true if a key was expected, not a value.
std::string Builder::remedy(size_t at, bool key) const {
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
  if ((c == '}' || c == ']') && last == Event::Value) {
    return "; remove the comma before it";
  }
  if (key && isWord(c)) {
    return "; put the key in double quotes";
  }
  if (isDigit(c) || c == '-' || c == '+' || c == '.') {
    return "; write numbers as 12, -3, 0.5 or 1e-3";
  }
  return isWord(c) ? "; only true, false and null stand without double quotes" : "";
}

void Builder::badToken(size_t at, size_t read, const std::string &expected, bool key) const {
  if (text.has(at, '"')) {
    text.failInString(at, read == 0 ? at : read - 1);
  }
  text.fail(at, "expected " + expected + ", found " + text.found(at) + remedy(at, key));
}

/// Neither ',' nor the closing bracket follows a value.
void Builder::badSeparator(size_t at, bool inObject) const {
  std::string remedy;
  if (at >= text.size()) {
    remedy = "; the file seems cut off";
  } else if (at == cursor && isDigit(text[at])) {
    remedy = "; write the number without leading zeros";
  } else if (at == cursor && at > 0 && isDigit(text[at - 1]) && isWord(text[at])) {
    bool isBased =
        text[at - 1] == '0' && std::string_view("xXbBoO").find(text[at]) != std::string_view::npos;
    remedy = isBased ? "; JSON has decimal numbers only: write 16, not 0x10"
                     : "; write numbers as 12, -3, 0.5 or 1e-3";
  } else if (text[at] == '"' || text[at] == '{' || text[at] == '[' || isWord(text[at])) {
    remedy = "; put a comma before it";
  }
  text.fail(at, std::string("expected ',' or ") + (inObject ? "'}'" : "']'") + ", found " +
                    text.found(at) + remedy);
}

bool Builder::parse_error(size_t read, const std::string &,
                          const nlohmann::detail::exception &error) {
  constexpr int numberOverflow = 406;
  if (error.id == numberOverflow) {
    size_t at = tokenStart();
    text.fail(at, "expected a number within the range of a double, found " + text.found(at) +
                      "; use a smaller number");
  }
  size_t at = text.skipSpace(cursor);
  bool inObject = !stack.empty() && stack.back()->kind == JsonKind::Object;
  if (last == Event::Key) {
    if (!text.has(at, ':')) {
      text.fail(at, "expected ':' after the key " + quote(stack.back()->members.back().key) +
                        ", found " + text.found(at));
    }
    at = text.skipSpace(at + 1);
    badToken(at, read, "a value for the key " + quote(stack.back()->members.back().key), false);
  }
  if (last == Event::Value && stack.empty()) {
    expectEnd();
  }
  if (last == Event::Value) {
    if (!text.has(at, ',')) {
      badSeparator(at, inObject);
    }
    at = text.skipSpace(at + 1);
    badToken(at, read, inObject ? "a key after ','" : "a value after ','", inObject);
  }
  if (last == Event::Opened) {
    badToken(at, read, inObject ? "a key or '}'" : "a value or ']'", inObject);
  }
  if (at >= text.size()) {
    text.fail(at, "expected an object with the model's spec ({ ... }), found an empty file");
  }
  badToken(at, read, "an object with the model's spec ({ ... })", false);
}

void refuseByteOrderMark(std::string_view text, const std::string &file) {
  for (std::string_view mark : {"\xEF\xBB\xBF", "\xFF\xFE", "\xFE\xFF"}) {
    if (text.starts_with(mark)) {
      throw Failure{{{file, 1, 1},
                     "expected plain UTF-8, found a byte-order mark; save the file as UTF-8 "
                     "without it"}};
    }
  }
}

} // namespace

std::string describe(const JsonValue &value) {
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

JsonValue parseJson(std::string_view text, const std::string &file) {
  refuseByteOrderMark(text, file);
  size_t consumed = 0;
  JsonText document(text, file);
  Builder builder(document, consumed);
  const char *first = text.data();
  CountingIterator begin(first, &consumed), end(first + text.size(), &consumed);
  nlohmann::json::sax_parse(begin, end, &builder);
  builder.expectEnd();
  return std::move(builder.root);
}

} // namespace sluice::spec
