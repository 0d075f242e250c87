// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/ByteFiles.h"

#include "DataFormat.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/FileCalls.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Format.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/Shell.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <utility>

namespace sluice::runtime {
namespace {

constexpr const char *standardInput = "-";
constexpr size_t mostNamed = 5;
constexpr int64_t byteValues = 256;

bool isOfKernel(const struct statfs &system) {
  return system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC;
}

/// Checks for a file whose contents the kernel generates on reading, as in /proc. Its size is
/// unknown.
bool isGenerated(const Path &path) {
  struct statfs system{};
  return ::statfs(path.c_str(), &system) == 0 && isOfKernel(system);
}

/// Checks for bytes that a later run will not find under `path`: standard input, a pipe, a file
/// that a shell opened for this process only, and a file that the kernel generates.
bool isStream(const Path &path) {
  struct stat status{};
  if (path == standardInput || ::stat(path.c_str(), &status) != 0) {
    return path == standardInput;
  }
  return S_ISFIFO(status.st_mode) ||
         (S_ISREG(status.st_mode) && (isDescriptor(path) || isGenerated(path)));
}

std::string showName(const Path &path) {
  return path == standardInput ? "standard input" : showPath(path.native());
}

/// An open stream.
class FileStream {
public:
  explicit FileStream(const Path &path) : path(path) {
    if (path == standardInput) {
      static bool isTaken = false;
      if (std::exchange(isTaken, true)) {
        throw UserError("expected standard input (-) as one file, found it twice; it can be read "
                        "once");
      }
      fd = STDIN_FILENO;
      return;
    }
    while ((fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC)) < 0) {
      if (errno != EINTR) {
        fail(errno);
      }
    }
  }
  FileStream(const FileStream &) = delete;
  FileStream &operator=(const FileStream &) = delete;
  ~FileStream() {
    if (fd > STDIN_FILENO) {
      ::close(fd);
    }
  }

  void copyTo(TemporaryFile &file) const {
    std::vector<uint8_t> piece(FileContents::pieceBytes);
    while (true) {
      ssize_t count = ::read(fd, piece.data(), piece.size());
      if (count < 0 && errno != EINTR) {
        fail(errno);
      }
      if (count == 0) {
        return;
      }
      file.write(std::span(piece).first(static_cast<size_t>(std::max<ssize_t>(count, 0))));
    }
  }

private:
  [[noreturn]] void fail(int error) const {
    // Some files of the kernel, such as /proc/self/mem, have no bytes to read. This is not a disk
    // failure.
    struct statfs system{};
    if (error == EIO && ::fstatfs(fd, &system) == 0 && isOfKernel(system)) {
      throw UserError(showName(path) + ": expected a data file, found a file of the kernel that " +
                      "cannot be read (" + std::strerror(error) + "); name a file");
    }
    failWith(showName(path) + ": cannot read: " + std::strerror(error) + "; name a file", error);
  }

  const Path &path;
  int fd = -1;
};

Path getTemporaryFolder(const ReadingOptions &reading) {
  return reading.streams ? reading.streams->temporaryFolder() : Path();
}

void requireNoFolder(const Path &path) {
  if (isFolder(path)) {
    throw UserError(showPath(path.native()) +
                    ": expected a data file, found a directory; name the files in it, as in " +
                    showPath((path / "*").native()));
  }
}

/// Opens a file or reads a stream of any format. Sets `copy` to the copy of a stream, if it has
/// one.
ByteFile openBytes(const Path &path, std::string_view what, const ReadingOptions &reading,
                   StreamCopies::Copy *&copy) {
  if (!isStream(path)) {
    requireNoFolder(path);
    return {path, FileContents::open(path, what)};
  }
  copy = reading.streams ? &reading.streams->add(path) : nullptr;
  if (copy && copy->isReused) {
    ByteFile file{copy->path, FileContents::open(copy->path, what), copy->path};
    file.notes.push_back(showName(path) + ": the run's own copy is read instead, " +
                         showPath(copy->path.native()));
    return file;
  }
  TemporaryFile spool(getTemporaryFolder(reading));
  FileStream(path).copyTo(spool);
  return {path, spool.finish(showName(path)), copy ? copy->path : Path()};
}

[[noreturn]] void refuseFormat(const std::string &name, std::string_view what,
                               const DataFormat &format) {
  throw FormatError(name + ": expected the " + std::string(what) +
                    ", whose bytes are tokens, found " + format.name + "; " + format.remedy +
                    ", or read the file's own bytes with --raw");
}

/// Replaces compressed bytes by decompressed ones.
void unpack(ByteFile &file, const DataFormat &format, const ReadingOptions &reading) {
  Path name = showName(file.path);
  TemporaryFile into(getTemporaryFolder(reading));
  int64_t members = decompress(file.bytes, format.compression, name, into);
  file.notes.push_back(name.string() + ": read as " + format.name + ", " +
                       std::to_string(into.size()) + " bytes in " +
                       std::to_string(file.bytes.size()) +
                       (members > 1 ? ", " + std::to_string(members) + " parts" : ""));
  file.bytes = into.finish(name);
  file.isDecompressed = true;
}

std::string listNames(const std::vector<ByteFile> &files) {
  std::string names;
  for (size_t i = 0; i < std::min(files.size(), mostNamed); ++i) {
    names += (i > 0 ? ", " : "") + showName(files[i].path);
  }
  if (files.size() > mostNamed) {
    names += " and " + std::to_string(files.size() - mostNamed) + " more";
  }
  return names;
}

/// Describes how to join files that are too short. The pattern is outside the quotes.
std::string describeJoining(const std::vector<ByteFile> &files) {
  const Path &first = files.front().path;
  std::string folder = first.has_parent_path() ? quoteForShell(first.parent_path().native()) : ".";
  std::string end = first.extension().native();
  return "join them into one file, as in: cat " + folder + "/*" +
         (end.empty() ? "" : quoteForShell(end)) + " > joined";
}

/// Throws UserError because every file is too short.
[[noreturn]] void refuseShort(const std::vector<ByteFile> &files, int64_t least,
                              const std::string &why) {
  bool hasIds = haveIds(files);
  const char *unit = hasIds ? "token" : "byte";
  std::string expected = "expected at least " + describeCount(least, unit) + " (" + why + ")";
  if (files.size() == 1) {
    throw UserError(showName(files.front().path) + ": " + expected + ", found " +
                    std::to_string(files.front().tokenCount()) + "; give a longer file");
  }
  int64_t all = 0, longest = 0;
  for (const ByteFile &file : files) {
    all += file.tokenCount();
    longest = std::max(longest, file.tokenCount());
  }
  throw UserError(expected + " in a file, found " + std::to_string(files.size()) +
                  " shorter files, of at most " + describeCount(longest, unit) + ": " +
                  listNames(files) + "; " +
                  (hasIds ? "concatenate their ids" : describeJoining(files)) + " (" +
                  describeCount(all, unit) + ")");
}

} // namespace

StreamCopies::StreamCopies(Path folder, std::string prefix, Path temporary, bool reuse)
    : folder(std::move(folder)), temporary(std::move(temporary)), prefix(std::move(prefix)),
      reuse(reuse) {}

StreamCopies::Copy &StreamCopies::add(const Path &stream) {
  Copy copy{stream, folder / (prefix + std::to_string(copies.size() + 1)), {}};
  copy.isReused = reuse && isRegularFile(copy.path);
  copies.push_back(std::move(copy));
  return copies.back();
}

bool StreamCopies::hasRead() const {
  return std::ranges::any_of(copies, [](const Copy &copy) { return !copy.isReused; });
}

void StreamCopies::save() const {
  for (const Copy &copy : copies) {
    if (!copy.isReused || !isThere(copy.path)) {
      makeFolder(folder);
      copy.contents.saveAs(copy.path);
      syncFolder(folder);
    }
  }
}

ByteFile openByteFile(const Path &path, std::string_view what, const ReadingOptions &reading) {
  if (auto memory = reading.memory.find(path); memory != reading.memory.end()) {
    return memory->second;
  }
  StreamCopies::Copy *copy = nullptr;
  ByteFile file = openBytes(path, what, reading, copy);
  if (!reading.isRaw) {
    std::optional<DataFormat> format = findFormat(file.bytes);
    if (format && format->compression != Compression::None) {
      unpack(file, *format, reading);
      format = findFormat(file.bytes);
      if (format) {
        format->name += " inside of compressed data";
      }
    }
    if (format) {
      if (reading.takesIds && isStream(path) && format->name == describe(FileKind::Npy)) {
        format->remedy = "write token ids to a file first";
      }
      refuseFormat(showName(path), what, *format);
    }
  }
  if (copy) {
    copy->contents = file.bytes;
  }
  return file;
}

namespace {

/// Opens a file of token ids, "uint16:FILE" or a NumPy array. Empty if `path` is neither.
std::optional<ByteFile> openIds(const Path &path, const ReadingOptions &reading) {
  auto [type, rest] = splitTokenPath(path);
  bool isPrefixed = !type.empty();
  if (isPrefixed && !reading.takesIds) {
    throw UserError(showName(path) + ": expected a text, found token ids; train, eval and logits " +
                    "read them (a text of this name is ./" + path.native() + ")");
  }
  if (!isPrefixed && (!reading.takesIds || reading.isRaw || isStream(path) || isFolder(path))) {
    return std::nullopt;
  }
  if (isStream(rest)) {
    throw UserError(showName(path) + ": expected a file of token ids, found a stream; write it " +
                    "to a file first");
  }
  requireNoFolder(rest);
  ByteFile file{path, FileContents::open(rest, "data file")};
  if (isPrefixed) {
    if (auto format = reading.isRaw ? std::nullopt : findFormat(file.bytes)) {
      throw FormatError(showName(path) + ": expected uint16 numbers without a header, found " +
                        format->name + "; leave \"" + std::string(type) +
                        ":\" out, or read the file's own bytes with --raw");
    }
    file.layout = makeUint16Layout(file.bytes, showName(path));
    if (std::string note = describeTextAsIds(file.bytes, showName(path));
        !reading.isRaw && !note.empty()) {
      file.notes.push_back(std::move(note));
    }
    return file;
  }
  std::optional<TokenLayout> layout = findNpyIds(file.bytes, showName(path));
  file.layout = layout.value_or(TokenLayout());
  return layout ? std::optional(std::move(file)) : std::nullopt;
}

/// Throws UserError for a text without the tokenizer that the model's weights need.
void requireEncoder(const ByteFile &file, const ReadingOptions &reading) {
  constexpr size_t shownDigits = 16;
  if (file.isText() && !reading.encoder && !reading.tokenizer.empty()) {
    throw UserError(showName(file.path) + ": expected a tokenizer for this text, that of the " +
                    "weights (hash " + reading.tokenizer.substr(0, shownDigits) +
                    "), found none; give it with --tokenizer, or give token ids");
  }
}

/// Throws UserError if some files are texts and others are token ids.
void requireOneKind(const std::vector<ByteFile> &files, const ByteFile &other) {
  auto hasText = [](const ByteFile &file) { return file.isText() || file.encoder; };
  if (files.empty() || hasText(files.front()) == hasText(other)) {
    return;
  }
  const ByteFile &text = hasText(other) ? other : files.front(),
                 &ids = hasText(other) ? files.front() : other;
  throw UserError(showName(other.path) + ": expected texts or token ids, found both: the text " +
                  showName(text.path) + " and the ids " + showName(ids.path) +
                  "; give files of one kind");
}

} // namespace

std::vector<int32_t> ByteFile::readTokens(int64_t first, int64_t count) const {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  readTokens(first, ids);
  return ids;
}

std::string ByteFile::readText(int64_t first, int64_t count) const {
  if (encoder) {
    return encoder->decode(readTokens(first, count));
  }
  std::vector<uint8_t> some = bytes.read(static_cast<size_t>(first), static_cast<size_t>(count));
  return {some.begin(), some.end()};
}

ByteFile ByteFile::replaceTokens(std::span<const int32_t> ids) const {
  ByteFile file{path, {}};
  if (isText()) {
    file.bytes = std::vector<uint8_t>(ids.begin(), ids.end());
    return file;
  }
  const auto *all = reinterpret_cast<const uint8_t *>(ids.data());
  file.bytes = std::vector<uint8_t>(all, all + ids.size_bytes());
  file.layout.type = TokenType::Int32;
  if (encoder) {
    std::string decoded = encoder->decode(ids);
    file.text = std::vector<uint8_t>(decoded.begin(), decoded.end());
    file.encoder = encoder;
  }
  return file;
}

ByteFile ByteFile::cut(int64_t first, int64_t count) const {
  return replaceTokens(readTokens(first, count));
}

std::vector<ByteFile> readByteFiles(const std::vector<Path> &paths, int64_t vocabulary,
                                    int64_t least, const std::string &why,
                                    std::vector<ByteFile> *skipped, const ReadingOptions &reading) {
  std::vector<ByteFile> files, tooShort;
  for (const Path &path : paths) {
    auto memory = reading.memory.find(path);
    std::optional<ByteFile> ids =
        memory == reading.memory.end() ? openIds(path, reading) : std::optional(memory->second);
    ByteFile file = ids ? std::move(*ids) : openByteFile(path, "data file", reading);
    if (!reading.isRaw && file.isText()) {
      std::vector<std::string> notes =
          describeOddities(file.bytes, reading.encoder ? byteValues : vocabulary, showName(path));
      file.notes.insert(file.notes.end(), notes.begin(), notes.end());
    }
    requireEncoder(file, reading);
    if (reading.encoder && file.isText()) {
      file = reading.encoder->encodeFile(std::move(file));
    }
    requireOneKind(files, file);
    requireOneKind(tooShort, file);
    checkIds(file.bytes, file.layout, vocabulary, showName(file.path));
    bool fits = file.tokenCount() >= least;
    (fits ? files : tooShort).push_back(std::move(file));
  }
  if (!tooShort.empty() && (!skipped || files.empty())) {
    refuseShort(tooShort, least, why);
  }
  if (skipped) {
    *skipped = std::move(tooShort);
  }
  return files;
}

std::string describeSkipped(const std::vector<ByteFile> &skipped, size_t files, int64_t least,
                            const std::string &why) {
  if (skipped.empty()) {
    return "";
  }
  bool hasIds = haveIds(skipped);
  return "skipped " + std::to_string(skipped.size()) + " of " + std::to_string(files) +
         " files, shorter than " + describeCount(least, hasIds ? "token" : "byte") + " (" + why +
         "): " + listNames(skipped) +
         (skipped.size() > 1 && !hasIds
              ? "; to read them too, " + describeJoining(skipped) + ", and give that file alone"
              : "");
}

bool haveIds(const std::vector<ByteFile> &files) {
  return !files.empty() && !files.front().isText();
}

bool lackText(const std::vector<ByteFile> &files) {
  return haveIds(files) && !files.front().encoder;
}

std::string describeUnusedIds(const std::vector<ByteFile> &files, int64_t vocabulary) {
  if (vocabulary <= byteValues || haveIds(files)) {
    return "";
  }
  return "note: the vocabulary is " + std::to_string(vocabulary) +
         ", but data are bytes: ids 256 to " + std::to_string(vocabulary - 1) +
         " never occur; a vocabulary of 256 is enough, or give a tokenizer (--tokenizer), or token "
         "ids: a .npy file, or uint16:FILE";
}

std::vector<std::string> collectNotes(const std::vector<ByteFile> &files) {
  std::vector<std::string> notes;
  size_t count = 0;
  for (const ByteFile &file : files) {
    for (const std::string &note : file.notes) {
      if (count++ < mostNamed) {
        notes.push_back(note);
      }
    }
  }
  if (count > mostNamed) {
    notes.push_back("and " + std::to_string(count - mostNamed) + " more notes like these");
  }
  return notes;
}

std::string hashFiles(const std::vector<ByteFile> &files) {
  std::string hashes;
  for (const ByteFile &file : files) {
    hashes += (file.isText() ? "" : std::string(file.layout.typeName()) + ":");
    hashes += file.bytes.sha256Hex();
  }
  return sha256Hex(hashes);
}

} // namespace sluice::runtime
