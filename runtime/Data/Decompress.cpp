// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Decompress.h"

#include "sluice/Runtime/Data/ByteFiles.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

namespace sluice::runtime {
namespace {

/// The result of one call of a decompressor.
struct InflateStep {
  size_t taken = 0, given = 0; ///< bytes of the input and of the output
  bool isEnd = false;          ///< end of a member or a frame
  std::string error = {};      ///< empty: none
  std::string remedy = {};     ///< for intact data that exceed the limits of this program
};

class Decompressor {
public:
  Decompressor() = default;
  Decompressor(const Decompressor &) = delete;
  Decompressor &operator=(const Decompressor &) = delete;
  virtual ~Decompressor() = default;
  virtual InflateStep run(std::span<const uint8_t> from, std::span<uint8_t> into) = 0;
  /// Prepares for the next member.
  virtual void restart() = 0;
};

class Gzip : public Decompressor {
public:
  Gzip() {
    constexpr int largestWindow = 15, gzipAlone = 16;
    if (inflateInit2(&stream, largestWindow + gzipAlone) != Z_OK) {
      throw JobError("cannot decompress: out of memory; free memory");
    }
  }
  ~Gzip() override { inflateEnd(&stream); }
  InflateStep run(std::span<const uint8_t> from, std::span<uint8_t> into) override {
    stream.next_in = const_cast<uint8_t *>(from.data()); // zlib does not write to its input
    stream.avail_in = static_cast<unsigned>(from.size());
    stream.next_out = into.data();
    stream.avail_out = static_cast<unsigned>(into.size());
    int result = inflate(&stream, Z_NO_FLUSH);
    InflateStep step{from.size() - stream.avail_in, into.size() - stream.avail_out,
                     result == Z_STREAM_END};
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      step.error = stream.msg ? stream.msg : "the data are not valid";
    }
    return step;
  }
  void restart() override { inflateReset(&stream); }

private:
  z_stream stream = {};
};

class Zstd : public Decompressor {
public:
  Zstd() : stream(ZSTD_createDStream()) {
    if (!stream) {
      throw JobError("cannot decompress: out of memory; free memory");
    }
  }
  ~Zstd() override { ZSTD_freeDStream(stream); }
  InflateStep run(std::span<const uint8_t> from, std::span<uint8_t> into) override {
    ZSTD_inBuffer in{from.data(), from.size(), 0};
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    size_t result = ZSTD_decompressStream(stream, &out, &in);
    InflateStep step{in.pos, out.pos, result == 0};
    if (ZSTD_isError(result)) {
      step.error = ZSTD_getErrorName(result);
      if (ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge) {
        step.error = "a window of more than 128 MiB (zstd --long)";
        step.remedy = "unpack the file yourself (zstd -d --long=31)";
      } else if (ZSTD_getErrorCode(result) == ZSTD_error_dictionary_wrong) {
        step.error = "a dictionary";
        step.remedy = "unpack the file yourself (zstd -d -D DICTIONARY)";
      }
    }
    return step;
  }
  void restart() override { ZSTD_DCtx_reset(stream, ZSTD_reset_session_only); }

private:
  ZSTD_DStream *stream;
};

std::unique_ptr<Decompressor> createDecompressor(Compression compression) {
  if (compression == Compression::Gzip) {
    return std::make_unique<Gzip>();
  }
  return std::make_unique<Zstd>();
}

/// Size of the longest header of a zstd frame with the header of its first block, and of the fixed
/// part of a gzip member's header.
constexpr size_t headerBytes = 18;

/// Returns a little-endian integer.
uint64_t readInteger(std::span<const uint8_t> bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;) {
    value = value << 8 | bytes[at + i];
  }
  return value;
}

/// Checks for the first bytes of a gzip member: deflate, and reserved flags of 0 (RFC 1952).
bool beginsGzipMember(std::span<const uint8_t> bytes) {
  return bytes.size() >= 4 && bytes[0] == 0x1f && bytes[1] == 0x8b && bytes[2] == 8 &&
         (bytes[3] & 0xe0) == 0;
}

/// Checks the rest of a member's header: few values of the extra flags and the operating system
/// exist.
bool isGzipHeader(std::span<const uint8_t> bytes) {
  return beginsGzipMember(bytes) && bytes.size() >= 10 &&
         (bytes[8] == 0 || bytes[8] == 2 || bytes[8] == 4 || bytes[9] < 0x20 || bytes[9] == 0xff);
}

bool beginsZstdFrame(std::span<const uint8_t> bytes) {
  return bytes.size() >= 4 && readInteger(bytes, 0, 4) == 0xfd2fb528;
}

/// Checks for the header of a frame without data (RFC 8878, 3.1.2).
bool isSkippableFrame(std::span<const uint8_t> bytes) {
  return bytes.size() >= 8 && (readInteger(bytes, 0, 4) & 0xfffffff0) == 0x184d2a50;
}

/// Checks for the header of a frame with data and the header of its first block (RFC 8878, 3.1.1).
bool isZstdHeader(std::span<const uint8_t> bytes) {
  if (!beginsZstdFrame(bytes) || bytes.size() < 5) {
    return false;
  }
  constexpr size_t dictionaryBytes[] = {0, 1, 2, 4}, mostBlockBytes = size_t(128) << 10;
  uint8_t descriptor = bytes[4];
  bool isSingleSegment = (descriptor & 0x20) != 0, isReserved = (descriptor & 0x08) != 0;
  size_t sizeField = descriptor >> 6;
  size_t sizeBytes = sizeField == 0 ? (isSingleSegment ? 1 : 0) : size_t(1) << sizeField;
  size_t at = 5 + (isSingleSegment ? 0 : 1) + dictionaryBytes[descriptor & 3] + sizeBytes;
  if (isReserved || bytes.size() < at + 3) {
    return false;
  }
  uint64_t block = readInteger(bytes, at, 3);
  return (block >> 1 & 3) != 3 && block >> 3 <= mostBlockBytes;
}

/// Decompresses one file.
class Reading {
public:
  Reading(const FileContents &packed, Compression compression, const Path &path,
          TemporaryFile &into, const GrowthLimit &limit)
      : packed(packed), path(path), into(into), limit(limit), compression(compression),
        decompressor(createDecompressor(compression)), text(FileContents::pieceBytes) {}

  void add(size_t start, std::span<const uint8_t> some) {
    for (size_t taken = 0; taken < some.size() || isFull;) {
      if (isBetween) {
        taken += countPadding(some.subspan(taken));
        if (taken == some.size()) {
          return;
        }
        startMember(start + taken);
      }
      InflateStep step = decompressor->run(some.subspan(taken), text);
      if (!step.error.empty()) {
        fail(step.remedy.empty()
                 ? "found damage near byte " + std::to_string(start + taken + step.taken) + " (" +
                       step.error + "); get the file again, or unpack what is whole of it yourself"
                 : "found data that need " + step.error + "; " + step.remedy);
      }
      taken += step.taken;
      isFull = step.given == text.size() && !step.isEnd;
      into.write(std::span(text).first(step.given));
      checkGrowth();
      if (step.isEnd) {
        isBetween = true;
      } else if (step.taken == 0 && step.given == 0) {
        return; // more input is needed
      }
    }
  }

  int64_t finish() {
    if (!isBetween || members == 0) {
      fail("found the end of the file inside of one, after " + std::to_string(into.size()) +
           " decompressed bytes; get the whole file");
    }
    return members;
  }

private:
  [[noreturn]] void fail(const std::string &found) const {
    throw FormatError(showPath(path.native()) + ": expected whole " +
                      (compression == Compression::Gzip ? "gzip" : "zstd") + " data, " + found +
                      ", or give --raw to read the file's own bytes");
  }

  /// Returns the number of zero bytes that pad a gzip file between and after its members, as on
  /// tapes.
  size_t countPadding(std::span<const uint8_t> some) const {
    size_t count = 0;
    while (compression == Compression::Gzip && members > 0 && count < some.size() &&
           some[count] == 0) {
      ++count;
    }
    return count;
  }

  void startMember(size_t at) {
    std::vector<uint8_t> header = packed.read(at, headerBytes);
    bool isGzip = compression == Compression::Gzip;
    bool isSkippable = !isGzip && isSkippableFrame(header);
    if (at > 0) {
      if (!isSkippable && !(isGzip ? beginsGzipMember(header) : beginsZstdFrame(header))) {
        fail("found " + std::to_string(packed.size() - at) + " other bytes after them, from byte " +
             std::to_string(at) + " on; unpack the file yourself");
      }
      decompressor->restart();
    }
    members += isSkippable ? 0 : 1;
    isBetween = false;
  }

  void checkGrowth() const {
    if (into.size() > limit.bytes && into.size() / limit.ratio > packed.size()) {
      fail("found more than " + std::to_string(into.size()) + " bytes in a file of " +
           std::to_string(packed.size()) +
           ", which no text compresses to; unpack the file yourself if that is right");
    }
  }

  const FileContents &packed;
  const Path &path;
  TemporaryFile &into;
  const GrowthLimit &limit;
  Compression compression;
  std::unique_ptr<Decompressor> decompressor;
  std::vector<uint8_t> text;
  bool isBetween = true; // no member is open
  bool isFull = false;   // the last step filled `text`, so more output may follow without input
  int64_t members = 0;   // number of started members, without skippable frames
};

} // namespace

Compression findCompression(const FileContents &contents) {
  constexpr int mostFrames = 1000; // frames without data before the first frame with data
  std::vector<uint8_t> header = contents.read(0, headerBytes);
  if (isGzipHeader(header)) {
    return Compression::Gzip;
  }
  size_t at = 0;
  for (int i = 0; i < mostFrames && isSkippableFrame(header); ++i) {
    at += 8 + readInteger(header, 4, 4);
    header = contents.read(at, headerBytes);
  }
  return isZstdHeader(header) ? Compression::Zstd : Compression::None;
}

int64_t decompress(const FileContents &packed, Compression compression, const Path &path,
                   TemporaryFile &into, const GrowthLimit &limit) {
  Reading reading(packed, compression, path, into, limit);
  packed.forEachPiece(
      [&](size_t start, std::span<const uint8_t> some) { reading.add(start, some); });
  return reading.finish();
}

} // namespace sluice::runtime
