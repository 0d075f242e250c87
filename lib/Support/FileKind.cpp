// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/FileKind.h"

#include "sluice/Support/FileCalls.h"
#include "sluice/Support/Trailer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>

namespace sluice {
namespace {

using namespace std::string_view_literals;

constexpr size_t npos = std::string_view::npos;

struct Magic {
  std::string_view bytes;
  FileKind kind;
};

/// Signatures that text does not start with, or complete words that name a format.
constexpr Magic magics[] = {
    {"\x93NUMPY"sv, FileKind::Npy},
    {"SLUICREC"sv, FileKind::Recording},
    {"SLUICTOK"sv, FileKind::Tokenizer},
    {"SLUICIDS"sv, FileKind::TokenCache},
    {"#version: 0."sv, FileKind::SubwordCodes},
    {"sluice-certificate "sv, FileKind::Certificate},
    {"version https://git-lfs.github.com/spec/"sv, FileKind::LfsPointer},
    {"GGUF"sv, FileKind::Gguf},
    {"\x89HDF\r\n\x1a\n"sv, FileKind::Hdf5},
    {"\x1f\x8b\x08"sv, FileKind::Gzip},
    {"\x28\xb5\x2f\xfd"sv, FileKind::Zstd},
    {"7z\xbc\xaf\x27\x1c"sv, FileKind::SevenZip},
    {"\xfd"
     "7zXZ\0"sv,
     FileKind::Xz},
    {"ARROW1\0\0"sv, FileKind::Arrow},
    {"SQLite format 3\0"sv, FileKind::Sqlite},
    {"\x89PNG\r\n\x1a\n"sv, FileKind::Png},
    {"\xff\xd8\xff"sv, FileKind::Jpeg},
    {"%PDF-"sv, FileKind::Pdf},
};

/// Removes leading whitespace and a byte order mark.
std::string_view trimStart(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) {
    text.remove_prefix(3);
  }
  return text.substr(std::min(text.size(), text.find_first_not_of(" \t\r\n")));
}

bool startsWithIgnoringCase(std::string_view text, std::string_view start) {
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
         });
}

/// Checks that the name is a key of an object, followed by a colon.
bool hasKey(std::string_view text, std::string_view name) {
  std::string key = "\"" + std::string(name) + "\"";
  for (size_t at = text.find(key); at != npos; at = text.find(key, at + 1)) {
    size_t next = text.find_first_not_of(" \t\r\n", at + key.size());
    if (next != npos && text[next] == ':') {
      return true;
    }
  }
  return false;
}

FileKind recognizeJson(std::string_view head) {
  std::string_view line = head.substr(0, head.find('\n'));
  auto hasAll = [&](std::initializer_list<std::string_view> keys) {
    return line.ends_with('}') &&
           std::ranges::all_of(keys, [&](auto key) { return hasKey(line, key); });
  };
  if (hasAll({"text", "position", "token"})) {
    return FileKind::Trace;
  }
  if (hasAll({"step", "loss"})) {
    return FileKind::Metrics;
  }
  if (head.find("\"sluice-tuning\"") != npos) {
    return FileKind::Tuning;
  }
  if (hasKey(head, "added_tokens") && hasKey(head, "version")) {
    return FileKind::HuggingFaceTokenizer;
  }
  return hasKey(head, "sluice") || (hasKey(head, "stages") && hasKey(head, "vocabulary"))
             ? FileKind::Spec
             : FileKind::Json;
}

/// Checks for eight bytes with the length of a header, and a JSON object as the header.
bool isSafetensors(std::string_view head, size_t size) {
  uint64_t length = 0;
  if (head.size() < 10) {
    return false;
  }
  std::memcpy(&length, head.data(), sizeof length);
  return length >= 2 && length <= size - 8 && head[8] == '{' &&
         (head[9] == '"' || head[9] == '}' || head[9] == ' ' || head[9] == '\n');
}

/// Checks the sum of a header's bytes, in which the field of the sum counts as spaces. Text does
/// not have the zero bytes around it.
bool isTar(std::string_view head) {
  constexpr size_t block = 512, sum = 148, sumBytes = 8;
  if (head.size() < block || head.substr(sum, sumBytes).find('\0') == npos) {
    return false;
  }
  uint64_t found = 0, expected = 0;
  for (size_t i = 0; i < block; ++i) {
    found += i >= sum && i < sum + sumBytes ? ' ' : static_cast<unsigned char>(head[i]);
  }
  for (char c : head.substr(sum, sumBytes)) {
    if (c >= '0' && c <= '7') {
      expected = expected * 8 + static_cast<uint64_t>(c - '0');
    }
  }
  return found == expected;
}

/// Checks for the first block, or for the end of an empty file.
bool isBzip2(std::string_view head) {
  return head.starts_with("BZh") && !isText(head) &&
         (head.substr(3).substr(1).starts_with("1AY&SY") ||
          head.substr(3).substr(1).starts_with("\x17\x72\x45\x38\x50\x90"));
}

/// Checks for a frame without data, with which zstd files may start.
bool isSkippableFrame(std::string_view head) {
  return head.size() >= 4 && (head[0] & 0xf0) == 0x50 && head.substr(1).starts_with("\x2a\x4d\x18");
}

/// Checks for the first piece of a SentencePiece model: a message with a text and a score.
bool isSentencePiece(std::string_view head) {
  constexpr size_t scoreBytes = 5; // with its key
  if (head.size() < 4 || head[0] != '\x0a' || head[2] != '\x0a') {
    return false;
  }
  auto piece = static_cast<uint8_t>(head[1]), text = static_cast<uint8_t>(head[3]);
  return piece < 128 && text > 0 && 2u + text + scoreBytes <= piece && 4u + text < head.size() &&
         head[4u + text] == '\x15';
}

FileKind recognizeZip(std::string_view head) {
  return head.find("data.pkl") != npos ? FileKind::PyTorch
         : head.find(".npy") != npos   ? FileKind::Npz
                                       : FileKind::Zip;
}

/// Distinguishes kinds of pickles: older PyTorch files start with a fixed number.
FileKind recognizePickle(std::string_view head) {
  return head.substr(2).starts_with("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv)
             ? FileKind::PyTorch
             : FileKind::Pickle;
}

FileKind recognizeMarkup(std::string_view text) {
  bool isXml = text.starts_with("<?xml");
  if (text.starts_with("<svg") || (isXml && text.find("<svg") != npos)) {
    return FileKind::Svg;
  }
  return startsWithIgnoringCase(text, "<!doctype html") || startsWithIgnoringCase(text, "<html") ||
                 (isXml && text.find("<html") != npos)
             ? FileKind::Html
             : FileKind::Text;
}

/// Reads up to `count` bytes at `offset`.
std::string readPiece(int fd, size_t offset, size_t count, const Path &path) {
  std::string piece(count, '\0');
  size_t done = 0;
  while (done < count) {
    ssize_t got = ::pread(fd, piece.data() + done, count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      failAt(path, "read", errno);
    }
    if (got == 0) {
      break;
    }
    done += static_cast<size_t>(got);
  }
  piece.resize(done);
  return piece;
}

} // namespace

bool isText(std::string_view head) {
  return std::ranges::none_of(head, [](char c) {
    auto byte = static_cast<unsigned char>(c);
    return byte == 0x7f || (byte < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f');
  });
}

FileKind recognize(std::string_view head, std::string_view tail, size_t size) {
  if (size == 0) {
    return FileKind::Empty;
  }
  if (tail.size() >= trailerBytes &&
      tail.substr(tail.size() - trailerBytes).starts_with("SLUICE\r\n")) {
    return FileKind::Artifact;
  }
  for (const Magic &magic : magics) {
    if (head.starts_with(magic.bytes)) {
      return magic.kind;
    }
  }
  bool beginsParquet = head.starts_with("PAR1") || head.starts_with("PARE");
  if (beginsParquet && (!isText(head) || tail.ends_with(head.substr(0, 4)))) {
    return FileKind::Parquet;
  }
  if (head.starts_with("PK\x03\x04")) {
    return recognizeZip(head);
  }
  if (isBzip2(head)) {
    return FileKind::Bzip2;
  }
  if (isSkippableFrame(head)) {
    return FileKind::Zstd;
  }
  // A header of 640, 896, 1152 or 1408 bytes begins as a pickle does.
  if (isSafetensors(head, size)) {
    return head.find("\"sluice.session\"") != npos ? FileKind::Session : FileKind::Weights;
  }
  if (head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) {
    return recognizePickle(head);
  }
  if (head.starts_with("\x7f"
                       "ELF")) {
    return FileKind::Elf;
  }
  if (isSentencePiece(head)) {
    return FileKind::SentencePiece;
  }
  if (head.starts_with("\xff\xfe\0\0"sv) || head.starts_with("\0\0\xfe\xff"sv)) {
    return FileKind::Utf32;
  }
  if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff")) {
    return FileKind::Utf16;
  }
  if (tail.find("PK\x05\x06") != npos) { // an archive that is empty or follows other bytes
    return recognizeZip(head);
  }
  if (isTar(head)) {
    return FileKind::Tar;
  }
  if (!isText(head)) {
    return FileKind::Binary;
  }
  std::string_view text = trimStart(head);
  if (text.starts_with('<')) {
    return recognizeMarkup(text);
  }
  if (text.starts_with('{')) {
    return recognizeJson(text);
  }
  return (text.starts_with(';') || text.starts_with('(')) && text.find("(set-logic") != npos
             ? FileKind::Smt
             : FileKind::Text;
}

FileKind recognize(std::span<const uint8_t> contents) {
  std::string_view all(reinterpret_cast<const char *>(contents.data()), contents.size());
  return recognize(all.substr(0, mostHead), all.substr(all.size() - std::min(all.size(), mostTail)),
                   all.size());
}

FileKind recognizeFile(const Path &path) {
  mode_t mode = getFileType(path);
  if (mode == 0) {
    return FileKind::Missing;
  }
  if (S_ISDIR(mode)) {
    return isRunFolder(path)          ? FileKind::Run
           : isCheckpointFolder(path) ? FileKind::Checkpoint
                                      : FileKind::Folder;
  }
  if (!S_ISREG(mode)) {
    return FileKind::Binary;
  }
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (file.fd < 0 || ::fstat(file.fd, &status) != 0) {
    failAt(path, "read", errno);
  }
  auto size = static_cast<size_t>(status.st_size);
  size_t tail = std::min(size, mostTail);
  return recognize(readPiece(file.fd, 0, std::min(size, mostHead), path),
                   readPiece(file.fd, size - tail, tail, path), size);
}

bool isRunFolder(const Path &folder) {
  std::error_code ignored;
  auto has = [&](const char *name) { return std::filesystem::exists(folder / name, ignored); };
  return has("metrics.jsonl") ? has("spec.json") || has("run.json") || has("latest")
                              : has("checkpoints") && (has("latest") || has("run.json"));
}

bool isCheckpointFolder(const Path &folder) {
  std::error_code ignored;
  return std::filesystem::exists(folder / "state.json", ignored) &&
         std::filesystem::exists(folder / "weights.safetensors", ignored);
}

} // namespace sluice
