// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Editor/Text.h"

#include <algorithm>

using namespace sluice;
using namespace sluice::editor;

static constexpr size_t blockSize = 1024;

/// Returns the code units of the character whose first byte this is; 0 for a later byte of a
/// character.
static size_t countUnits(char byte) {
  auto value = static_cast<unsigned char>(byte);
  return (value & 0xC0) == 0x80 ? 0 : value >= 0xF0 ? 2 : 1;
}

Text::Text(std::string_view text) : text(text), starts{0}, newline{0} {
  size_t units = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i % blockSize == 0) {
      blocks.push_back(units);
    }
    units += countUnits(text[i]);
    bool pair = text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n';
    if (text[i] == '\n' || (text[i] == '\r' && !pair)) {
      starts.push_back(i + 1);
    }
    if (text[i] == '\n') {
      newline.push_back(i + 1);
    }
  }
}

size_t Text::unitsBefore(size_t offset) const {
  if (offset == 0) {
    return 0;
  }
  size_t block = (offset - 1) / blockSize, units = blocks[block];
  for (size_t i = block * blockSize; i < offset; ++i) {
    units += countUnits(text[i]);
  }
  return units;
}

Position Text::position(size_t offset) const {
  offset = std::min(offset, text.size());
  auto next = std::upper_bound(starts.begin(), starts.end(), offset);
  size_t line = static_cast<size_t>(next - starts.begin()) - 1;
  return {line, unitsBefore(offset) - unitsBefore(starts[line])};
}

size_t Text::offset(Position position) const {
  if (position.line >= starts.size()) {
    return text.size();
  }
  size_t at = starts[position.line], units = 0;
  while (at < text.size() && text[at] != '\n' && text[at] != '\r') {
    size_t width = countUnits(text[at]);
    if (units + width > position.character) { // also where the position splits a surrogate pair
      break;
    }
    units += width;
    ++at;
  }
  return at;
}

size_t Text::getOffsetAt(unsigned line, unsigned column) const {
  if (line == 0 || line > newline.size()) {
    return line == 0 ? 0 : text.size();
  }
  size_t end = line < newline.size() ? newline[line] - 1 : text.size();
  return std::min(newline[line - 1] + (column == 0 ? 0 : column - 1), end);
}
