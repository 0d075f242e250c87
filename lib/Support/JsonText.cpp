// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "JsonText.h"

#include <algorithm>

namespace sluice {

constexpr size_t longestWord = 40; // of the text that a message shows

static bool isSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool isJsonDigit(char c) { return c >= '0' && c <= '9'; }
bool isJsonWord(char c) {
  return isJsonDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '+' || c == '-' || c == '.';
}

TextPosition JsonText::position(size_t at) const {
  if (lineStarts.empty()) {
    lineStarts.push_back(0);
    for (size_t i = text.find('\n'); i != std::string_view::npos; i = text.find('\n', i + 1)) {
      lineStarts.push_back(i + 1);
    }
  }
  auto next = std::upper_bound(lineStarts.begin(), lineStarts.end(), at);
  size_t line = static_cast<size_t>(next - lineStarts.begin());
  return {static_cast<unsigned>(line), static_cast<unsigned>(at - lineStarts[line - 1] + 1)};
}

size_t JsonText::skipSpace(size_t at) const {
  while (at < text.size() && isSpace(text[at])) {
    ++at;
  }
  return at;
}

size_t JsonText::skipSeparators(size_t at) const {
  while (at < text.size() && (isSpace(text[at]) || text[at] == ',' || text[at] == ':')) {
    ++at;
  }
  return at;
}

size_t JsonText::numberEnd(size_t start) const {
  size_t at = start;
  auto digits = [&] {
    while (at < text.size() && isJsonDigit(text[at])) {
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

std::string JsonText::found(size_t at) const {
  if (at >= text.size()) {
    return "the end of the file";
  }
  unsigned char c = static_cast<unsigned char>(text[at]);
  if (c < 0x20 || c >= 0x7f) {
    const char *digits = "0123456789ABCDEF";
    return std::string("the byte 0x") + digits[c >> 4] + digits[c & 15];
  }
  size_t end = at;
  while (end < text.size() && isJsonWord(text[end]) && end - at < longestWord) {
    ++end;
  }
  return "'" + std::string(text.substr(at, std::max<size_t>(end - at, 1))) + "'";
}

/// Where a character that lacks bytes before `at` starts; `at` where the one before is complete.
size_t JsonText::brokenCharacter(size_t at) const {
  size_t lead = at;
  while (lead > 0 && (static_cast<unsigned char>(text[lead - 1]) & 0xC0) == 0x80) {
    --lead;
  }
  unsigned char first = lead > 0 ? static_cast<unsigned char>(text[lead - 1]) : 0;
  size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
  return at - (lead - (lead > 0)) < length ? lead - 1 : at;
}

std::pair<size_t, std::string> JsonText::describeString(size_t start, size_t at) const {
  std::string unclosed = "expected '\"' to end the string that starts at " +
                         std::to_string(position(start).line) + ":" +
                         std::to_string(position(start).column);
  if (at >= text.size()) {
    return {at, unclosed + ", found the end of the file; the file seems cut off"};
  }
  size_t broken = brokenCharacter(at);
  unsigned char c = static_cast<unsigned char>(text[at]);
  if (broken != at || c >= 0x80) {
    return {broken, "expected text in UTF-8, found " + found(broken) + "; save the file as UTF-8"};
  }
  if (c == '\n' || c == '\r') {
    return {at, unclosed + ", found the end of the line; close the string"};
  }
  if (c < 0x20) {
    return {at, "expected control characters in strings to be escaped, found " + found(at) +
                    "; write \\u00 and its two digits"};
  }
  size_t escape = std::min(text.rfind('\\', at), at);
  return {escape,
          "expected an escape that JSON knows (\\\" \\\\ \\/ \\b \\f \\n \\r \\t, \\u and four "
          "hexadecimal digits, surrogates in pairs), found " +
              std::string(text.substr(escape, at + 1 - escape)) + "; write \\\\ for a backslash"};
}

} // namespace sluice
