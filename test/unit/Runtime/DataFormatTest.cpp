// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Formats that a file's structure verifies, and compressed text.
#include "Fixture.h"

#include "DataFormat.h"

#include "sluice/Runtime/Error.h"

#include <zlib.h>
#include <zstd.h>

using namespace sluice::runtime;
using namespace sluice::test;
using namespace std::literals;

namespace {

FileContents contentsOf(std::string_view text) {
  return std::vector<uint8_t>(text.begin(), text.end());
}

std::string formatOf(std::string_view text) {
  std::optional<DataFormat> format = findFormat(contentsOf(text));
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

/// What the text decompresses to.
std::string unpack(const std::string &packed, Compression compression, int64_t *members = nullptr,
                   const GrowthLimit &limit = {}) {
  TemporaryFile into({});
  int64_t count = decompress(contentsOf(packed), compression, "text.packed", into, limit);
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

std::string zipOf(const std::string &comment) {
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
  EXPECT_EQ(formatOf(npy + "12345678"), "a NumPy array (.npy)");
  EXPECT_EQ(formatOf(npy.substr(0, 40)), "none"); // its header is cut
  std::string parquet = "PAR1" + std::string(50, 'x') + "\x0a\0\0\0"s + "PAR1";
  EXPECT_EQ(formatOf(parquet), "a Parquet file");
  EXPECT_EQ(formatOf("PAR1" + std::string(50, 'x') + "\xff\0\0\0"s + "PAR1"), "none");
  EXPECT_EQ(formatOf("PAR1 is the name of a format"), "none");
  EXPECT_NE(formatOf(zipOf("")).find("a ZIP archive"), std::string::npos);
  EXPECT_NE(formatOf(zipOf("a comment")).find("a ZIP archive"), std::string::npos);
  EXPECT_EQ(formatOf(zipOf("").substr(0, 60)), "none");
  EXPECT_EQ(formatOf(zipOf("") + "?"), "none");
  EXPECT_NE(formatOf(bigramLibrary()).find("ELF"), std::string::npos);
  EXPECT_EQ(formatOf("\x7f"
                     "ELF and more text, as much as a header has"),
            "none");
  EXPECT_EQ(formatOf("\xff\xfe"
                     "a\0b\0"s),
            "text in UTF-16");
  EXPECT_EQ(formatOf("\xfe\xff\0a\0b"s), "text in UTF-16");
  EXPECT_EQ(formatOf("\xff\xfe"
                     "a\0b"s),
            "none"); // an odd number of bytes
  EXPECT_EQ(formatOf("\xff\xfe\0\0a\0\0\0"s), "text in UTF-32");
  std::string tar = tarHeader();
  EXPECT_EQ(formatOf(tar + std::string(512, 'x')), "a tar archive");
  tar[0] = 'b'; // another checksum
  EXPECT_EQ(formatOf(tar + std::string(512, 'x')), "none");
  EXPECT_EQ(formatOf("SQLite format 3\0\x10\0"s + std::string(100, 'x')), "an SQLite database");
  EXPECT_EQ(formatOf("BZh91AY&SY1234"), "bzip2 data");
  EXPECT_EQ(formatOf("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n"),
            "a pointer of Git LFS to the file");
  EXPECT_EQ(
      formatOf(
          "\x40\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}"s +
          std::string(40, ' ')),
      "tensors (safetensors)");
  for (const Packer &packer : packers) {
    std::optional<DataFormat> format = findFormat(contentsOf(packer.pack(easyText(100))));
    ASSERT_TRUE(format);
    EXPECT_EQ(format->compression, packer.compression);
    EXPECT_TRUE(findFormat(contentsOf(packer.pack("")))); // of nothing
    EXPECT_FALSE(findFormat(contentsOf(packer.pack(easyText(100)).substr(0, 4) + easyText(100))));
  }
}

TEST(DataFormat, TextHasNone) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes += static_cast<char>(i);
  }
  for (const std::string &text :
       {""s, "P"s, "PK"s, "\x1f\x8b"s, "\x1f\x8b\x08\0"s, easyText(3000), std::string(5000, '\0'),
        bytes, "{\"a\": 1}\n{\"a\": 2}\n"s, "<!DOCTYPE html><html></html>"s,
        "\xef\xbb\xbf"
        "text"s,
        "%PDF-1.4 is how such files begin"s, "7z\xbc\xaf\x27\x1c and more bytes than a header"s}) {
    EXPECT_EQ(formatOf(text), "none") << text.substr(0, 40);
  }
}

TEST(DataFormat, NotesOnWhatLooksUnlikeText) {
  auto notes = [](std::string_view text, int64_t vocabulary = 256) {
    std::string all;
    for (const std::string &note : describeOddities(contentsOf(text), vocabulary, "F")) {
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
  EXPECT_NE(notes("\x1f\x8b\x08\0 and text"s).find("does not decompress"), std::string::npos);
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
    // Compresses so well that much output comes of few bytes.
    std::string same(5'000'000, 'a');
    EXPECT_EQ(unpack(packer.pack(same), packer.compression), same);
  }
}

TEST(Decompress, EveryCutIsAnError) {
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

/// A changed byte is found, or is one of the few that say nothing of the text, such as the time in
/// gzip's header.
TEST(Decompress, NoDamageGivesAnotherText) {
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

TEST(Decompress, OtherBytesAfterTheEndAreAnError) {
  for (const Packer &packer : packers) {
    std::string packed = packer.pack(easyText(300)), all = packed + "garbage";
    std::string message = userError([&] { unpack(all, packer.compression); });
    EXPECT_NE(message.find("found 7 other bytes after them, from byte " +
                           std::to_string(packed.size()) + " on"),
              std::string::npos)
        << message;
  }
}

TEST(Decompress, AResultOfManyTimesTheSizeIsAnError) {
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
