// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/FileContents.h"

#include "HashStream.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace sluice::runtime {
namespace {

/// Files above this size are read piece by piece and hold a descriptor each.
constexpr size_t mostInMemory = size_t(64) << 10;

/// The sample of a file has pieces at even distances, the first and the last bytes among them.
constexpr size_t samplePieces = 64, samplePieceBytes = 16;

int64_t getChangeTime(const struct stat &status) {
  return int64_t(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

[[noreturn]] void failReading(const Path &path, int error) {
  std::string message = showPath(path.native()) + ": cannot read: " + std::strerror(error);
  failWith(message + (error == EMFILE || error == ENFILE
                          ? "; raise the limit on open files (ulimit -n)"
                          : "; look at the disk and at the file's permissions"),
           error);
}

/// Raises the limit on open files to the maximum of this process.
bool raiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) {
    return false;
  }
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

int openForReading(const Path &path) {
  // Without O_NONBLOCK, opening a pipe that has replaced the file would block until there is a
  // writer.
  constexpr int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  int fd = ::open(path.c_str(), flags);
  if (fd < 0 && errno == EMFILE && raiseFileLimit()) {
    fd = ::open(path.c_str(), flags);
  }
  return fd;
}

} // namespace

FileContents::File::~File() {
  if (fd >= 0) {
    ::close(fd);
  }
}

FileContents::FileContents(std::vector<uint8_t> bytes) : file(std::make_shared<File>()) {
  file->size = bytes.size();
  file->memory = std::move(bytes);
}

FileContents FileContents::fromDescriptor(const Path &name, int fd) {
  FileContents contents;
  contents.file = std::make_shared<File>();
  contents.file->name = name;
  contents.file->fd = fd;
  struct stat status{};
  if (::fstat(fd, &status) != 0) {
    failReading(name, errno);
  }
  contents.file->size = static_cast<size_t>(status.st_size);
  contents.file->changed = getChangeTime(status);
  if (contents.size() > mostInMemory) {
    contents.file->sample = contents.readSample();
  } else {
    std::vector<uint8_t> bytes(contents.size());
    contents.readFromFile(0, bytes);
    contents.file->memory = std::move(bytes);
    ::close(std::exchange(contents.file->fd, -1));
  }
  return contents;
}

FileContents FileContents::open(const Path &path, std::string_view what) {
  requireFile(path, what);
  int fd = openForReading(path);
  if (fd < 0) {
    failReading(path, errno);
  }
  return fromDescriptor(path, fd);
}

void FileContents::readFromFile(size_t start, std::span<uint8_t> into) const {
  for (size_t done = 0; done < into.size();) {
    ssize_t count =
        ::pread(file->fd, into.data() + done, into.size() - done, static_cast<off_t>(start + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      failReading(file->name, errno);
    }
    if (count == 0) {
      failShortened(start + done);
    }
    done += static_cast<size_t>(count);
  }
}

void FileContents::failShortened(size_t found) const {
  throw DataError(showPath(file->name.native()) + ": expected the " + std::to_string(file->size) +
                  " bytes that the file had when it was opened, found " + std::to_string(found) +
                  ": another program cut it short; restore the file, and leave it as it is while "
                  "it is read");
}

std::string FileContents::readSample() const {
  std::string sample(samplePieces * samplePieceBytes, '\0');
  size_t step = (size() - samplePieceBytes) / (samplePieces - 1);
  for (size_t i = 0; i < samplePieces; ++i) {
    std::array<uint8_t, samplePieceBytes> piece;
    readFromFile(i * step, piece);
    std::ranges::copy(piece, sample.begin() + static_cast<std::ptrdiff_t>(i * samplePieceBytes));
  }
  return sample;
}

/// Throws if the file has changed. A file with another time of change may have been touched,
/// appended to, or rewritten. A sample of its bytes detects most rewrites. A hash of all bytes
/// would detect every change, but would be computed at each read of a growing file.
void FileContents::checkUnchanged() const {
  struct stat status{};
  if (::fstat(file->fd, &status) != 0 || getChangeTime(status) == file->changed) {
    return;
  }
  auto now = static_cast<size_t>(status.st_size);
  if (now < file->size) {
    failShortened(now);
  }
  if (readSample() != file->sample ||
      (now == file->size && !file->hash.empty() && computeHash() != file->hash)) {
    throw DataError(showPath(file->name.native()) +
                    ": expected the bytes that the file had when it was opened, found others: "
                    "another program wrote it; restore the file, and leave it as it is while it "
                    "is read");
  }
  file->changed = getChangeTime(status);
}

void FileContents::read(size_t start, std::span<uint8_t> into) const {
  if (into.empty()) {
    return;
  }
  if (file->fd < 0) {
    std::copy_n(file->memory.begin() + static_cast<std::ptrdiff_t>(start), into.size(),
                into.begin());
    return;
  }
  checkUnchanged();
  readFromFile(start, into);
}

std::vector<uint8_t> FileContents::read(size_t start, size_t count) const {
  std::vector<uint8_t> bytes(std::min(count, size() - std::min(size(), start)));
  read(start, bytes);
  return bytes;
}

void FileContents::forEachPiece(
    const std::function<void(size_t start, std::span<const uint8_t>)> &action, size_t from,
    size_t to) const {
  to = std::min(to, size());
  std::vector<uint8_t> piece(from < to ? std::min(pieceBytes, to - from) : 0);
  while (from < to) {
    std::span<uint8_t> some = std::span(piece).first(std::min(piece.size(), to - from));
    read(from, some);
    action(from, some);
    from += some.size();
  }
}

size_t FileContents::find(const std::function<bool(uint8_t)> &isWrong) const {
  size_t found = size();
  forEachPiece([&](size_t start, std::span<const uint8_t> some) {
    if (found == size()) {
      auto at = std::ranges::find_if(some, isWrong);
      found = at == some.end() ? found : start + static_cast<size_t>(at - some.begin());
    }
  });
  return found;
}

std::string FileContents::computeHash() const {
  HashStream hash;
  std::vector<uint8_t> piece(std::min(size(), pieceBytes));
  for (size_t start = 0; start < size(); start += piece.size()) {
    std::span<uint8_t> some = std::span(piece).first(std::min(piece.size(), size() - start));
    if (file->fd < 0) {
      read(start, some);
    } else {
      readFromFile(start, some); // `read` checks for changes, which calls this
    }
    hash.add(some);
  }
  return hash.finish();
}

const std::string &FileContents::sha256Hex() const {
  static const std::string none = sluice::sha256Hex(std::string_view());
  if (!file) {
    return none;
  }
  if (file->hash.empty()) {
    file->hash = computeHash();
  }
  return file->hash;
}

void FileContents::saveAs(const Path &path) const {
  removeAll(path);
  if (!file || file->fd < 0) {
    writeSynced(path, file ? std::span<const uint8_t>(file->memory) : std::span<const uint8_t>());
    return;
  }
  std::string own = "/proc/self/fd/" + std::to_string(file->fd);
  if (::linkat(AT_FDCWD, own.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    forEachPiece([&](size_t, std::span<const uint8_t> some) { appendFile(path, some); });
  }
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  int error = fd < 0 || ::fsync(fd) != 0 ? errno : 0;
  ::close(fd);
  if (error != 0) {
    failReading(path, error);
  }
}

FileMemory::FileMemory(const FileContents &contents) {
  if (contents.empty()) {
    return;
  }
  void *memory =
      ::mmap(nullptr, contents.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  all = {static_cast<uint8_t *>(memory), contents.size()};
  try {
    contents.read(0, all);
  } catch (...) {
    ::munmap(all.data(), all.size());
    throw;
  }
}

FileMemory::~FileMemory() {
  if (!all.empty()) {
    ::munmap(all.data(), all.size());
  }
}

void FileMemory::release(std::span<const uint8_t> some) const {
  auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  auto at = static_cast<size_t>(some.data() - all.data());
  size_t first = (at + page - 1) / page * page, last = (at + some.size()) / page * page;
  if (first < last) {
    ::madvise(all.data() + first, last - first, MADV_DONTNEED);
  }
}

static Path chooseTemporaryFolder(const Path &folder) {
  if (!folder.empty()) {
    return folder;
  }
  const char *named = std::getenv("TMPDIR");
  for (Path path : {Path(named ? named : ""), Path("/var/tmp")}) {
    if (!path.empty() && ::access(path.c_str(), W_OK | X_OK) == 0) {
      return path;
    }
  }
  return "/tmp";
}

TemporaryFile::TemporaryFile(const Path &where) : folder(chooseTemporaryFolder(where)) {
  fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
  if (fd < 0) { // the file system has no files without names
    std::string name = (folder / ".sluice-XXXXXX").string();
    fd = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd >= 0) {
      ::unlink(name.c_str());
    }
  }
  if (fd < 0) {
    failWith(showPath(folder.native()) + ": cannot create a temporary file in it: " +
                 std::strerror(errno) + "; name another folder in TMPDIR",
             errno);
  }
}

TemporaryFile::~TemporaryFile() {
  if (fd >= 0) {
    ::close(fd);
  }
}

void TemporaryFile::write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      int error = errno;
      failWith(showPath(folder.native()) + ": cannot write a temporary file in it: " +
                   std::strerror(error) + " after " + std::to_string(written) +
                   " bytes; free space on the disk, or name another folder in TMPDIR",
               error);
    }
    bytes = bytes.subspan(count < 0 ? 0 : static_cast<size_t>(count));
    written += count < 0 ? 0 : static_cast<size_t>(count);
  }
}

FileContents TemporaryFile::finish(const Path &name) {
  return FileContents::fromDescriptor(name, std::exchange(fd, -1));
}

} // namespace sluice::runtime
