// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decodes and encodes PNG files. Every byte of a file is checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// The stored pixels of a PNG: row by row, with the channels of a pixel adjacent, 8 bits each. Gray
/// of fewer bits is scaled to 8 bits, and palette indices are replaced by colors.
struct DecodedPng {
  int64_t width = 0, height = 0, channels = 0; ///< 1 or 3 channels
  bool isTransparent = false, hasManyBits = false;
  std::vector<uint8_t> pixels; ///< empty if the size differs from the expected one
  std::string problem;         ///< description of the damage; empty: none
};

bool isPng(std::span<const uint8_t> bytes);

/// Decodes a PNG of this width, height and number of channels. For a PNG of another size, with
/// transparency or with 16 bits per channel, only these facts are read. Damage is everything that
/// the standard (https://www.w3.org/TR/png-3/) forbids in critical chunks, including data after the
/// image's last pixel or after the last chunk, and indices outside the palette.
DecodedPng decodePng(std::span<const uint8_t> bytes, int64_t width, int64_t height,
                     int64_t channels);

/// Encodes pixels as PNG. Returns no bytes, and the reason in `problem`, if libpng fails.
std::vector<uint8_t> encodePng(std::span<const uint8_t> pixels, int64_t width, int64_t height,
                               int64_t channels, std::string &problem);

} // namespace sluice::runtime
