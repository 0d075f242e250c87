// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "DataFormat.h"

#include "sluice/Runtime/Format.h"
#include "sluice/Runtime/NpyHeader.h"

#include <nlohmann/json.hpp>
#include <zlib.h>

#include <algorithm>
#include <string_view>

namespace sluice::runtime {
namespace {

using namespace std::literals;

/// zstd decompresses a block of up to 128 KiB at once.
constexpr size_t headBytes = size_t(256) << 10;

/// The start of a file and its size. Integers are little-endian where nothing else is said.
struct Probe {
  const FileContents &contents;
  std::vector<uint8_t> head;

  size_t size() const { return contents.size(); }
  static std::string_view asText(const std::vector<uint8_t> &bytes) {
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
  }
  bool starts(std::string_view with) const { return asText(head).starts_with(with); }
  bool has(size_t at, std::string_view text) const {
    return asText(head).substr(std::min(at, head.size())).starts_with(text);
  }
  bool ends(std::string_view with) const {
    return size() >= with.size() &&
           asText(contents.read(size() - with.size(), with.size())) == with;
  }
  static uint64_t integer(std::span<const uint8_t> bytes) {
    uint64_t value = 0;
    for (size_t i = bytes.size(); i-- > 0;) {
      value = value << 8 | bytes[i];
    }
    return value;
  }
  /// Of the head; 0 past its end.
  uint64_t integer(size_t at, size_t count) const {
    return at + count > head.size() ? 0 : integer(std::span(head).subspan(at, count));
  }
};

bool isParquet(const Probe &probe) {
  constexpr size_t mark = 4;
  for (std::string_view own : {"PAR1"sv, "PARE"sv}) { // PARE: an encrypted footer
    if (probe.size() >= 3 * mark && probe.starts("PAR1") && probe.ends(own)) {
      uint64_t footer = Probe::integer(probe.contents.read(probe.size() - 2 * mark, mark));
      return footer > 0 && footer <= probe.size() - 3 * mark;
    }
  }
  return false;
}

bool isArrow(const Probe &probe) {
  return probe.starts("ARROW1\0\0"sv) && probe.size() >= 20 && probe.ends("ARROW1");
}

bool isNpy(const Probe &probe) {
  NpyHeader header = parseNpyHeader(probe.head);
  return header.problem.empty() && header.start <= probe.size();
}

/// The first entry's header and the record at the end, whose comment ends the file.
bool isZip(const Probe &probe) {
  constexpr size_t record = 22, mostComment = 65535;
  if (!probe.starts("PK\3\4") || probe.size() < record || probe.integer(26, 2) == 0) {
    return false;
  }
  size_t count = std::min(probe.size(), record + mostComment);
  std::vector<uint8_t> tail = probe.contents.read(probe.size() - count, count);
  for (size_t at = tail.size() - record + 1; at-- > 0;) {
    std::span<const uint8_t> rest = std::span(tail).subspan(at);
    if (Probe::asText(tail).substr(at).starts_with("PK\5\6") &&
        record + Probe::integer(rest.subspan(20, 2)) == rest.size()) {
      uint64_t size = Probe::integer(rest.subspan(12, 4)),
               offset = Probe::integer(rest.subspan(16, 4));
      return offset == UINT32_MAX || size + offset <= probe.size() - rest.size();
    }
  }
  return false;
}

bool isElf(const Probe &probe) {
  uint64_t width = probe.integer(4, 1), order = probe.integer(5, 1);
  if (!probe.starts("\x7f"
                    "ELF") ||
      width < 1 || width > 2 || order < 1 || order > 2 || probe.integer(6, 1) != 1) {
    return false;
  }
  size_t at = width == 1 ? 40 : 52; // the size of this header
  uint64_t size = probe.integer(order == 1 ? at : at + 1, 1),
           other = probe.integer(order == 1 ? at + 1 : at, 1);
  return size == (width == 1 ? 52 : 64) && other == 0;
}

bool isTar(const Probe &probe) {
  constexpr size_t block = 512, sum = 148, sumBytes = 8;
  if (probe.size() < block || probe.size() % block != 0 || !probe.has(257, "ustar")) {
    return false;
  }
  uint64_t found = 0, expected = 0;
  for (size_t i = 0; i < block; ++i) {
    found += i >= sum && i < sum + sumBytes ? ' ' : probe.head[i];
  }
  for (size_t i = sum; i < sum + sumBytes && probe.head[i] != 0; ++i) {
    if (probe.head[i] >= '0' && probe.head[i] <= '7') {
      expected = expected * 8 + (probe.head[i] - '0');
    }
  }
  return found == expected;
}

bool isBzip2(const Probe &probe) {
  return probe.starts("BZh") && probe.integer(3, 1) >= '1' && probe.integer(3, 1) <= '9' &&
         probe.has(4, "1AY&SY");
}

uint64_t checksum(const Probe &probe, size_t at, size_t count) {
  return at + count > probe.head.size()
             ? UINT64_MAX
             : crc32(0, probe.head.data() + at, static_cast<unsigned>(count));
}

bool isXz(const Probe &probe) {
  return probe.starts("\xfd"
                      "7zXZ\0"sv) &&
         checksum(probe, 6, 2) == probe.integer(8, 4);
}

bool isSevenZip(const Probe &probe) {
  return probe.starts("7z\xbc\xaf\x27\x1c") && checksum(probe, 12, 20) == probe.integer(8, 4);
}

bool isHdf5(const Probe &probe) {
  return probe.starts("\x89HDF\r\n\x1a\n") && probe.integer(8, 1) <= 3;
}

bool isSqlite(const Probe &probe) {
  uint64_t page = probe.integer(16, 1) << 8 | probe.integer(17, 1); // big-endian; 1 is 65536
  return probe.starts("SQLite format 3\0"sv) &&
         (page == 1 || (page >= 512 && (page & (page - 1)) == 0));
}

bool isPng(const Probe &probe) { return probe.starts("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"sv); }

bool isPdf(const Probe &probe) {
  size_t count = std::min<size_t>(probe.size(), 1024);
  std::vector<uint8_t> tail = probe.contents.read(probe.size() - count, count);
  return (probe.starts("%PDF-1.") || probe.starts("%PDF-2.")) &&
         Probe::asText(tail).find("%%EOF") != std::string_view::npos;
}

bool isSafetensors(const Probe &probe) {
  uint64_t length = probe.integer(0, 8);
  if (length < 2 || length > probe.size() - std::min<size_t>(probe.size(), 8)) {
    return false;
  }
  std::string_view header = Probe::asText(probe.head).substr(8, length);
  return header.starts_with("{\"") && header.find("\"data_offsets\"") != std::string_view::npos;
}

bool isLfsPointer(const Probe &probe) {
  return probe.size() < 1024 && probe.starts("version https://git-lfs.github.com/spec/v1\n") &&
         Probe::asText(probe.head).find("\noid sha256:") != std::string_view::npos;
}

bool isUtf32(const Probe &probe) {
  return probe.size() % 4 == 0 &&
         (probe.starts("\xff\xfe\0\0"sv) || probe.starts("\0\0\xfe\xff"sv));
}

bool isUtf16(const Probe &probe) {
  return probe.size() % 2 == 0 && (probe.starts("\xff\xfe") || probe.starts("\xfe\xff"));
}

struct Known {
  bool (*matches)(const Probe &);
  const char *name, *remedy;
};

constexpr Known known[] = {
    {isParquet, "a Parquet file", "write its column of text to a file of text"},
    {isArrow, "an Arrow file", "write its column of text to a file of text"},
    {isNpy, "a NumPy array (.npy)",
     "write its elements as bytes: array.astype(\"uint8\").tofile(FILE)"},
    {isZip, "a ZIP archive (as .npz, .docx and .pt files are)",
     "unpack it (unzip) and give its text"},
    {isElf, "a compiled program or library (ELF)", "give text"},
    {isTar, "a tar archive", "unpack it (tar -x) and give its texts"},
    {isBzip2, "bzip2 data", "unpack it (bunzip2)"},
    {isXz, "xz data", "unpack it (xz -d)"},
    {isSevenZip, "a 7z archive", "unpack it (7z x) and give its text"},
    {isHdf5, "an HDF5 file", "write its text to a file of text"},
    {isSqlite, "an SQLite database", "write its column of text to a file of text"},
    {isPng, "a PNG image", "give --images WxHxC where the command has it"},
    {isPdf, "a PDF file", "convert it to text (pdftotext)"},
    {isSafetensors, "tensors (safetensors)", "give text"},
    {isLfsPointer, "a pointer of Git LFS to the file", "fetch the file (git lfs pull)"},
    {isUtf32, "text in UTF-32", "convert it: iconv -f UTF-32 -t UTF-8 FILE > TEXT"},
    {isUtf16, "text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE > TEXT"},
};

/// Whether the first lines, at least two unless the file has one alone, are a JSON object each.
bool isJsonLines(const Probe &probe) {
  constexpr int64_t most = 8;
  std::string_view text = Probe::asText(probe.head);
  int64_t lines = 0;
  while (lines < most && !text.empty()) {
    size_t end = text.find('\n');
    if (end == std::string_view::npos && probe.size() > probe.head.size()) {
      break; // the head cuts this line
    }
    std::string_view line = text.substr(0, end);
    if (!line.starts_with("{") || !nlohmann::json::accept(line)) {
      return false;
    }
    ++lines;
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
  return lines >= 2;
}

} // namespace

std::optional<DataFormat> findFormat(const FileContents &contents) {
  Probe probe{contents, contents.read(0, headBytes)};
  switch (Compression compression = findCompression(probe.head)) {
  case Compression::Gzip:
    return DataFormat{"gzip data", "unpack it (gunzip)", compression};
  case Compression::Zstd:
    return DataFormat{"zstd data", "unpack it (unzstd)", compression};
  case Compression::None:
    break;
  }
  for (const Known &format : known) {
    if (format.matches(probe)) {
      return DataFormat{format.name, format.remedy};
    }
  }
  return std::nullopt;
}

std::vector<std::string> describeOddities(const FileContents &contents, int64_t vocabulary,
                                          const std::string &name) {
  Probe probe{contents, contents.read(0, headBytes)};
  std::vector<std::string> notes;
  if (hasHeader(probe.head, Compression::Gzip) || hasHeader(probe.head, Compression::Zstd)) {
    notes.push_back(
        "note: " + name +
        " begins like compressed data, but does not decompress; its own bytes are read");
  }
  if (probe.starts("\xef\xbb\xbf")) {
    notes.push_back("note: " + name +
                    " begins with a byte order mark, whose 3 bytes are tokens too; to leave it "
                    "out: tail -c +4 FILE > TEXT");
  }
  if (isJsonLines(probe)) {
    notes.push_back("note: " + name +
                    " has a JSON object in each line, whose keys and quotes are tokens too; for "
                    "one field alone: jq -r .FIELD FILE > TEXT");
  }
  auto zeros = static_cast<double>(std::ranges::count(probe.head, 0));
  constexpr double many = 0.05;
  if (vocabulary >= 256 && zeros > many * static_cast<double>(probe.head.size())) {
    notes.push_back("note: " + name +
                    format(" has %.0f%% zero bytes among its first %zu; text has none",
                           100 * zeros / static_cast<double>(probe.head.size()),
                           probe.head.size()));
  }
  return notes;
}

} // namespace sluice::runtime
