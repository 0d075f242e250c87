// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/TextPieces.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

struct Character {
  uint32_t code = 0;
  size_t length = 0; // in bytes; 0: not UTF-8
};

bool isContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Decodes the character at `at`: it must have the shortest encoding, be no surrogate, and be at
/// most U+10FFFF.
Character decode(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  uint32_t first = byte(at);
  if (first < 0x80) {
    return {first, 1};
  }
  size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (length == 0 || first > 0xF4 || at + length > text.size()) {
    return {};
  }
  uint32_t code = first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (!isContinuation(text[at + i])) {
      return {};
    }
    code = code << 6 | (byte(at + i) & 0x3Fu);
  }
  constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  bool isCode = code >= least[length] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
  return isCode ? Character{code, length} : Character{};
}

/// Checks for characters that move the cursor, change the direction of writing, break the line, or
/// are invisible.
bool isHidden(uint32_t code) {
  auto within = [&](uint32_t first, uint32_t last) { return code >= first && code <= last; };
  return code < 0x20 || within(0x7F, 0x9F) || code == 0xAD || code == 0x61C ||
         within(0x200B, 0x200F) || within(0x2028, 0x202E) || within(0x2060, 0x206F) ||
         code == 0xFEFF || within(0xFFF9, 0xFFFB) || within(0xE0000, 0xE0FFF);
}

std::string hexadecimal(uint32_t value, int digits) {
  std::string text;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    text += "0123456789abcdef"[value >> shift & 15];
  }
  return text;
}

/// Escapes a text. Characters in `plain` stay although they are hidden; characters in `marked` get
/// a backslash.
std::string escape(std::string_view text, std::string_view plain, std::string_view marked) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    auto [code, length] = decode(text, at);
    if (length == 0) {
      result += "\\x" + hexadecimal(static_cast<unsigned char>(text[at]), 2);
      ++at;
      continue;
    }
    if (length == 1 && marked.find(text[at]) != std::string_view::npos) {
      result += '\\';
    }
    if (isHidden(code) && (length > 1 || plain.find(text[at]) == std::string_view::npos)) {
      result += code > 0xFFFF ? "\\U" + hexadecimal(code, 8) : "\\u" + hexadecimal(code, 4);
    } else {
      result += text.substr(at, length);
    }
    at += length;
  }
  return result;
}

/// Returns the start of the character that contains byte `at`, or `at` if the byte is not inside a
/// character.
size_t characterStart(std::string_view text, size_t at) {
  for (int i = 0; i < 3 && at > 0 && at < text.size() && isContinuation(text[at]); ++i) {
    --at;
  }
  return at;
}

/// Keeps the first and the last bytes of a text longer than `most`.
std::string shorten(std::string_view text, size_t most, std::string_view plain) {
  if (text.size() <= most) {
    return escape(text, plain, "");
  }
  size_t head = characterStart(text, most / 2), tail = characterStart(text, text.size() - most / 2);
  return escape(text.substr(0, head), plain, "") + "..." + escape(text.substr(tail), plain, "");
}

} // namespace

std::string quote(std::string_view text, size_t most) {
  bool cut = text.size() > most;
  std::string_view shown = cut ? text.substr(0, characterStart(text, most)) : text;
  return '"' + escape(shown, "", "\"\\") + (cut ? "...\"" : "\"");
}

std::string showPath(std::string_view path) { return shorten(path, 300, ""); }
std::string showMessage(std::string_view message) {
  return shorten(message, size_t(16) << 10, "\n\t");
}

std::string showText(std::string_view text) { return escape(text, "\n\t", ""); }

CharacterCount countCharacters(std::string_view text, size_t from, size_t to) {
  return countCharacters([&](size_t start) { return text.substr(start); }, from,
                         std::min(to, text.size()));
}

CharacterCount countCharacters(const TextReader &text, size_t from, size_t to) {
  constexpr size_t longest = 4;
  CharacterCount count;
  std::string_view piece;
  size_t start = 0; // of the piece
  for (size_t at = 0; at < to && !count.invalid;) {
    if (at + longest > start + piece.size()) {
      piece = text(at);
      start = at;
    }
    size_t length = decode(piece, at - start).length, end = at + std::max<size_t>(length, 1);
    if (length > 0) {
      count.characters += end > from && end <= to ? 1 : 0;
    } else if (at >= from) {
      count.invalid = at;
    }
    at = end;
  }
  return count;
}

std::optional<int64_t> findByteSize(const std::string &text) {
  char *end = nullptr;
  double number = std::strtod(text.c_str(), &end);
  std::string unit = end;
  constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double bytes = unit.empty() ? number : 0;
  for (int i = 0; i < 5; ++i) {
    bytes = unit == units[i] ? std::ldexp(number, 10 * i) : bytes;
  }
  bool isPlain = !text.empty() && text[0] >= '0' && text[0] <= '9' &&
                 text.find_first_of("xX") == std::string::npos;
  return isPlain && bytes >= 1 && bytes <= 0x1p62 ? std::optional(static_cast<int64_t>(bytes))
                                                  : std::nullopt;
}

} // namespace sluice
