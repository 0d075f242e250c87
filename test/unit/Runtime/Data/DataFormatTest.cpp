// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Formats recognized by a file's structure, and compressed text.
#include "Fixture.h"

#include "Data/DataFormat.h"

#include "sluice/Support/Error.h"

#include <zlib.h>
#include <zstd.h>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;
using namespace std::literals;

namespace {

FileContents makeContents(std::string_view text) {
  return std::vector<uint8_t>(text.begin(), text.end());
}

std::string findFormatName(std::string_view text) {
  std::optional<DataFormat> format = findFormat(makeContents(text));
  return format ? format->name : "none";
}

std::string gzip(const std::string &text) {
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(text.data()));
  stream.avail_in = static_cast<unsigned>(text.size());
  stream.next_out = reinterpret_cast<Bytef *>(packed.data());
  stream.avail_out = static_cast<unsigned>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string zstd(const std::string &text) {
  ZSTD_CCtx *context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return packed;
}

struct Packer {
  Compression compression;
  std::string (*pack)(const std::string &);
};
constexpr Packer packers[] = {{Compression::Gzip, gzip}, {Compression::Zstd, zstd}};

/// Returns the decompressed text.
std::string unpack(const std::string &packed, Compression compression, int64_t *members = nullptr,
                   const GrowthLimit &limit = {}) {
  TemporaryFile into({});
  int64_t count = decompress(makeContents(packed), compression, "text.packed", into, limit);
  if (members) {
    *members = count;
  }
  std::vector<uint8_t> bytes = into.finish("text").readAll();
  return {bytes.begin(), bytes.end()};
}

/// A tar header of one file.
std::string tarHeader() {
  std::string block(512, '\0');
  block.replace(0, 5, "a.txt");
  block.replace(257, 5, "ustar");
  unsigned sum = 8 * ' ';
  for (char c : block) {
    sum += static_cast<unsigned char>(c);
  }
  block.replace(148, 8,
                {static_cast<char>('0' + (sum >> 9 & 7)), static_cast<char>('0' + (sum >> 6 & 7)),
                 static_cast<char>('0' + (sum >> 3 & 7)), static_cast<char>('0' + (sum & 7)), '\0',
                 ' ', '\0', '\0'});
  return block;
}

/// A zstd frame of one raw block, "hello", after these bytes of its header.
std::string makeFrame(const std::string &header) {
  return "\x28\xb5\x2f\xfd" + header + "\x29\0\0hello"s;
}

/// A zstd frame that holds no data.
std::string makeSkippableFrame(char kind, size_t size) {
  return static_cast<char>('P' + kind) + "\x2a\x4d\x18"s + static_cast<char>(size) + "\0\0\0"s +
         std::string(size, 'x');
}

std::string makeZip(const std::string &comment) {
  std::string local = "PK\3\4"s + std::string(22, '\0') + "\1\0\0\0"s + "a" + "hello";
  std::string central = "PK\1\2"s + std::string(42, '\0') + "a";
  auto number = [](size_t value, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) {
      text += static_cast<char>(value >> 8 * i & 255);
    }
    return text;
  };
  return local + central + "PK\5\6"s + std::string(4, '\0') + number(1, 2) + number(1, 2) +
         number(central.size(), 4) + number(local.size(), 4) + number(comment.size(), 2) + comment;
}

TEST(DataFormat, VerifiedStructures) {
  std::string npyHeader = "{'descr': '<u2', 'fortran_order': False, 'shape': (4,), }";
  std::string npy = "\x93NUMPY\x01\x00"s + char(npyHeader.size()) + '\0' + npyHeader;
  EXPECT_EQ(findFormatName(npy + "12345678"), "a NumPy array (.npy)");
  EXPECT_EQ(findFormatName(npy.substr(0, 40)), "none"); // its header is truncated
  std::string parquet = "PAR1" + std::string(50, 'x') + "\x0a\0\0\0"s + "PAR1";
  EXPECT_EQ(findFormatName(parquet), "a Parquet file");
  EXPECT_EQ(findFormatName("PAR1" + std::string(50, 'x') + "\xff\0\0\0"s + "PAR1"), "none");
  EXPECT_EQ(findFormatName("PAR1 is the name of a format"), "none");
  EXPECT_NE(findFormatName(makeZip("")).find("a ZIP archive"), std::string::npos);
  EXPECT_NE(findFormatName(makeZip("a comment")).find("a ZIP archive"), std::string::npos);
  EXPECT_EQ(findFormatName(makeZip("").substr(0, 60)), "none");
  EXPECT_EQ(findFormatName(makeZip("") + "?"), "none");
  EXPECT_EQ(findFormatName("#!/bin/sh\nexit\n" + makeZip("")), "a ZIP archive");
  std::string empty = "PK\5\6" + std::string(18, '\0');
  EXPECT_EQ(findFormatName(empty), "a ZIP archive");
  EXPECT_EQ(findFormatName("a text" + empty), "none"); // and no directory
  std::string locator = "PK\6\7" + std::string(16, '\0'), end = "PK\5\6" + std::string(8, '\xff');
  EXPECT_EQ(findFormatName("PK\3\4" + locator + end + std::string(10, '\0')), "a ZIP archive");
  EXPECT_NE(findFormatName(bigramLibrary()).find("ELF"), std::string::npos);
  EXPECT_EQ(findFormatName("\x7f"
                           "ELF and more text, as much as a header has"),
            "none");
  EXPECT_EQ(findFormatName("\xff\xfe"
                           "a\0b\0"s),
            "text in UTF-16");
  EXPECT_EQ(findFormatName("\xfe\xff\0a\0b"s), "text in UTF-16");
  EXPECT_EQ(findFormatName("\xff\xfe"
                           "a\0b"s),
            "text in UTF-16"); // and half a character
  EXPECT_EQ(findFormatName("\xff\xfe"
                           "ASCII text"),
            "none");
  EXPECT_EQ(findFormatName("\xff\xfe\x00\xd8"
                           "a\0"s),
            "none"); // half a pair
  EXPECT_EQ(findFormatName("\xff\xfe\0\0a\0\0\0"s), "text in UTF-32");
  std::string tar = tarHeader();
  EXPECT_EQ(findFormatName(tar + std::string(512, 'x')), "a tar archive");
  EXPECT_EQ(findFormatName(tar + std::string(99, 'x')), "a tar archive"); // truncated
  tar[0] = 'b';                                                           // another checksum
  EXPECT_EQ(findFormatName(tar + std::string(512, 'x')), "none");
  EXPECT_EQ(findFormatName("SQLite format 3\0\x10\0"s + std::string(100, 'x')),
            "an SQLite database");
  EXPECT_EQ(findFormatName("BZh91AY&SY\1\2\3\4"), "bzip2 data");
  EXPECT_EQ(findFormatName("BZh9\x17\x72\x45\x38\x50\x90\0\0\0\0"s), "bzip2 data"); // of nothing
  EXPECT_EQ(findFormatName("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n"),
            "a Git LFS pointer, which only names the file");
  EXPECT_EQ(
      findFormatName(
          "\x40\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}"s +
          std::string(40, ' ')),
      "tensors (safetensors)");
  for (const Packer &packer : packers) {
    std::optional<DataFormat> format = findFormat(makeContents(packer.pack(easyText(100))));
    ASSERT_TRUE(format);
    EXPECT_EQ(format->compression, packer.compression);
    EXPECT_TRUE(findFormat(makeContents(packer.pack("")))); // of nothing
    EXPECT_FALSE(findFormat(makeContents(packer.pack(easyText(100)).substr(0, 4) + easyText(100))));
  }
}

TEST(DataFormat, TextHasNoFormat) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes += static_cast<char>(i);
  }
  for (const std::string &text :
       {""s, "P"s, "PK"s, "\x1f\x8b"s, "\x1f\x8b\x08\0"s, easyText(3000), std::string(5000, '\0'),
        bytes, "{\"a\": 1}\n{\"a\": 2}\n"s, "<!DOCTYPE html><html></html>"s,
        "\xef\xbb\xbf"
        "text"s,
        "%PDF-1.4 is how such files begin"s, "BZh91AY&SY is the start of a block"s,
        "7z\xbc\xaf\x27\x1c and more bytes than a header"s}) {
    EXPECT_EQ(findFormatName(text), "none") << text.substr(0, 40);
  }
}

TEST(DataFormat, NotesDataUnlikeText) {
  auto notes = [](std::string_view text, int64_t vocabulary = 256) {
    std::string all;
    for (const std::string &note : describeOddities(makeContents(text), vocabulary, "F")) {
      all += note + "\n";
    }
    return all;
  };
  EXPECT_EQ(notes(easyText(3000)), "");
  EXPECT_EQ(notes(""), "");
  EXPECT_NE(
      notes("{\"text\": \"a\"}\n{\"text\": \"b\"}\n").find("F has a JSON object in each line"),
      std::string::npos);
  EXPECT_EQ(notes("{\"text\": \"a\"}\n{\"text\": b}\n"), "");
  EXPECT_EQ(notes("{\"text\": \"a\"}\n"), ""); // one object may be a text by itself
  EXPECT_NE(notes("\xef\xbb\xbf"
                  "a")
                .find("byte order mark"),
            std::string::npos);
  EXPECT_NE(notes(std::string(100, '\0') + easyText(900)).find("F has 10% zero bytes"),
            std::string::npos);
  EXPECT_EQ(notes(std::string(100, '\0') + easyText(900), 128), ""); // ids of another kind
  for (const auto &[start, kind] : std::initializer_list<std::pair<std::string, std::string>>{
           {"\x1f\x8b\x08\1 and text", "gzip data"},
           {"\x28\xb5\x2f\xfd and text", "zstd data"},
           {"PK\3\4 and text", "a ZIP archive"},
           {"\x93NUMPY\1 and text", "a NumPy array (.npy)"},
           {"PAR1\1 and text", "a Parquet file"},
           {"\xff\xd8\xff and text", "a JPEG image"}}) {
    EXPECT_EQ(notes(start), "note: F looks like " + kind +
                                ", whose structure could not be verified; its own bytes are "
                                "read\n");
  }
  EXPECT_EQ(notes("PAR1 and text"), "");
}

/// Damage after the header leaves a compressed file, which is then an error.
TEST(DataFormat, DamagedFormatIsNotText) {
  std::string text = easyText(3000);
  for (const Packer &packer : packers) {
    std::string packed = packer.pack(text);
    for (size_t at : {size_t(20), size_t(40), packed.size() / 2}) {
      std::string damaged = packed;
      damaged.replace(at, 8, 8, '\xff');
      std::optional<DataFormat> format = findFormat(makeContents(damaged));
      ASSERT_TRUE(format) << at;
      EXPECT_EQ(format->compression, packer.compression);
      EXPECT_NE(userError([&] { unpack(damaged, packer.compression); }).find("expected whole "),
                std::string::npos);
    }
  }
}

TEST(Decompress, ReadsAllMembers) {
  std::string text = easyText(200'000);
  for (const Packer &packer : packers) {
    int64_t members = 0;
    EXPECT_EQ(unpack(packer.pack(text), packer.compression, &members), text);
    EXPECT_EQ(members, 1);
    EXPECT_EQ(unpack(packer.pack(text) + packer.pack("") + packer.pack("more"), packer.compression,
                     &members),
              text + "more");
    EXPECT_EQ(members, 3);
    // Compresses so well that few bytes give much output.
    std::string same(5'000'000, 'a');
    EXPECT_EQ(unpack(packer.pack(same), packer.compression), same);
  }
}

TEST(Decompress, SkippableFramesHoldNoData) {
  std::string first = zstd(easyText(100)), second = zstd("more"),
              skipped = makeSkippableFrame(3, 99);
  for (const std::string &packed :
       {skipped + first + second, first + skipped + makeSkippableFrame(15, 0) + second,
        first + second + skipped}) {
    EXPECT_EQ(findCompression(makeContents(packed)), Compression::Zstd);
    int64_t members = 0;
    EXPECT_EQ(unpack(packed, Compression::Zstd, &members), easyText(100) + "more");
    EXPECT_EQ(members, 2);
    EXPECT_EQ(findFormatName(packed), "zstd data");
  }
  EXPECT_EQ(findFormatName(skipped + easyText(100)), "none");
  std::string cut = first + skipped.substr(0, 50);
  EXPECT_NE(userError([&] { unpack(cut, Compression::Zstd); }).find("found the end of the file"),
            std::string::npos);
}

TEST(Decompress, AcceptsZeroPaddingOfGzip) {
  std::string first = gzip(easyText(100)), zeros(512, '\0');
  EXPECT_EQ(unpack(first + zeros + gzip("more") + zeros, Compression::Gzip),
            easyText(100) + "more");
  EXPECT_NE(userError([&] {
              unpack(first + zeros + "text", Compression::Gzip);
            }).find("found 4 other bytes after them"),
            std::string::npos);
  EXPECT_NE(userError([&] {
              unpack(zstd("text") + zeros, Compression::Zstd);
            }).find("found 512 other bytes after them"),
            std::string::npos);
}

TEST(Decompress, RejectsUnsupportedZstdFeatures) {
  EXPECT_EQ(unpack(makeFrame("\x20\5"), Compression::Zstd), "hello");
  std::string wide = makeFrame("\0\x90"s), dictionary = makeFrame("\x21\7\5");
  for (const auto &[packed, what] :
       {std::pair{wide, "found data that need a window of more than 128 MiB (zstd --long); unpack "
                        "the file yourself (zstd -d --long=31)"},
        std::pair{dictionary, "found data that need a dictionary; "}}) {
    EXPECT_EQ(findFormatName(packed), "zstd data");
    std::string message = userError([&] { unpack(packed, Compression::Zstd); });
    EXPECT_NE(message.find(what), std::string::npos) << message;
  }
}

TEST(Decompress, RejectsEveryTruncation) {
  for (const Packer &packer : packers) {
    std::string packed = packer.pack(easyText(300));
    for (size_t size = 4; size < packed.size(); ++size) {
      std::string message = userError([&] { unpack(packed.substr(0, size), packer.compression); });
      EXPECT_NE(message.find("text.packed: expected whole "), std::string::npos) << size;
      EXPECT_NE(message.find("found the end of the file inside of one"), std::string::npos)
          << size << ": " << message;
    }
    EXPECT_NE(userError([&] {
                unpack(packed + packed.substr(0, packed.size() / 2), packer.compression);
              }).find("found the end of the file"),
              std::string::npos);
  }
}

/// A changed byte is detected, or does not affect the text, such as the time in gzip's header.
TEST(Decompress, DamageNeverGivesDifferentText) {
  std::string text = easyText(300);
  for (const Packer &packer : packers) {
    std::string packed = packer.pack(text);
    int found = 0;
    for (size_t i = 0; i < packed.size(); ++i) {
      for (int bit : {1, 0x40}) {
        std::string damaged = packed;
        damaged[i] = static_cast<char>(damaged[i] ^ bit);
        try {
          EXPECT_EQ(unpack(damaged, packer.compression), text) << i;
        } catch (const UserError &) {
          ++found;
        }
      }
    }
    EXPECT_GT(found, static_cast<int>(2 * packed.size()) - 20);
  }
}

TEST(Decompress, RejectsTrailingBytes) {
  for (const Packer &packer : packers) {
    std::string packed = packer.pack(easyText(300)), all = packed + "garbage";
    std::string message = userError([&] { unpack(all, packer.compression); });
    EXPECT_NE(message.find("found 7 other bytes after them, from byte " +
                           std::to_string(packed.size()) + " on"),
              std::string::npos)
        << message;
  }
}

TEST(Decompress, RejectsDecompressionBombs) {
  GrowthLimit limit{100'000, 50};
  for (const Packer &packer : packers) {
    std::string small(90'000, 'a'), huge(5'000'000, 'a');
    EXPECT_EQ(unpack(packer.pack(small), packer.compression, nullptr, limit), small);
    std::string message =
        userError([&] { unpack(packer.pack(huge), packer.compression, nullptr, limit); });
    EXPECT_NE(message.find("which no text compresses to"), std::string::npos) << message;
  }
}

} // namespace
