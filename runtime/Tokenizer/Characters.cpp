// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Characters.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace sluice::runtime {
namespace {

constexpr size_t mostPartBytes = 4096;

size_t getAnnouncedLength(uint8_t first) {
  return first < 0x80   ? 1
         : first < 0xc2 ? 0
         : first < 0xe0 ? 2
         : first < 0xf0 ? 3
         : first < 0xf5 ? 4
                        : 0;
}

/// Returns the range of the second byte: no overlong forms, no surrogates, at most U+10FFFF.
std::pair<uint8_t, uint8_t> getSecondByteRange(uint8_t first) {
  switch (first) {
  case 0xe0:
    return {0xa0, 0xbf};
  case 0xed:
    return {0x80, 0x9f};
  case 0xf0:
    return {0x90, 0xbf};
  case 0xf4:
    return {0x80, 0x8f};
  default:
    return {0x80, 0xbf};
  }
}

} // namespace

CharacterStart matchCharacter(std::string_view text) {
  auto first = static_cast<uint8_t>(text[0]);
  CharacterStart found{getAnnouncedLength(first), 1};
  if (found.length == 0) {
    return {};
  }
  auto [low, high] = getSecondByteRange(first);
  while (found.valid < std::min(found.length, text.size())) {
    auto next = static_cast<uint8_t>(text[found.valid]);
    if (next < low || next > high) {
      break;
    }
    ++found.valid;
    low = 0x80;
    high = 0xbf;
  }
  return found;
}

size_t findPartEnd(std::string_view text, size_t start) {
  size_t at = start, lastSpace = start;
  while (at < text.size()) {
    std::string_view rest = text.substr(at);
    CharacterStart character = matchCharacter(rest);
    if (!character.isWhole() || rest[0] == '\n' || rest[0] == '\0' || rest.starts_with(spaceMark)) {
      break;
    }
    if (at + character.length - start > mostPartBytes) {
      return lastSpace > start ? lastSpace : at;
    }
    if (rest[0] == ' ') {
      lastSpace = at;
    }
    at += character.length;
  }
  return at;
}

} // namespace sluice::runtime
