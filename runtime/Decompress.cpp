// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Decompress.h"

#include "sluice/Runtime/Error.h"
#include "sluice/Runtime/Text.h"

#include <array>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

namespace sluice::runtime {
namespace {

/// One call of a decompressor.
struct Step {
  size_t taken = 0, given = 0; ///< bytes of the input and of the output
  bool isEnd = false;          ///< of a member or a frame
  std::string error;           ///< empty: none
};

class Decompressor {
public:
  Decompressor() = default;
  Decompressor(const Decompressor &) = delete;
  Decompressor &operator=(const Decompressor &) = delete;
  virtual ~Decompressor() = default;
  virtual Step run(std::span<const uint8_t> from, std::span<uint8_t> into) = 0;
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
  Step run(std::span<const uint8_t> from, std::span<uint8_t> into) override {
    stream.next_in = const_cast<uint8_t *>(from.data()); // zlib does not write there
    stream.avail_in = static_cast<unsigned>(from.size());
    stream.next_out = into.data();
    stream.avail_out = static_cast<unsigned>(into.size());
    int result = inflate(&stream, Z_NO_FLUSH);
    Step step{from.size() - stream.avail_in, into.size() - stream.avail_out, result == Z_STREAM_END,
              ""};
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
  Step run(std::span<const uint8_t> from, std::span<uint8_t> into) override {
    ZSTD_inBuffer in{from.data(), from.size(), 0};
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    size_t result = ZSTD_decompressStream(stream, &out, &in);
    Step step{in.pos, out.pos, result == 0, ""};
    if (ZSTD_isError(result)) {
      step.error = ZSTD_getErrorName(result);
      if (ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge) {
        step.error += "; it was compressed with --long";
      }
    }
    return step;
  }
  void restart() override { ZSTD_DCtx_reset(stream, ZSTD_reset_session_only); }

private:
  ZSTD_DStream *stream;
};

std::unique_ptr<Decompressor> makeDecompressor(Compression compression) {
  if (compression == Compression::Gzip) {
    return std::make_unique<Gzip>();
  }
  return std::make_unique<Zstd>();
}

} // namespace

bool hasHeader(std::span<const uint8_t> bytes, Compression compression) {
  if (compression == Compression::Gzip) { // RFC 1952: deflate, and reserved flags of 0
    return bytes.size() >= 4 && bytes[0] == 0x1f && bytes[1] == 0x8b && bytes[2] == 8 &&
           (bytes[3] & 0xe0) == 0;
  }
  return bytes.size() >= 4 && bytes[0] == 0x28 && bytes[1] == 0xb5 && bytes[2] == 0x2f &&
         bytes[3] == 0xfd;
}

namespace {

/// The state of reading one file.
class Reading {
public:
  Reading(const FileContents &packed, Compression compression, const Path &path,
          TemporaryFile &into, const GrowthLimit &limit)
      : packed(packed), path(path), into(into), limit(limit), compression(compression),
        decompressor(makeDecompressor(compression)), text(FileContents::pieceBytes) {}

  void add(size_t start, std::span<const uint8_t> some) {
    for (size_t taken = 0; taken < some.size() || isFull;) {
      if (isBetween) {
        startMember(start + taken);
      }
      Step step = decompressor->run(some.subspan(taken), text);
      if (!step.error.empty()) {
        fail("found damage near byte " + std::to_string(start + taken + step.taken) + " (" +
             step.error + "); get the file again, or unpack what is whole of it yourself");
      }
      taken += step.taken;
      isFull = step.given == text.size() && !step.isEnd;
      into.write(std::span(text).first(step.given));
      checkGrowth();
      if (step.isEnd) {
        isBetween = true;
        ++members;
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
    throw UserError(showPath(path.native()) + ": expected whole " +
                    (compression == Compression::Gzip ? "gzip" : "zstd") + " data, " + found +
                    ", or give --raw to read the file's own bytes");
  }

  void startMember(size_t at) {
    if (members > 0) {
      if (!hasHeader(packed.read(at, 4), compression)) {
        fail("found " + std::to_string(packed.size() - at) + " other bytes after them, from byte " +
             std::to_string(at) + " on; unpack the file yourself");
      }
      decompressor->restart();
    }
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
  bool isBetween = true; // members
  bool isFull = false;   // `text` was: more may come without input
  int64_t members = 0;
};

} // namespace

Compression findCompression(std::span<const uint8_t> head) {
  for (Compression compression : {Compression::Gzip, Compression::Zstd}) {
    if (!hasHeader(head, compression)) {
      continue;
    }
    std::array<uint8_t, 4096> some;
    std::unique_ptr<Decompressor> decompressor = makeDecompressor(compression);
    size_t taken = 0;
    while (taken < head.size()) {
      Step step = decompressor->run(head.subspan(taken), some);
      taken += step.taken;
      if (!step.error.empty()) {
        break;
      }
      if (step.given > 0 || step.isEnd) {
        return compression;
      }
      if (step.taken == 0) {
        break;
      }
    }
  }
  return Compression::None;
}

int64_t decompress(const FileContents &packed, Compression compression, const Path &path,
                   TemporaryFile &into, const GrowthLimit &limit) {
  Reading reading(packed, compression, path, into, limit);
  packed.forEachPiece(
      [&](size_t start, std::span<const uint8_t> some) { reading.add(start, some); });
  return reading.finish();
}

} // namespace sluice::runtime
