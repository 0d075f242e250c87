// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images as sequences of bytes (Nawrot et al. 2021, section 4.2): row by row, with the channels of
// a pixel adjacent.
#pragma once

#include "sluice/Runtime/Data/Data.h"
#include "sluice/Runtime/Plan/Plan.h"

namespace sluice::runtime {

/// Size of 8-bit images with 1 channel (gray) or 3 channels (red, green, blue).
struct ImageSize {
  int64_t width = 0, height = 0, channels = 0;

  int64_t bytes() const { return width * height * channels; }
  std::string toString() const; ///< "32x32x3"
};

/// Parses "32x32x3": width, height and channels. Throws UserError with the flag's name.
ImageSize parseImageSize(const std::string &flag, const std::string &text);

/// Rejects images that do not fill the plan's context.
void requireFits(const ImageSize &size, const Plan &plan);

/// The token before an image's first byte.
inline constexpr uint8_t imageStart = 0;

/// Returns the concatenated pixels of a file's images, `size.bytes()` each: of a PNG file, or of a
/// file of raw pixels, which is read on access. Throws UserError if a PNG has another size, depth
/// or number of channels, or if a raw file ends within an image.
ByteFile readImages(const Path &path, const ImageSize &size, const ReadingOptions &reading = {});

/// Encodes `size.bytes()` bytes of pixels as PNG.
std::vector<uint8_t> encodePng(std::span<const uint8_t> pixels, const ImageSize &size);

/// Images that each fill one row: a start token, then the image's bytes, all of which are
/// predicted.
class Images : public ItemSource {
public:
  /// Throws UserError if an image does not fill the context, or if a file has another format.
  Images(const std::vector<Path> &paths, const ImageSize &size, const Plan &plan, uint64_t seed,
         const ReadingOptions &reading = {});

  int64_t rowsPerEpoch() const override { return count; }
  const std::vector<ByteFile> &usedFiles() const override { return files; }
  const std::vector<ByteFile> &skippedFiles() const override { return none; }
  std::vector<std::string> notes() const override { return {}; }
  const std::string &hash() const override { return contentHash; }
  int64_t write(int64_t index, int64_t row, const BatchInputs &into) const override;
  std::optional<std::string> getTextAt(int64_t) const override { return std::nullopt; }
  std::string_view noun() const override { return "images"; }
  std::string_view protocol() const override { return told; }
  /// Returns the bytes of image `index` < rowsPerEpoch().
  std::vector<uint8_t> at(int64_t index) const;

private:
  ImageSize size;
  std::string told;                  ///< protocol of the evaluation
  std::vector<ByteFile> files, none; ///< pixels of each file
  std::vector<int64_t> firstImage;   ///< index of the first image of each file
  int64_t count = 0;
  std::string contentHash;
};

} // namespace sluice::runtime
