// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text of a JSON document: positions, ends of tokens, and words for messages. Offsets count
// bytes from 0.

#ifndef SLUICE_LIB_SUPPORT_JSONTEXT_H
#define SLUICE_LIB_SUPPORT_JSONTEXT_H

#include "sluice/Support/Json.h"

#include <utility>
#include <vector>

namespace sluice {

bool isJsonDigit(char c);

/// Bytes that a mistyped word, key or number may consist of.
bool isJsonWord(char c);

class JsonText {
public:
  explicit JsonText(std::string_view text) : text(text) {}

  size_t size() const { return text.size(); }
  bool has(size_t at, char c) const { return at < text.size() && text[at] == c; }
  char operator[](size_t at) const { return text[at]; }
  std::string_view slice(size_t begin, size_t end) const { return text.substr(begin, end - begin); }

  TextPosition position(size_t at) const;

  /// The first byte from `at` on that is no white space.
  size_t skipSpace(size_t at) const;
  /// The first byte from `at` on that is neither white space nor a separator.
  size_t skipSeparators(size_t at) const;
  /// The end of the number that starts at `start` and that the lexer accepted.
  size_t numberEnd(size_t start) const;

  /// Formats the token at `at` for a message.
  std::string found(size_t at) const;
  /// Returns the offset of the error in the string that starts at `start` and that the lexer
  /// rejected at `at`, and its message.
  std::pair<size_t, std::string> describeString(size_t start, size_t at) const;

private:
  size_t brokenCharacter(size_t at) const;

  std::string_view text;
  mutable std::vector<size_t> lineStarts; ///< empty until the first position is needed
};

} // namespace sluice

#endif // SLUICE_LIB_SUPPORT_JSONTEXT_H
