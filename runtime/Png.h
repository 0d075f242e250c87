// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decodes and encodes PNG files. Every byte of a file is checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// A PNG's pixels as they are stored: line by line, a pixel's channels together, 8 bits each.
/// Gray of fewer bits is scaled to 8 bits, and indices of a palette are replaced by colors.
struct DecodedPng {
  int64_t width = 0, height = 0, channels = 0; ///< 1 or 3 channels
  bool isTransparent = false, hasManyBits = false;
  std::vector<uint8_t> pixels; ///< empty if the size is another one
  std::string problem;         ///< the damage; empty: none
};

bool isPng(std::span<const uint8_t> bytes);

/// Decodes a PNG of this width, height and number of channels. Of another one, and of one that is
/// transparent or has 16 bits a channel, only these facts are read. Damage is everything that the
/// standard (https://www.w3.org/TR/png-3/) forbids in chunks that must be read, data after the
/// image's last pixel or after the last chunk among it, and indices that the palette lacks.
DecodedPng decodePng(std::span<const uint8_t> bytes, int64_t width, int64_t height,
                     int64_t channels);

/// Returns a PNG with these pixels; no bytes, and the reason in `problem`, where libpng fails.
std::vector<uint8_t> encodePng(std::span<const uint8_t> pixels, int64_t width, int64_t height,
                               int64_t channels, std::string &problem);

} // namespace sluice::runtime
