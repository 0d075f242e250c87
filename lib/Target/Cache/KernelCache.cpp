// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Entries are files KEY.kernel: a header of fixed size, then the object. Files are neither synced
// nor locked: a checksum detects entries that a crash left incomplete.
#include "sluice/Target/Cache/KernelCache.h"

#include "sluice/Support/Text.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;
using namespace sluice;

static constexpr StringLiteral magic = "sluice kernel 1\n", entrySuffix = ".kernel",
                               temporaryMark = ".kernel.tmp-";
static constexpr size_t lengthBytes = 8, hashBytes = 32,
                        headerBytes = magic.size() + lengthBytes + 2 * hashBytes;

static StringRef asText(const Sha256 &hash) {
  return {reinterpret_cast<const char *>(hash.data()), hash.size()};
}

/// Appends a length in little-endian order.
static void addLength(std::string &text, size_t length) {
  for (size_t i = 0; i < lengthBytes; ++i) {
    text.push_back(static_cast<char>(uint64_t(length) >> (8 * i)));
  }
}

/// Returns the header of an entry: the file type, the length of the object, the key, and a checksum
/// of these and the object.
static std::string makeHeader(const KernelKey &key, StringRef bytes) {
  std::string header = magic.str();
  addLength(header, bytes.size());
  header += asText(key);
  std::string summed = header;
  summed += bytes;
  header += asText(sha256({reinterpret_cast<const uint8_t *>(summed.data()), summed.size()}));
  return header;
}

KernelCache::KernelCache(std::string folder, uint64_t mostBytes)
    : folder(std::move(folder)), mostBytes(mostBytes) {}

std::string KernelCache::getPath(const KernelKey &key) const {
  return folder + "/" + toHex(key) + entrySuffix.str();
}

//===----------------------------------------------------------------------===//
// Reading and writing
//===----------------------------------------------------------------------===//

/// Removes a damaged entry; if it is a directory, with its contents, because no file can replace
/// it. Does not follow symbolic links.
static void removeEntry(const std::string &path) {
  if (::unlink(path.c_str()) != 0 && errno == EISDIR) {
    sys::fs::remove_directories(path, /*IgnoreErrors=*/true);
  }
}

/// Reads a whole regular file of at most `most` bytes; returns none on failure.
static std::optional<std::string> readEntry(const std::string &path, uint64_t most) {
  // O_NONBLOCK: opening a pipe with the entry's name would block.
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    return std::nullopt;
  }
  struct stat status{};
  std::optional<std::string> contents;
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
      static_cast<uint64_t>(status.st_size) <= most) {
    contents.emplace(static_cast<size_t>(status.st_size), '\0');
    size_t done = 0;
    while (done < contents->size()) {
      ssize_t count = ::read(file, contents->data() + done, contents->size() - done);
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        break;
      }
      done += static_cast<size_t>(count);
    }
    contents->resize(done);
    ::futimens(file, nullptr); // for eviction; has no effect in a read-only folder
  }
  ::close(file);
  return contents;
}

std::optional<std::string> KernelCache::load(const KernelKey &key) {
  if (folder.empty()) {
    return std::nullopt;
  }
  std::string path = getPath(key);
  std::optional<std::string> contents = readEntry(path, mostBytes);
  if (!contents) {
    if (sys::fs::is_directory(path)) {
      removeEntry(path);
    }
    ++misses;
    return std::nullopt;
  }
  StringRef bytes = StringRef(*contents).drop_front(std::min(headerBytes, contents->size()));
  if (contents->size() < headerBytes || !StringRef(*contents).starts_with(makeHeader(key, bytes))) {
    removeEntry(path);
    ++misses;
    return std::nullopt;
  }
  ++hits;
  contents->erase(0, headerBytes);
  return contents;
}

/// Writes all bytes; returns an errno, 0 on success.
static int writeAll(int file, StringRef bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      return errno;
    }
    bytes = bytes.drop_front(count < 0 ? 0 : static_cast<size_t>(count));
  }
  return 0;
}

int KernelCache::writeFile(const std::string &path, StringRef header, StringRef bytes) {
  std::string temporary =
      path + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(temporaries++);
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  int file = ::open(temporary.c_str(), flags, 0644);
  if (file < 0 && errno == ENOENT) {
    if (std::error_code error = sys::fs::create_directories(folder, true, sys::fs::owner_all)) {
      return error.value();
    }
    file = ::open(temporary.c_str(), flags, 0644);
  }
  if (file < 0) {
    return errno;
  }
  int error = writeAll(file, header);
  error = error ? error : writeAll(file, bytes);
  int closed = ::close(file) == 0 ? 0 : errno;
  error = error ? error : closed;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) {
    error = errno;
  }
  if (error) {
    ::unlink(temporary.c_str());
  }
  return error;
}

void KernelCache::store(const KernelKey &key, StringRef bytes) {
  if (folder.empty() || isFailed || headerBytes + bytes.size() > mostBytes) {
    return;
  }
  int error = writeFile(getPath(key), makeHeader(key, bytes), bytes);
  if (error == 0) {
    ++stored;
    return;
  }
  isFailed = true;
  std::lock_guard<std::mutex> lock(mutex);
  problem = showPath(folder) + ": cannot store compiled kernels: " + std::strerror(error);
}

void KernelCache::storeParts(const KernelKey &key, ArrayRef<StringRef> parts) {
  std::string bytes;
  for (StringRef part : parts) {
    addLength(bytes, part.size());
    bytes += part;
  }
  store(key, bytes);
}

std::optional<std::vector<std::string>> KernelCache::loadParts(const KernelKey &key, size_t count) {
  std::optional<std::string> bytes = load(key);
  if (!bytes) {
    return std::nullopt;
  }
  std::vector<std::string> parts;
  StringRef rest = *bytes;
  while (rest.size() >= lengthBytes) {
    uint64_t length = 0;
    for (size_t i = lengthBytes; i-- > 0;) {
      length = length << 8 | static_cast<uint8_t>(rest[i]);
    }
    rest = rest.drop_front(lengthBytes);
    if (length > rest.size()) {
      return std::nullopt;
    }
    parts.push_back(rest.take_front(length).str());
    rest = rest.drop_front(length);
  }
  return rest.empty() && parts.size() == count ? std::optional(std::move(parts)) : std::nullopt;
}

std::string KernelCache::getProblem() {
  std::lock_guard<std::mutex> lock(mutex);
  return problem;
}

//===----------------------------------------------------------------------===//
// Eviction
//===----------------------------------------------------------------------===//

namespace {

struct Entry {
  std::string path;
  uint64_t bytes = 0;
  std::pair<int64_t, int64_t> used; ///< seconds, nanoseconds
};

} // namespace

/// Returns true if `name` starts like the name of an entry: other files in the folder are not
/// removed.
static bool startsAsEntry(StringRef name) {
  return name.size() > 2 * hashBytes && all_of(name.take_front(2 * hashBytes), isHexDigit);
}

/// Lists the entries of `folder` and removes temporary files of processes that were killed.
static std::vector<Entry> listEntries(const std::string &folder) {
  constexpr time_t mostSeconds = 3600;
  std::vector<Entry> entries;
  DIR *directory = ::opendir(folder.c_str());
  while (dirent *each = directory ? ::readdir(directory) : nullptr) {
    StringRef name = each->d_name;
    if (!startsAsEntry(name)) {
      continue;
    }
    StringRef rest = name.drop_front(2 * hashBytes);
    std::string path = folder + "/" + name.str();
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
      continue;
    }
    if (rest == entrySuffix) {
      entries.push_back({path,
                         static_cast<uint64_t>(status.st_size),
                         {status.st_mtim.tv_sec, status.st_mtim.tv_nsec}});
    } else if (rest.starts_with(temporaryMark) &&
               status.st_mtim.tv_sec + mostSeconds < ::time(nullptr)) {
      ::unlink(path.c_str());
    }
  }
  if (directory) {
    ::closedir(directory);
  }
  return entries;
}

void KernelCache::trim() {
  if (stored == 0) {
    return;
  }
  std::vector<Entry> entries = listEntries(folder);
  uint64_t total = 0;
  for (const Entry &entry : entries) {
    total += entry.bytes;
  }
  if (total <= mostBytes) {
    return;
  }
  llvm::sort(entries, [](const Entry &a, const Entry &b) {
    return std::tie(a.used, a.path) < std::tie(b.used, b.path);
  });
  // Frees a tenth more than needed, so that not every compile lists and removes.
  uint64_t wanted = mostBytes / 10 * 9;
  for (const Entry &entry : entries) {
    if (total <= wanted) {
      break;
    }
    ::unlink(entry.path.c_str());
    total -= entry.bytes;
  }
}

//===----------------------------------------------------------------------===//
// Settings
//===----------------------------------------------------------------------===//

static std::string getVariable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// Returns the folder for caches of programs, by the XDG base directory specification, which
/// ignores relative names; empty if the environment has none.
static std::string getDefaultFolder() {
  std::string base = getVariable("XDG_CACHE_HOME"), home = getVariable("HOME");
  if (!sys::path::is_absolute(base)) {
    base = sys::path::is_absolute(home) ? home + "/.cache" : "";
  }
  return base.empty() ? "" : base + "/sluice/kernels";
}

Expected<KernelCacheSetting> sluice::findKernelCache(const std::string &value) {
  KernelCacheSetting setting;
  std::string size = getVariable("SLUICE_KERNEL_CACHE_SIZE");
  if (!size.empty()) {
    std::optional<int64_t> bytes = findByteSize(size);
    if (!bytes) {
      return createStringError("SLUICE_KERNEL_CACHE_SIZE: expected a size such as 512MiB, 1.5GiB "
                               "or 1000000 (bytes), found " +
                               quote(size) + "; change or unset it");
    }
    setting.mostBytes = static_cast<uint64_t>(*bytes);
  }
  std::string named = value.empty() ? getVariable("SLUICE_KERNEL_CACHE") : value;
  setting.isNamed = !named.empty();
  setting.folder = StringRef(named).equals_insensitive("off") ? ""
                   : named.empty()                            ? getDefaultFolder()
                                                              : named;
  return setting;
}
