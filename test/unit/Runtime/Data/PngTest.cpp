// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hand-written PNG files: reads images that the standard allows, rejects others.
#include "Data/Png.h"

#include <gtest/gtest.h>
#include <zlib.h>

using namespace sluice;
using namespace sluice::runtime;

namespace {

std::string bigEndian(uint32_t value) {
  return {char(value >> 24), char(value >> 16), char(value >> 8), char(value)};
}

std::string chunk(const std::string &name, const std::string &data) {
  std::string body = name + data;
  uLong sum =
      crc32(0, reinterpret_cast<const Bytef *>(body.data()), static_cast<uInt>(body.size()));
  return bigEndian(static_cast<uint32_t>(data.size())) + body +
         bigEndian(static_cast<uint32_t>(sum));
}

std::string deflated(const std::string &lines) {
  uLongf size = compressBound(lines.size());
  std::string data(size, '\0');
  compress(reinterpret_cast<Bytef *>(data.data()), &size,
           reinterpret_cast<const Bytef *>(lines.data()), lines.size());
  data.resize(size);
  return data;
}

const std::string signature = "\x89PNG\r\n\x1a\n";
const std::string end = chunk("IEND", "");

std::string header(uint32_t width, uint32_t height, int depth, int color) {
  return signature + chunk("IHDR", bigEndian(width) + bigEndian(height) +
                                       std::string{char(depth), char(color), 0, 0, 0});
}

constexpr int gray = 0, palette = 3;

DecodedPng decode(const std::string &file, int64_t channels) {
  return decodePng({reinterpret_cast<const uint8_t *>(file.data()), file.size()}, 2, 2, channels);
}

// Lines start with their filter, 0.
const std::string lines("\0\x01\x02\0\x03\x04", 6);
const std::string image = header(2, 2, 8, gray) + chunk("IDAT", deflated(lines)) + end;
using Pixels = std::vector<uint8_t>;

TEST(Png, ReadsStoredPixels) {
  EXPECT_EQ(decode(image, 1).pixels, (Pixels{1, 2, 3, 4}));
  // Scales bits to 8; replaces palette indices by colors.
  std::string bits = header(2, 2, 1, gray) + chunk("IDAT", deflated({"\0\x40\0\x80", 4})) + end;
  EXPECT_EQ(decode(bits, 1).pixels, (Pixels{0, 255, 255, 0}));
  std::string colors = header(2, 2, 2, palette) + chunk("PLTE", "abcdefghi") +
                       chunk("IDAT", deflated({"\0\x10\0\x80", 4})) + end;
  DecodedPng found = decode(colors, 3);
  EXPECT_EQ(std::string(found.pixels.begin(), found.pixels.end()), "abcdefghiabc");
  // Data in several chunks, one of which is empty; optional chunks.
  std::string data = deflated(lines);
  std::string parts = header(2, 2, 8, gray) + chunk("gAMA", bigEndian(100000)) +
                      chunk("IDAT", data.substr(0, 3)) + chunk("IDAT", "") +
                      chunk("IDAT", data.substr(3)) + chunk("tEXt", "a") + end;
  EXPECT_EQ(decode(parts, 1).pixels, (Pixels{1, 2, 3, 4}));
  std::string problem;
  Pixels drawn = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  Pixels file = encodePng(drawn, 2, 2, 3, problem);
  EXPECT_EQ(decodePng(file, 2, 2, 3).pixels, drawn);
}

TEST(Png, ReportsSizesOfAnotherImage) {
  DecodedPng other =
      decodePng({reinterpret_cast<const uint8_t *>(image.data()), image.size()}, 3, 2, 1);
  EXPECT_TRUE(other.problem.empty() && other.pixels.empty());
  EXPECT_EQ(other.width, 2);
  DecodedPng clear = decode(
      header(2, 2, 8, gray) + chunk("tRNS", {"\0\1", 2}) + chunk("IDAT", deflated(lines)) + end, 1);
  EXPECT_TRUE(clear.isTransparent && clear.pixels.empty());
}

TEST(Png, RejectsDamage) {
  const std::string start = header(2, 2, 8, gray), data = deflated(lines);
  const std::string whole = start + chunk("IDAT", data);
  auto broken = [](std::string text) {
    text.back() = char(text.back() ^ 1);
    return text;
  };
  const std::pair<const char *, std::string> files[] = {
      {"no end", whole},
      {"an end of another checksum", broken(image)},
      {"an end with data", whole + chunk("IEND", "x")},
      {"a byte after the end", image + "\n"},
      {"a second image", image + image},
      {"a chunk after the end", image + chunk("tEXt", "a") + chunk("IDAT", data)},
      {"bytes after the data, in its chunk", start + chunk("IDAT", data + "x") + end},
      {"bytes after the data, in another chunk", whole + chunk("IDAT", "x") + end},
      {"the data twice", whole + chunk("IDAT", data) + end},
      {"a chunk between data", start + chunk("IDAT", data.substr(0, 3)) + chunk("tEXt", "a") +
                                   chunk("IDAT", data.substr(3)) + end},
      {"a third line", start + chunk("IDAT", deflated(lines + lines.substr(0, 3))) + end},
      {"a line too few", start + chunk("IDAT", deflated(lines.substr(0, 3))) + end},
      {"pixels of another checksum", start + chunk("IDAT", broken(data)) + end},
      {"data without their end", start + chunk("IDAT", data.substr(0, data.size() - 2)) + end},
      {"data of another checksum", start + broken(chunk("IDAT", data)) + end},
      {"no data", start + end},
      {"an unknown chunk that must be read", start + chunk("IDAX", "") + chunk("IDAT", data) + end},
      {"a filter that is none", start + chunk("IDAT", deflated("\x09" + lines.substr(1))) + end},
      {"two headers", start + start.substr(8) + chunk("IDAT", data) + end},
  };
  for (const auto &[name, file] : files) {
    DecodedPng found = decode(file, 1);
    EXPECT_NE(found.problem, "") << name;
  }
  for (size_t size = 8; size < image.size(); ++size) {
    EXPECT_NE(decode(image.substr(0, size), 1).problem, "") << size;
  }
  std::string colors = header(2, 2, 2, palette);
  EXPECT_NE(decode(colors + chunk("IDAT", deflated({"\0\x10\0\x80", 4})) + end, 3).problem, "");
  EXPECT_EQ(
      decode(colors + chunk("PLTE", "abcdef") + chunk("IDAT", deflated({"\0\x10\0\x80", 4})) + end,
             3)
          .problem,
      "a color that its palette lacks");
}

} // namespace
