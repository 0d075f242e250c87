// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "DataFormat.h"

#include "sluice/Runtime/Data/NpyHeader.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Format.h"

#include <nlohmann/json.hpp>
#include <zlib.h>

#include <algorithm>
#include <string_view>

namespace sluice::runtime {
namespace {

using namespace std::literals;

/// Maximum number of bytes that are read at the start of a file.
constexpr size_t headBytes = size_t(256) << 10;

/// The start of a file and its kind. Integers are little-endian unless the format specifies another
/// order.
struct Probe {
  const FileContents &contents;
  std::vector<uint8_t> head;
  FileKind kind;

  explicit Probe(const FileContents &contents)
      : contents(contents), head(contents.read(0, headBytes)) {
    std::vector<uint8_t> tail = contents.read(size() - std::min(size(), mostTail), mostTail);
    kind = recognize(asText(head).substr(0, mostHead), asText(tail), size());
  }
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
  /// Returns an integer of the head; 0 beyond its end.
  uint64_t integer(size_t at, size_t count) const {
    return at + count > head.size() ? 0 : integer(std::span(head).subspan(at, count));
  }
};

bool isParquet(const Probe &probe) {
  constexpr size_t mark = 4;
  if (probe.size() < 3 * mark || !probe.ends(Probe::asText(probe.head).substr(0, mark))) {
    return false;
  }
  uint64_t footer = Probe::integer(probe.contents.read(probe.size() - 2 * mark, mark));
  return footer > 0 && footer <= probe.size() - 3 * mark;
}

bool isArrow(const Probe &probe) { return probe.size() >= 20 && probe.ends("ARROW1"); }

bool isNpy(const Probe &probe) {
  NpyHeader header = parseNpyHeader(probe.head);
  return header.problem.empty() && header.start <= probe.size();
}

/// Checks the record at the end, whose comment ends the file, and the directory before it. The
/// archive may follow other bytes, and its offsets may include them.
bool isZip(const Probe &probe) {
  constexpr size_t record = 22, locator = 20, mostComment = 65535;
  size_t count = std::min(probe.size(), record + mostComment + locator),
         start = probe.size() - count;
  std::vector<uint8_t> tail = probe.contents.read(start, count);
  for (size_t at = tail.size() - std::min(tail.size(), record - 1); at-- > 0;) {
    std::span<const uint8_t> rest = std::span(tail).subspan(at);
    if (!Probe::asText(tail).substr(at).starts_with("PK\5\6") ||
        record + Probe::integer(rest.subspan(20, 2)) != rest.size()) {
      continue;
    }
    if (at >= locator && Probe::asText(tail).substr(at - locator).starts_with("PK\6\7")) {
      return true; // zip64, whose directory is found through other records
    }
    uint64_t size = Probe::integer(rest.subspan(12, 4));
    return size == 0 ? start + at == 0
                     : size <= start + at &&
                           Probe::asText(probe.contents.read(start + at - size, 4)) == "PK\1\2";
  }
  return false;
}

bool isElf(const Probe &probe) {
  uint64_t width = probe.integer(4, 1), order = probe.integer(5, 1);
  if (width < 1 || width > 2 || order < 1 || order > 2 || probe.integer(6, 1) != 1) {
    return false;
  }
  size_t at = width == 1 ? 40 : 52; // the size of this header
  uint64_t size = probe.integer(order == 1 ? at : at + 1, 1),
           other = probe.integer(order == 1 ? at + 1 : at, 1);
  return size == (width == 1 ? 52 : 64) && other == 0;
}

uint64_t checksum(const Probe &probe, size_t at, size_t count) {
  return at + count > probe.head.size()
             ? UINT64_MAX
             : crc32(0, probe.head.data() + at, static_cast<unsigned>(count));
}

bool isXz(const Probe &probe) { return checksum(probe, 6, 2) == probe.integer(8, 4); }

bool isSevenZip(const Probe &probe) { return checksum(probe, 12, 20) == probe.integer(8, 4); }

bool isHdf5(const Probe &probe) { return probe.size() >= 48 && probe.integer(8, 1) <= 3; }

bool isSqlite(const Probe &probe) {
  uint64_t page = probe.integer(16, 1) << 8 | probe.integer(17, 1); // big-endian; 1 is 65536
  return page == 1 || (page >= 512 && (page & (page - 1)) == 0);
}

/// Checks the first chunk, whose checksum is big-endian.
bool isPng(const Probe &probe) {
  uint64_t found = 0;
  for (size_t i = 29; i < 33; ++i) {
    found = found << 8 | probe.integer(i, 1);
  }
  return probe.has(8, "\0\0\0\rIHDR"sv) && checksum(probe, 12, 17) == found;
}

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

/// Reads the unit of `bytes` bytes at offset `at`.
uint64_t readUnit(const Probe &probe, size_t at, size_t bytes, bool isBigEndian) {
  uint64_t unit = 0;
  for (size_t i = 0; i < bytes; ++i) {
    unit = unit << 8 | probe.head[at + (isBigEndian ? i : bytes - 1 - i)];
  }
  return unit;
}

/// Checks that the units after the byte order mark are characters.
bool isUtf32(const Probe &probe) {
  bool isBigEndian = probe.head[0] == 0;
  for (size_t at = 4; at + 4 <= probe.head.size(); at += 4) {
    uint64_t unit = readUnit(probe, at, 4, isBigEndian);
    if (unit == 0 || unit > 0x10ffff || (unit >= 0xd800 && unit <= 0xdfff)) {
      return false;
    }
  }
  return probe.head.size() >= 8;
}

/// Checks that the units after the byte order mark are characters with paired surrogates, and that
/// the bytes are not ASCII text.
bool isUtf16(const Probe &probe) {
  bool isBigEndian = probe.head[0] == 0xfe, isOpen = false; // a pair
  for (size_t at = 2; at + 2 <= probe.head.size(); at += 2) {
    uint64_t unit = readUnit(probe, at, 2, isBigEndian);
    bool isSecond = unit >= 0xdc00 && unit <= 0xdfff;
    if (unit == 0 || unit >= 0xfffe || isSecond != isOpen) {
      return false;
    }
    isOpen = unit >= 0xd800 && unit <= 0xdbff;
  }
  return probe.head.size() >= 4 &&
         std::any_of(probe.head.begin() + 2, probe.head.end(),
                     [](uint8_t byte) { return byte == 0 || byte >= 0x80; });
}

bool isRecognized(const Probe &) { return true; }
bool isUnverified(const Probe &) { return false; }

struct Known {
  FileKind kind;
  bool (*isVerified)(const Probe &); ///< checks a file that `recognize` takes for this kind
  const char *remedy;
};

constexpr const char *writeColumn = "write its column of text to a file of text",
                     *unzip = "unpack it (unzip) and give its text", *giveText = "give text";

constexpr Known known[] = {
    {FileKind::Gzip,
     [](const Probe &probe) { return findCompression(probe.contents) == Compression::Gzip; },
     "unpack it (gunzip)"},
    {FileKind::Zstd,
     [](const Probe &probe) { return findCompression(probe.contents) == Compression::Zstd; },
     "unpack it (unzstd)"},
    {FileKind::Parquet, isParquet, writeColumn},
    {FileKind::Arrow, isArrow, writeColumn},
    {FileKind::Npy, isNpy, "write its elements as bytes: array.astype(\"uint8\").tofile(FILE)"},
    {FileKind::Zip, isZip, unzip},
    {FileKind::Npz, isZip, unzip},
    {FileKind::PyTorch, isZip, unzip},
    {FileKind::Elf, isElf, giveText},
    {FileKind::Artifact, isElf, giveText},
    {FileKind::Tar, isRecognized, "unpack it (tar -x) and give its texts"},
    {FileKind::Bzip2, isRecognized, "unpack it (bunzip2)"},
    {FileKind::Xz, isXz, "unpack it (xz -d)"},
    {FileKind::SevenZip, isSevenZip, "unpack it (7z x) and give its text"},
    {FileKind::Hdf5, isHdf5, "write its text to a file of text"},
    {FileKind::Sqlite, isSqlite, writeColumn},
    {FileKind::Png, isPng, "give --images WxHxC where the command has it"},
    {FileKind::Pdf, isPdf, "convert it to text (pdftotext)"},
    {FileKind::Weights, isSafetensors, giveText},
    {FileKind::Session, isSafetensors, giveText},
    {FileKind::Tokenizer, isRecognized, giveText},
    {FileKind::TokenCache, isRecognized, giveText},
    {FileKind::LfsPointer, isLfsPointer, "fetch the file (git lfs pull)"},
    {FileKind::Utf32, isUtf32, "convert it: iconv -f UTF-32 -t UTF-8 FILE > TEXT"},
    {FileKind::Utf16, isUtf16, "convert it: iconv -f UTF-16 -t UTF-8 FILE > TEXT"},
    {FileKind::Jpeg, isUnverified, ""},
    {FileKind::Gguf, isUnverified, ""},
    {FileKind::Pickle, isUnverified, ""},
    {FileKind::Recording, isUnverified, ""},
};

/// Checks that each of the first lines, at least two, is a JSON object.
bool isJsonLines(const Probe &probe) {
  constexpr int64_t most = 8;
  std::string_view text = Probe::asText(probe.head);
  int64_t lines = 0;
  while (lines < most && !text.empty()) {
    size_t end = text.find('\n');
    if (end == std::string_view::npos && probe.size() > probe.head.size()) {
      break; // this line is incomplete in the head
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
  Probe probe(contents);
  const Known *kind = std::ranges::find(known, probe.kind, &Known::kind);
  if (kind == std::end(known) || !kind->isVerified(probe)) {
    return std::nullopt;
  }
  return DataFormat{std::string(describe(probe.kind)), kind->remedy,
                    probe.kind == FileKind::Gzip   ? Compression::Gzip
                    : probe.kind == FileKind::Zstd ? Compression::Zstd
                                                   : Compression::None};
}

/// Counts an ending of lines.
static size_t countLines(const std::vector<uint8_t> &bytes, std::string_view ending) {
  std::string_view text = Probe::asText(bytes);
  size_t count = 0;
  for (size_t at = 0; (at = text.find(ending, at)) != std::string_view::npos; ++at) {
    ++count;
  }
  return count;
}

std::vector<std::string> describeOddities(const FileContents &contents, int64_t vocabulary,
                                          const std::string &name) {
  Probe probe(contents);
  std::vector<std::string> notes;
  const Known *kind = std::ranges::find(known, probe.kind, &Known::kind);
  // Text may start with the ASCII signature of a format.
  bool beginsLikeText =
      isText(Probe::asText(probe.head)) &&
      std::none_of(probe.head.begin(),
                   probe.head.begin() + std::min<std::ptrdiff_t>(4, std::ssize(probe.head)),
                   [](uint8_t byte) { return byte >= 0x80; });
  if (kind != std::end(known) && !beginsLikeText && !kind->isVerified(probe)) {
    notes.push_back("note: " + name + " looks like " + std::string(describe(probe.kind)) +
                    ", whose structure could not be verified; its own bytes are read");
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
  if (countLines(probe.head, "\r\n") > 0 &&
      countLines(probe.head, "\r\n") == countLines(probe.head, "\n")) {
    notes.push_back(
        "note: " + name +
        " has a carriage return at the end of each line, which is a token too; to leave "
        "it out: tr -d '\\r' < FILE > TEXT");
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

std::string describeTextAsIds(const FileContents &contents, const std::string &name) {
  constexpr size_t fewest = 64; // a short array may have such ids by chance
  Probe probe(contents);
  if (contents.size() < fewest || !isText(Probe::asText(probe.head))) {
    return "";
  }
  return "note: " + name +
         " looks like a text, whose bytes are read in pairs as token ids; to read it as a text, "
         "leave \"uint16:\" out";
}

} // namespace sluice::runtime
