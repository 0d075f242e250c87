// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Images.h"

#include "sluice/Runtime/Error.h"

#include <algorithm>
#include <charconv>
#include <png.h>

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

namespace {

/// libpng's simplified interface, which frees what it holds.
struct Png {
  png_image image = {};
  Png() { image.version = PNG_IMAGE_VERSION; }
  ~Png() { png_image_free(&image); }
  Png(const Png &) = delete;
  Png &operator=(const Png &) = delete;
};

uint32_t formatOf(const ImageSize &size) {
  return size.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
}

bool isPng(const std::vector<uint8_t> &bytes) {
  return bytes.size() >= 8 && png_sig_cmp(bytes.data(), 0, 8) == 0;
}

/// Without chunks that may be left out (PNG, section 5.4: a small first letter), save transparency,
/// which is refused. libpng changes pixels by some of them, such as gAMA; an image is its numbers.
std::vector<uint8_t> keepPixels(const std::vector<uint8_t> &bytes) {
  constexpr size_t signature = 8, around = 12; // of a chunk: its size, its name, its checksum
  std::vector<uint8_t> kept(bytes.begin(), bytes.begin() + signature);
  for (size_t at = signature; at < bytes.size();) {
    size_t left = bytes.size() - at, size = left;
    std::string_view name;
    if (left >= around) {
      size = around + png_get_uint_32(bytes.data() + at);
      name = {reinterpret_cast<const char *>(bytes.data()) + at + 4, 4};
    }
    size = std::min(size, left); // a chunk that is cut is libpng's to refuse
    bool isSpare = !name.empty() && name.front() >= 'a' && name.front() <= 'z' && name != "tRNS";
    if (!isSpare) {
      kept.insert(kept.end(), bytes.begin() + std::ptrdiff_t(at),
                  bytes.begin() + std::ptrdiff_t(at + size));
    }
    at += size;
  }
  return kept;
}

std::vector<uint8_t> decodePng(const Path &path, const std::vector<uint8_t> &file,
                               const ImageSize &size) {
  std::vector<uint8_t> bytes = keepPixels(file);
  Png png;
  auto fail = [&] {
    throw UserError(path.string() + ": expected a PNG image, found a damaged one (" +
                    png.image.message + "); write it again");
  };
  if (!png_image_begin_read_from_memory(&png.image, bytes.data(), bytes.size())) {
    fail();
  }
  uint32_t format = png.image.format;
  int64_t channels = (format & PNG_FORMAT_FLAG_COLOR) != 0 ? 3 : 1;
  if ((format & PNG_FORMAT_FLAG_LINEAR) != 0 || (format & PNG_FORMAT_FLAG_ALPHA) != 0) {
    throw UserError(path.string() + ": expected a PNG of 8 bits a channel without transparency, " +
                    "found one " +
                    ((format & PNG_FORMAT_FLAG_ALPHA) != 0 ? "with transparency" : "of 16 bits") +
                    "; convert it first");
  }
  if (png.image.width != size.width || png.image.height != size.height ||
      channels != size.channels) {
    throw UserError(path.string() + ": expected a PNG of " + size.toString() +
                    ", as --images says, " + "found one of " +
                    describe(png.image.width, png.image.height, channels) +
                    "; scale or convert it first");
  }
  png.image.format = formatOf(size);
  std::vector<uint8_t> pixels(static_cast<size_t>(size.bytes()));
  if (!png_image_finish_read(&png.image, nullptr, pixels.data(), 0, nullptr)) {
    fail();
  }
  return pixels;
}

} // namespace

std::vector<uint8_t> readImages(const Path &path, const ImageSize &size) {
  std::vector<uint8_t> bytes = readBytes(path, "image file");
  if (isPng(bytes)) {
    return decodePng(path, bytes, size);
  }
  auto each = static_cast<size_t>(size.bytes());
  if (bytes.empty() || bytes.size() % each != 0) {
    throw UserError(path.string() + ": expected a PNG, or images of " + size.toString() + ", " +
                    std::to_string(each) + " bytes each, found " + std::to_string(bytes.size()) +
                    " bytes; cut the file, or say another --images");
  }
  return bytes;
}

std::vector<uint8_t> encodePng(std::span<const uint8_t> pixels, const ImageSize &size) {
  Png png;
  png.image.width = static_cast<uint32_t>(size.width);
  png.image.height = static_cast<uint32_t>(size.height);
  png.image.format = formatOf(size);
  std::vector<uint8_t> bytes(PNG_IMAGE_PNG_SIZE_MAX(png.image));
  png_alloc_size_t used = bytes.size();
  if (!png_image_write_to_memory(&png.image, bytes.data(), &used, 0, pixels.data(), 0, nullptr)) {
    throw JobError(std::string("the image could not be encoded: ") + png.image.message);
  }
  bytes.resize(used);
  return bytes;
}

Images::Images(const std::vector<Path> &paths, const ImageSize &size, const Plan &plan,
               uint64_t seed)
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
    files.push_back({path, readImages(path, size)});
    const std::vector<uint8_t> &pixels = files.back().bytes;
    auto wrong =
        std::ranges::find_if(pixels, [&](uint8_t v) { return v >= plan.model.vocabulary; });
    if (wrong != pixels.end()) {
      throw UserError(path.string() + ": expected values below the vocabulary of " +
                      std::to_string(plan.model.vocabulary) + ", found " + std::to_string(*wrong) +
                      "; raise the spec's vocabulary to 256");
    }
    firstImage.push_back(count);
    count += static_cast<int64_t>(pixels.size()) / size.bytes();
  }
  contentHash = hashFiles(files);
}

std::span<const uint8_t> Images::at(int64_t index) const {
  auto file =
      static_cast<size_t>(std::ranges::upper_bound(firstImage, index) - firstImage.begin() - 1);
  return std::span(files[file].bytes)
      .subspan(static_cast<size_t>((index - firstImage[file]) * size.bytes()),
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
