// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>

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

bool isSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isWord(char c) {
  return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '+' ||
         c == '-' || c == '.';
}

/// Turns the parser's events into a tree, and its errors into messages about the text.
class Builder : public nlohmann::json_sax<nlohmann::json> {
public:
  Builder(std::string_view text, const std::string &file, const size_t &consumed)
      : text(text), file(file), consumed(consumed) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') {
        lineStarts.push_back(i + 1);
      }
    }
  }

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
    size_t at = skipSpace(cursor);
    if (at < text.size()) {
      fail(at, "expected nothing after the end of the spec, found " + found(at) +
                   "; remove what follows");
    }
  }

  JsonValue root;

private:
  enum class Event { None, Opened, Key, Value };

  [[noreturn]] void fail(size_t offset, std::string message) const {
    Position p = position(offset);
    throw Failure{{{file, p.line, p.column}, std::move(message)}};
  }
  Position position(size_t offset) const {
    auto next = std::upper_bound(lineStarts.begin(), lineStarts.end(), offset);
    size_t line = static_cast<size_t>(next - lineStarts.begin());
    return {static_cast<unsigned>(line), static_cast<unsigned>(offset - lineStarts[line - 1] + 1)};
  }
  std::string place(size_t offset) const {
    Position p = position(offset);
    return std::to_string(p.line) + ":" + std::to_string(p.column);
  }

  size_t skipSpace(size_t at) const {
    while (at < text.size() && isSpace(text[at])) {
      ++at;
    }
    return at;
  }
  /// Where the token of the present event starts. Only well-formed separators can stand before it.
  size_t tokenStart() const {
    size_t at = cursor;
    while (at < text.size() && (isSpace(text[at]) || text[at] == ',' || text[at] == ':')) {
      ++at;
    }
    return at;
  }
  size_t tokenEnd(JsonKind kind, size_t start) const;

  JsonValue &place(JsonKind kind, size_t start);
  template <typename Fill> bool leaf(JsonKind kind, Fill fill);
  bool open(JsonKind kind);
  bool close();

  std::string found(size_t at) const;
  [[noreturn]] void badString(size_t start, size_t at) const;
  size_t brokenCharacter(size_t at) const;
  std::string remedy(size_t at, bool key) const;
  [[noreturn]] void badSeparator(size_t at, bool inObject) const;
  [[noreturn]] void badToken(size_t at, size_t read, const std::string &expected, bool key) const;

  std::string_view text;
  const std::string &file;
  const size_t &consumed;
  std::vector<size_t> lineStarts = {0};
  size_t cursor = 0; ///< end of the last token that an event told of
  Event last = Event::None;
  std::vector<JsonValue *> stack; ///< open arrays and objects; a parent does not grow meanwhile
};

size_t Builder::tokenEnd(JsonKind kind, size_t start) const {
  // The lexer has read one byte beyond a number, but none beyond other tokens.
  if (kind != JsonKind::Integer && kind != JsonKind::Number) {
    return consumed;
  }
  size_t at = start;
  auto digits = [&] {
    while (at < text.size() && isDigit(text[at])) {
      ++at;
    }
  };
  auto take = [&](std::string_view any) {
    bool has = at < text.size() && any.find(text[at]) != std::string_view::npos;
    at += has;
    return has;
  };
  take("-");
  if (!take("0")) { // the number ends after a leading zero
    digits();
  }
  if (take(".")) {
    digits();
  }
  if (take("eE")) {
    take("+-");
    digits();
  }
  return at;
}

JsonValue &Builder::place(JsonKind kind, size_t start) {
  JsonValue *value = &root;
  if (!stack.empty()) {
    JsonValue &parent = *stack.back();
    value = parent.kind == JsonKind::Array ? &parent.items.emplace_back()
                                           : &parent.members.back().value;
  }
  value->kind = kind;
  value->position = position(start);
  return *value;
}

template <typename Fill> bool Builder::leaf(JsonKind kind, Fill fill) {
  size_t start = tokenStart();
  size_t end = tokenEnd(kind, start);
  JsonValue &value = place(kind, start);
  std::string_view raw = text.substr(start, end - start);
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
    fail(start, "expected at most " + std::to_string(deepest) +
                    " arrays and objects inside one another, found more; no spec needs so many");
  }
  stack.push_back(&place(kind, start));
  cursor = consumed;
  last = Event::Opened;
  return true;
}

bool Builder::close() {
  stack.pop_back();
  cursor = consumed;
  last = Event::Value;
  return true;
}

bool Builder::key(string_t &value) {
  size_t start = tokenStart();
  std::vector<JsonMember> &members = stack.back()->members;
  for (const JsonMember &member : members) {
    if (member.key == value) {
      fail(start, "expected each key once, found " + quote(value) + " again (first at " +
                      std::to_string(member.position.line) + ":" +
                      std::to_string(member.position.column) + "); remove one of the two");
    }
  }
  members.push_back({value, position(start), {}});
  cursor = consumed;
  last = Event::Key;
  return true;
}

std::string Builder::found(size_t at) const {
  if (at >= text.size()) {
    return "the end of the file";
  }
  unsigned char c = static_cast<unsigned char>(text[at]);
  if (c < 0x20 || c >= 0x7f) {
    const char *digits = "0123456789ABCDEF";
    return std::string("the byte 0x") + digits[c >> 4] + digits[c & 15];
  }
  size_t end = at;
  while (end < text.size() && isWord(text[end]) && end - at < longestShown) {
    ++end;
  }
  return "'" + std::string(text.substr(at, std::max<size_t>(end - at, 1))) + "'";
}

/// Where a character that lacks bytes before `at` starts; `at` where the one before is complete.
size_t Builder::brokenCharacter(size_t at) const {
  size_t lead = at;
  while (lead > 0 && (static_cast<unsigned char>(text[lead - 1]) & 0xC0) == 0x80) {
    --lead;
  }
  unsigned char first = lead > 0 ? static_cast<unsigned char>(text[lead - 1]) : 0;
  size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
  return at - (lead - (lead > 0)) < length ? lead - 1 : at;
}

/// A string that starts at `start` and that the lexer refused at the byte `at`.
void Builder::badString(size_t start, size_t at) const {
  std::string unclosed = "expected '\"' to end the string that starts at " + place(start);
  if (at >= text.size()) {
    fail(at, unclosed + ", found the end of the file; the file seems cut off");
  }
  size_t broken = brokenCharacter(at);
  unsigned char c = static_cast<unsigned char>(text[at]);
  if (broken != at || c >= 0x80) {
    fail(broken, "expected text in UTF-8, found " + found(broken) + "; save the file as UTF-8");
  }
  if (c == '\n' || c == '\r') {
    fail(at, unclosed + ", found the end of the line; close the string");
  }
  if (c < 0x20) {
    fail(at, "expected control characters in strings to be escaped, found " + found(at) +
                 "; write \\u00 and its two digits");
  }
  size_t escape = std::min(text.rfind('\\', at), at);
  fail(escape,
       "expected an escape that JSON knows (\\\" \\\\ \\/ \\b \\f \\n \\r \\t, \\u and four "
       "hexadecimal digits, surrogates in pairs), found " +
           std::string(text.substr(escape, at + 1 - escape)) + "; write \\\\ for a backslash");
}

/// What to do about the token at `at`, where `key` says whether a key or a value was expected.
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
  if (at < text.size() && text[at] == '"') {
    badString(at, read == 0 ? at : read - 1);
  }
  fail(at, "expected " + expected + ", found " + found(at) + remedy(at, key));
}

/// Neither ',' nor the closing bracket follows a value.
void Builder::badSeparator(size_t at, bool inObject) const {
  std::string remedy;
  if (at >= text.size()) {
    remedy = "; the file seems cut off";
  } else if (at == cursor && isDigit(text[at])) {
    remedy = "; write the number without leading zeros";
  } else if (text[at] == '"' || text[at] == '{' || text[at] == '[' || isWord(text[at])) {
    remedy = "; put a comma before it";
  }
  fail(at, std::string("expected ',' or ") + (inObject ? "'}'" : "']'") + ", found " + found(at) +
               remedy);
}

bool Builder::parse_error(size_t read, const std::string &,
                          const nlohmann::detail::exception &error) {
  constexpr int numberOverflow = 406;
  if (error.id == numberOverflow) {
    size_t at = tokenStart();
    fail(at, "expected a number within the range of a double, found " + found(at) +
                 "; use a smaller number");
  }
  size_t at = skipSpace(cursor);
  bool inObject = !stack.empty() && stack.back()->kind == JsonKind::Object;
  auto isAt = [&](char c) { return at < text.size() && text[at] == c; };
  if (last == Event::Key) {
    if (!isAt(':')) {
      fail(at, "expected ':' after the key " + quote(stack.back()->members.back().key) +
                   ", found " + found(at));
    }
    at = skipSpace(at + 1);
    badToken(at, read, "a value for the key " + quote(stack.back()->members.back().key), false);
  }
  if (last == Event::Value && stack.empty()) {
    expectEnd();
  }
  if (last == Event::Value) {
    if (!isAt(',')) {
      badSeparator(at, inObject);
    }
    at = skipSpace(at + 1);
    badToken(at, read, inObject ? "a key after ','" : "a value after ','", inObject);
  }
  if (last == Event::Opened) {
    badToken(at, read, inObject ? "a key or '}'" : "a value or ']'", inObject);
  }
  if (at >= text.size()) {
    fail(at, "expected an object with the model's spec ({ ... }), found an empty file");
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

std::string quote(std::string_view text) {
  const char *digits = "0123456789abcdef";
  bool cut = text.size() > longestShown;
  if (cut) { // never through the middle of a character
    size_t end = longestShown;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
      --end;
    }
    text = text.substr(0, end);
  }
  std::string result = "\"";
  for (char c : text) {
    unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      result += std::string("\\u00") + digits[byte >> 4] + digits[byte & 15];
    } else {
      result += c;
    }
  }
  return result + (cut ? "...\"" : "\"");
}

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
  Builder builder(text, file, consumed);
  CountingIterator begin(text.data(), &consumed), end(text.data() + text.size(), &consumed);
  nlohmann::json::sax_parse(begin, end, &builder);
  builder.expectEnd();
  return std::move(builder.root);
}

} // namespace sluice::spec
