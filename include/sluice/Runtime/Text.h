// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A user's text: in messages, where names of files, keys and flags hold any bytes and have any
// length; and its characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// `"text"` for one line of a message. Quotes and backslashes are escaped; so is what a terminal or
/// a reader could take for something else: control characters, marks that turn the direction of
/// writing or have no width (\u001b, \u202e), bytes that are no UTF-8 (\xff). Cut after `most`
/// bytes of `text`, never inside a character, and then ends in `..."`.
std::string quote(std::string_view text, size_t most = 40);

/// A path as a message begins with it: escaped likewise, but without quotes, and with its own
/// quotes and backslashes as they are. The middle of one longer than 300 bytes becomes "...".
std::string showPath(std::string_view path);

/// A whole message on its way to a terminal: as in a path, except that line breaks stay. The middle
/// of one longer than 16 KiB becomes "...".
std::string showMessage(std::string_view message);

/// A text of any length on its way to a terminal: as a message, but whole.
std::string showText(std::string_view text);

/// Bytes of a size such as 512MiB, 1.5GiB, 100KiB or 1000000; none where `text` is no size of at
/// least one byte.
std::optional<int64_t> findByteSize(const std::string &text);

/// Characters of UTF-8 among some bytes of a text.
struct CharacterCount {
  int64_t characters = 0;        ///< whose last byte is among them
  std::optional<size_t> invalid; ///< the first of them that belongs to no character
};

/// Of bytes from `from` on, before `to`. A character counts with its last byte, so counts of ranges
/// that follow one another add up. What stands outside the range decides nothing but which bytes
/// belong together.
CharacterCount countCharacters(std::string_view text, size_t from, size_t to);

} // namespace sluice
