// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Places in a document: bytes, as the spec reader counts, and UTF-16 code units, as editors do.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace sluice::editor {

/// As the protocol has it: line and UTF-16 code units in it, both from 0.
struct Position {
  size_t line = 0;
  size_t character = 0;
  bool operator==(const Position &) const = default;
};

struct Range {
  Position start, end;
  bool operator==(const Range &) const = default;
};

/// UTF-8 text with its lines. The text must outlive this. Every function clamps to the text.
class Text {
public:
  explicit Text(std::string_view text);

  std::string_view view() const { return text; }
  Position position(size_t offset) const;
  Range range(size_t begin, size_t end) const { return {position(begin), position(end)}; }
  size_t offset(Position position) const;
  /// For a place that the spec reader names: both from 1, columns in bytes, lines end at "\n" only.
  size_t getOffsetAt(unsigned line, unsigned column) const;

private:
  /// Code units from the start of the text to an offset; looks at no more than one block.
  size_t unitsBefore(size_t offset) const;

  std::string_view text;
  std::vector<size_t> starts;  ///< of the protocol's lines, which "\n", "\r\n" or "\r" end
  std::vector<size_t> newline; ///< of the reader's lines
  std::vector<size_t> blocks;  ///< code units before each block of bytes: lines may be megabytes
};

} // namespace sluice::editor
