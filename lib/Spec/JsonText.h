// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text of a JSON document, as the parser's handler and its messages look at it. Offsets count
// bytes from 0.

#ifndef SLUICE_LIB_SPEC_JSONTEXT_H
#define SLUICE_LIB_SPEC_JSONTEXT_H

#include "Json.h"

namespace sluice::spec {

bool isDigit(char c);

/// Bytes that a mistyped word, key or number may consist of.
bool isWord(char c);

class JsonText {
public:
  JsonText(std::string_view text, const std::string &file);

  size_t size() const { return text.size(); }
  bool has(size_t at, char c) const { return at < text.size() && text[at] == c; }
  char operator[](size_t at) const { return text[at]; }
  std::string_view slice(size_t begin, size_t end) const { return text.substr(begin, end - begin); }

  Position position(size_t at) const;
  [[noreturn]] void fail(size_t at, std::string message) const;

  /// The first byte from `at` on that is no white space.
  size_t skipSpace(size_t at) const;
  /// The first byte from `at` on that is neither white space nor a separator.
  size_t skipSeparators(size_t at) const;
  /// The end of the number that starts at `start` and that the lexer accepted.
  size_t numberEnd(size_t start) const;

  /// The text at `at`, for a message.
  std::string found(size_t at) const;
  /// Fails with the mistake in the string that starts at `start` and that the lexer rejected at
  /// `at`
  /// .
  [[noreturn]] void failInString(size_t start, size_t at) const;

private:
  size_t brokenCharacter(size_t at) const;

  std::string_view text;
  const std::string &file;
  std::vector<size_t> lineStarts = {0};
};

} // namespace sluice::spec

#endif // SLUICE_LIB_SPEC_JSONTEXT_H
