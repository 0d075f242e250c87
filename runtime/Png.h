// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PNG files, of which every byte is looked at.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// A PNG's pixels as they are stored: line by line, a pixel's channels together, 8 bits each. Of
/// fewer bits gray is scaled to 8, of a palette there are the colors.
struct DecodedPng {
  int64_t width = 0, height = 0, channels = 0; ///< 1 or 3 channels
  bool isTransparent = false, hasManyBits = false;
  std::vector<uint8_t> pixels; ///< empty where another size was asked for
  std::string problem;         ///< what is damaged; empty where nothing is
};

bool isPng(std::span<const uint8_t> bytes);

/// Decodes a PNG whose width, height and channels are these; of another one only these are read.
/// One that is transparent or has 16 bits a channel has no pixels either. Damage is whatever the
/// standard (https://www.w3.org/TR/png-3/) forbids in chunks that must be read, data after the
/// image's last pixel or after the last chunk among it, and indices that the palette lacks.
DecodedPng decodePng(std::span<const uint8_t> bytes, int64_t width, int64_t height,
                     int64_t channels);

/// The bytes of a PNG with these pixels. Returns nothing and the reason where libpng cannot.
std::vector<uint8_t> encodePng(std::span<const uint8_t> pixels, int64_t width, int64_t height,
                               int64_t channels, std::string &problem);

} // namespace sluice::runtime
