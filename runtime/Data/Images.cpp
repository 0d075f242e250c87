// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/Images.h"

#include "Png.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <charconv>

namespace sluice::runtime {

static std::string describe(int64_t width, int64_t height, int64_t channels) {
  return std::to_string(width) + "x" + std::to_string(height) + "x" + std::to_string(channels);
}

std::string ImageSize::toString() const { return describe(width, height, channels); }

ImageSize parseImageSize(const std::string &flag, const std::string &text) {
  constexpr int64_t most = 1 << 15;
  int64_t sizes[3] = {};
  const char *at = text.data(), *end = at + text.size();
  bool isRight = true;
  for (int i = 0; i < 3 && isRight; ++i) {
    isRight = i == 0 || (at != end && *at++ == 'x');
    auto [next, error] = std::from_chars(at, end, sizes[i]);
    isRight = isRight && error == std::errc() && sizes[i] >= 1 && sizes[i] <= most;
    at = next;
  }
  if (!isRight || at != end || (sizes[2] != 1 && sizes[2] != 3)) {
    throw UserError(flag + ": expected WIDTHxHEIGHTxCHANNELS with 1 or 3 channels and at most " +
                    std::to_string(most) + " pixels a side, found \"" + text +
                    "\"; write it as in " + flag + " 32x32x3");
  }
  return {sizes[0], sizes[1], sizes[2]};
}

void requireFits(const ImageSize &size, const Plan &plan) {
  if (size.bytes() != plan.model.context) {
    throw UserError("--images: expected images of as many bytes as the context has tokens, " +
                    std::to_string(plan.model.context) + ", found " + size.toString() + ", " +
                    std::to_string(size.bytes()) +
                    " bytes; compile with --set context=" + std::to_string(size.bytes()));
  }
}

static std::vector<uint8_t> readPng(const Path &path, std::span<const uint8_t> bytes,
                                    const ImageSize &size) {
  DecodedPng image = decodePng(bytes, size.width, size.height, size.channels);
  if (!image.problem.empty()) {
    throw UserError(showPath(path.native()) + ": expected a PNG image, found a damaged one (" +
                    image.problem + "); write it again");
  }
  if (image.hasManyBits || image.isTransparent) {
    throw UserError(showPath(path.native()) +
                    ": expected a PNG of 8 bits per channel without transparency, " + "found one " +
                    (image.isTransparent ? "with transparency" : "of 16 bits") +
                    "; convert it first");
  }
  if (image.pixels.empty()) {
    throw UserError(showPath(path.native()) + ": expected a PNG of " + size.toString() +
                    ", as --images specifies, " + "found one of " +
                    describe(image.width, image.height, image.channels) +
                    "; scale or convert it first");
  }
  return std::move(image.pixels);
}

ByteFile readImages(const Path &path, const ImageSize &size, const ReadingOptions &reading) {
  ReadingOptions raw = reading;
  raw.isRaw = true; // pixels may have any bytes
  ByteFile file = openByteFile(path, "image file", raw);
  if (isPng(file.bytes.read(0, 8))) {
    file.bytes = readPng(path, file.bytes.readAll(), size);
    return file;
  }
  auto each = static_cast<size_t>(size.bytes());
  if (file.bytes.empty() || file.bytes.size() % each != 0) {
    throw UserError(showPath(path.native()) + ": expected a PNG, or images of " + size.toString() +
                    ", " + std::to_string(each) + " bytes each, found " +
                    std::to_string(file.bytes.size()) +
                    " bytes; cut the file, or give another --images");
  }
  return file;
}

std::vector<uint8_t> encodePng(std::span<const uint8_t> pixels, const ImageSize &size) {
  std::string problem;
  std::vector<uint8_t> bytes = encodePng(pixels, size.width, size.height, size.channels, problem);
  if (!problem.empty()) {
    throw JobError("the image could not be encoded: " + problem);
  }
  return bytes;
}

Images::Images(const std::vector<Path> &paths, const ImageSize &size, const Plan &plan,
               uint64_t seed, const ReadingOptions &reading)
    : ItemSource(seed), size(size) {
  requireFits(size, plan);
  std::string scored = plan.model.first > 0 ? "the first " + std::to_string(plan.model.first) +
                                                  " bytes are not scored, as the model leaves "
                                                  "these rows out"
                                            : "every byte is scored";
  told = "each by itself after a start token of 0; " + scored +
         "; a token is a byte, which is one channel of a pixel";
  if (paths.empty()) {
    throw UserError("expected at least one file of images, found none; give --data FILE");
  }
  for (const Path &path : paths) {
    files.push_back(readImages(path, size, reading));
    const FileContents &pixels = files.back().bytes;
    size_t wrong = plan.model.vocabulary >= 256
                       ? pixels.size()
                       : pixels.find([&](uint8_t v) { return v >= plan.model.vocabulary; });
    if (wrong < pixels.size()) {
      throw UserError(showPath(path.native()) + ": expected values below the vocabulary of " +
                      std::to_string(plan.model.vocabulary) + ", found " +
                      std::to_string(pixels.read(wrong, 1).front()) +
                      "; raise the spec's vocabulary to 256");
    }
    firstImage.push_back(count);
    count += static_cast<int64_t>(pixels.size()) / size.bytes();
  }
  contentHash = hashFiles(files);
}

std::vector<uint8_t> Images::at(int64_t index) const {
  auto file =
      static_cast<size_t>(std::ranges::upper_bound(firstImage, index) - firstImage.begin() - 1);
  return files[file].bytes.read(static_cast<size_t>((index - firstImage[file]) * size.bytes()),
                                static_cast<size_t>(size.bytes()));
}

int64_t Images::write(int64_t index, int64_t row, const BatchInputs &into) const {
  auto each = static_cast<size_t>(size.bytes());
  std::span<int32_t> tokens = into.tokens.subspan(static_cast<size_t>(row) * (each + 1), each + 1);
  tokens.front() = imageStart;
  std::ranges::copy(at(index), tokens.begin() + 1);
  return size.bytes();
}

} // namespace sluice::runtime
