// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Characters of UTF-8, and the parts of a text that SentencePiece encodes.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice::runtime {

/// The character that SentencePiece writes for a space, U+2581.
constexpr std::string_view spaceMark = "\xe2\x96\x81";
/// The character that SentencePiece's trainers reserve, U+2585.
constexpr std::string_view reservedMark = "\xe2\x96\x85";

/// A character at the start of a text.
struct CharacterStart {
  size_t length = 0; ///< bytes that the first byte announces; 0: no character starts with it
  size_t valid = 0;  ///< bytes of the text that match, up to `length`
  bool isWhole() const { return length != 0 && valid == length; }
};

/// Matches the first bytes of a text of at least one byte with UTF-8 as RFC 3629 defines it.
CharacterStart matchCharacter(std::string_view text);

/// Returns the end of the part of `text` that starts at `start`: up to a line break, a zero byte, a
/// space mark or a byte that is not UTF-8, or before. A part has at most 4,096 bytes; a longer one
/// ends before its last space, or after its last whole character if it has no space. The result is
/// `start` if no part starts there.
size_t findPartEnd(std::string_view text, size_t start);

} // namespace sluice::runtime
