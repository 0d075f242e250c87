// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prepares a user's text for messages, in which names of files, keys and flags may have any bytes
// and any length, and counts its characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// Returns `"text"` for one line of a message. Escapes quotes, backslashes, and everything that a
/// terminal or a reader could misinterpret: control characters, marks that change the direction of
/// writing or have no width (\u001b, \u202e), and bytes that are not UTF-8 (\xff). Truncates after
/// `most` bytes of `text`, at a character boundary, and then ends with `..."`.
std::string quote(std::string_view text, size_t most = 40);

/// Escapes a path at the start of a message: as `quote` does, but without quotes, and without
/// escaping quotes and backslashes. The middle of a path over 300 bytes becomes "...".
std::string showPath(std::string_view path);

/// Escapes a message for a terminal: as `showPath` does, but line breaks stay. The middle of a
/// message over 16 KiB becomes "...".
std::string showMessage(std::string_view message);

/// Escapes a text of any length for a terminal: as `showMessage` does, but without truncation.
std::string showText(std::string_view text);

/// Parses a size such as 512MiB, 1.5GiB, 100KiB or 1000000; empty if `text` is not a size of at
/// least one byte.
std::optional<int64_t> findByteSize(const std::string &text);

/// Characters of UTF-8 in a range of bytes of a text.
struct CharacterCount {
  int64_t characters = 0;        ///< characters whose last byte is in the range
  std::optional<size_t> invalid; ///< first byte of the range that belongs to no character
};

/// Counts the characters of the bytes [`from`, `to`). A character is counted with its last byte, so
/// the counts of adjacent ranges add up. Bytes outside the range are read only to find the
/// boundaries of characters.
CharacterCount countCharacters(std::string_view text, size_t from, size_t to);

} // namespace sluice
