// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Png.h"

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <png.h>
#include <string_view>
#include <zlib.h>

namespace sluice::runtime {
namespace {

constexpr size_t signatureBytes = 8, chunkFrame = 12; // size, name and checksum of a chunk

struct Chunk {
  std::string_view name;          ///< empty if the chunk is truncated
  std::span<const uint8_t> whole; ///< the chunk with its size, name and checksum
};

std::vector<Chunk> cutChunks(std::span<const uint8_t> bytes) {
  std::vector<Chunk> chunks;
  for (size_t at = signatureBytes; at < bytes.size();) {
    size_t left = bytes.size() - at, size = left;
    std::string_view name;
    if (left >= chunkFrame) {
      size = std::min(chunkFrame + png_get_uint_32(bytes.data() + at), left);
      name = {reinterpret_cast<const char *>(bytes.data()) + at + 4, 4};
    }
    chunks.push_back({name, bytes.subspan(at, size)});
    at += size;
  }
  return chunks;
}

/// Drops ancillary chunks (PNG, section 5.4: the first letter is small), except for transparency,
/// which is rejected. libpng changes pixels according to some of them, such as gAMA; Sluice reads
/// the stored numbers.
std::vector<uint8_t> dropAncillary(std::span<const uint8_t> bytes, std::span<const Chunk> chunks) {
  std::vector<uint8_t> kept(bytes.begin(), bytes.begin() + signatureBytes);
  for (const Chunk &chunk : chunks) {
    bool isAncillary = !chunk.name.empty() && chunk.name[0] >= 'a' && chunk.name[0] <= 'z';
    if (!isAncillary || chunk.name == "tRNS") {
      kept.insert(kept.end(), chunk.whole.begin(), chunk.whole.end());
    }
  }
  return kept;
}

/// Finds damage that libpng ignores: chunks of data after other chunks, or after the end of the
/// compressed stream.
std::string findSurplusData(std::span<const Chunk> chunks) {
  std::vector<uint8_t> data;
  size_t first = 0, count = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (chunks[i].name == "IDAT") {
      first = count == 0 ? i : first;
      if (i != first + count++) {
        return "pixels in several places";
      }
      std::span<const uint8_t> part =
          chunks[i].whole.subspan(8, chunks[i].whole.size() - chunkFrame);
      data.insert(data.end(), part.begin(), part.end());
    }
  }
  if (count < 2) {
    return ""; // libpng checks the rest of the chunk in which the data ends
  }
  z_stream stream = {};
  stream.next_in = data.data();
  stream.avail_in = static_cast<uInt>(data.size());
  std::vector<uint8_t> ignored(size_t(1) << 16);
  int status = inflateInit(&stream);
  while (status == Z_OK) {
    stream.next_out = ignored.data();
    stream.avail_out = static_cast<uInt>(ignored.size());
    status = inflate(&stream, Z_NO_FLUSH);
  }
  inflateEnd(&stream);
  return status == Z_STREAM_END && stream.avail_in > 0 ? "data after its last pixel" : "";
}

/// Reads a PNG in memory with libpng. Warnings are treated as errors: optional chunks have been
/// removed, so each warning reports damage. libpng reports errors by longjmp, so no function that
/// calls it has objects with destructors.
class PngReader {
public:
  explicit PngReader(std::span<const uint8_t> bytes) : bytes(bytes) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, onError, onWarning);
    info = png != nullptr ? png_create_info_struct(png) : nullptr;
  }
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader &) = delete;
  PngReader &operator=(const PngReader &) = delete;

  /// Reads the file up to the pixels.
  bool readHeader();
  /// Reads pixels into contiguous rows, one byte per channel or index, and the chunks after them.
  bool readPixels(uint8_t *pixels);
  bool isAtEnd() const { return at == bytes.size(); }
  png_structp get() const { return png; }
  png_infop getInfo() const { return info; }
  const char *message() const { return text; }

private:
  static void onError(png_structp png, png_const_charp message) {
    auto *reader = static_cast<PngReader *>(png_get_error_ptr(png));
    std::strncpy(reader->text, message, sizeof reader->text - 1);
    png_longjmp(png, 1);
  }
  static void onWarning(png_structp png, png_const_charp message) { onError(png, message); }
  static void read(png_structp png, png_bytep into, size_t count) {
    auto *reader = static_cast<PngReader *>(png_get_io_ptr(png));
    if (count > reader->bytes.size() - reader->at) {
      png_error(png, "cut short");
    }
    std::memcpy(into, reader->bytes.data() + reader->at, count);
    reader->at += count;
  }

  std::span<const uint8_t> bytes;
  size_t at = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char text[160] = "no memory";
};

bool PngReader::readHeader() {
  if (info == nullptr || setjmp(png_jmpbuf(png)) != 0) {
    return false;
  }
  png_set_benign_errors(png, 0);
  png_set_read_fn(png, this, read);
  png_read_info(png, info);
  return true;
}

bool PngReader::readPixels(uint8_t *pixels) {
  if (setjmp(png_jmpbuf(png)) != 0) {
    return false;
  }
  if (png_get_color_type(png, info) == PNG_COLOR_TYPE_PALETTE) {
    png_set_packing(png);
  } else if (png_get_bit_depth(png, info) < 8) {
    png_set_expand_gray_1_2_4_to_8(png);
  }
  int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  size_t stride = png_get_rowbytes(png, info);
  for (int pass = 0; pass < passes; ++pass) {
    for (uint32_t y = 0; y < png_get_image_height(png, info); ++y) {
      png_read_row(png, pixels + y * stride, nullptr);
    }
  }
  png_read_end(png, nullptr);
  return true;
}

/// Replaces indices by colors. Returns false if an index is not in the palette.
bool applyPalette(const PngReader &reader, std::vector<uint8_t> &pixels) {
  png_colorp colors = nullptr;
  int count = 0;
  png_get_PLTE(reader.get(), reader.getInfo(), &colors, &count);
  std::vector<uint8_t> whole;
  whole.reserve(3 * pixels.size());
  for (uint8_t index : pixels) {
    if (index >= count) {
      return false;
    }
    whole.insert(whole.end(), {colors[index].red, colors[index].green, colors[index].blue});
  }
  pixels = std::move(whole);
  return true;
}

} // namespace

bool isPng(std::span<const uint8_t> bytes) {
  return bytes.size() >= signatureBytes && png_sig_cmp(bytes.data(), 0, signatureBytes) == 0;
}

DecodedPng decodePng(std::span<const uint8_t> bytes, int64_t width, int64_t height,
                     int64_t channels) {
  DecodedPng image;
  std::vector<Chunk> chunks = cutChunks(bytes);
  std::vector<uint8_t> kept = dropAncillary(bytes, chunks);
  PngReader reader(kept);
  if (!reader.readHeader()) {
    image.problem = reader.message();
    return image;
  }
  int color = png_get_color_type(reader.get(), reader.getInfo());
  bool hasPalette = color == PNG_COLOR_TYPE_PALETTE;
  image.width = png_get_image_width(reader.get(), reader.getInfo());
  image.height = png_get_image_height(reader.get(), reader.getInfo());
  image.channels = (color & PNG_COLOR_MASK_COLOR) != 0 ? 3 : 1;
  image.isTransparent = (color & PNG_COLOR_MASK_ALPHA) != 0 ||
                        png_get_valid(reader.get(), reader.getInfo(), PNG_INFO_tRNS) != 0;
  image.hasManyBits = png_get_bit_depth(reader.get(), reader.getInfo()) > 8;
  if (image.isTransparent || image.hasManyBits || image.width != width || image.height != height ||
      image.channels != channels) {
    return image;
  }
  image.pixels.resize(static_cast<size_t>(width * height * (hasPalette ? 1 : channels)));
  if (!reader.readPixels(image.pixels.data())) {
    image.problem = reader.message();
  } else if (!reader.isAtEnd()) {
    image.problem = "data after its last chunk";
  } else if (hasPalette && !applyPalette(reader, image.pixels)) {
    image.problem = "a color that its palette lacks";
  } else {
    image.problem = findSurplusData(chunks);
  }
  return image;
}

std::vector<uint8_t> encodePng(std::span<const uint8_t> pixels, int64_t width, int64_t height,
                               int64_t channels, std::string &problem) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<uint32_t>(width);
  image.height = static_cast<uint32_t>(height);
  image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::vector<uint8_t> bytes(PNG_IMAGE_PNG_SIZE_MAX(image));
  png_alloc_size_t used = bytes.size();
  bool isWritten =
      png_image_write_to_memory(&image, bytes.data(), &used, 0, pixels.data(), 0, nullptr) != 0;
  problem = isWritten ? "" : image.message;
  png_image_free(&image);
  bytes.resize(isWritten ? used : 0);
  return bytes;
}

} // namespace sluice::runtime
