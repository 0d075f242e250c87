// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images as sequences of bytes (Nawrot et al. 2021, section 4.2): row by row, a pixel's channels
// one after the other.
#pragma once

#include "sluice/Runtime/Data.h"
#include "sluice/Runtime/Plan.h"

namespace sluice::runtime {

/// Of 8-bit images: 1 channel (gray) or 3 (red, green, blue).
struct ImageSize {
  int64_t width = 0, height = 0, channels = 0;

  int64_t bytes() const { return width * height * channels; }
  std::string toString() const; ///< "32x32x3"
};

/// Reads "32x32x3", width, height and channels. Throws UserError with the flag's name.
ImageSize parseImageSize(const std::string &flag, const std::string &text);

/// Refuses images that do not fill the plan's context.
void requireFits(const ImageSize &size, const Plan &plan);

/// The token before an image's first byte.
inline constexpr uint8_t imageStart = 0;

/// The pixels of a file's images, one after the other, `size.bytes()` each: of a PNG, or of a file
/// that holds them as they are, which is read where they are asked for. Throws UserError where a
/// PNG has another size, depth or channels, and where a file does not hold whole images.
ByteFile readImages(const Path &path, const ImageSize &size, const ReadingOptions &reading = {});

/// The bytes of a PNG with these pixels, `size.bytes()` of them.
std::vector<uint8_t> encodePng(std::span<const uint8_t> pixels, const ImageSize &size);

/// Images, of which each is a row: a start token, then its bytes, all of which are predicted.
class Images : public ItemSource {
public:
  /// Throws UserError where an image does not fill the context, or a file is not of such images.
  Images(const std::vector<Path> &paths, const ImageSize &size, const Plan &plan, uint64_t seed,
         const ReadingOptions &reading = {});

  int64_t rowsPerEpoch() const override { return count; }
  const std::vector<ByteFile> &usedFiles() const override { return files; }
  const std::vector<ByteFile> &skippedFiles() const override { return none; }
  std::vector<std::string> notes() const override { return {}; }
  const std::string &hash() const override { return contentHash; }
  int64_t write(int64_t index, int64_t row, const BatchInputs &into) const override;
  std::optional<std::string> textOf(int64_t) const override { return std::nullopt; }
  std::string_view noun() const override { return "images"; }
  std::string_view protocol() const override { return told; }
  /// The bytes of an image, below rowsPerEpoch().
  std::vector<uint8_t> at(int64_t index) const;

private:
  ImageSize size;
  std::string told;                  ///< the protocol
  std::vector<ByteFile> files, none; ///< pixels by file
  std::vector<int64_t> firstImage;   ///< by file
  int64_t count = 0;
  std::string contentHash;
};

} // namespace sluice::runtime
