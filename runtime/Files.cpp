// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Files.h"

#include "sluice/Runtime/Error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sluice::runtime {
namespace {

/// What a user can do about an errno.
const char *remedyFor(int error) {
  switch (error) {
  case EACCES:
  case EPERM:
    return "; change its permissions or name another place";
  case EROFS:
    return "; name a place on a disk that can be written";
  case ENOSPC:
  case EDQUOT:
    return "; free space on the disk or name another place";
  case ENOENT:
  case ENOTDIR:
    return "; check the path";
  default:
    return "; name another place";
  }
}

[[noreturn]] void fail(const Path &path, std::string_view doing, int error) {
  throw UserError(path.string() + ": cannot " + std::string(doing) + ": " + std::strerror(error) +
                  remedyFor(error));
}

/// A file descriptor that closes itself.
struct Descriptor {
  int fd;
  explicit Descriptor(int fd) : fd(fd) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (fd >= 0) {
      ::close(fd);
    }
  }
};

template <typename Container> Container readAll(const Path &path, std::string_view what) {
  requireFile(path, what);
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0) {
    fail(path, "read", errno);
  }
  struct stat status{};
  if (::fstat(file.fd, &status) != 0) {
    fail(path, "read", errno);
  }
  Container contents(static_cast<size_t>(status.st_size), 0);
  size_t done = 0;
  while (done < contents.size()) {
    ssize_t count = ::read(file.fd, contents.data() + done, contents.size() - done);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      fail(path, "read", errno);
    }
    if (count == 0) {
      break;
    }
    done += static_cast<size_t>(count);
  }
  contents.resize(done);
  return contents;
}

/// Writes and fsyncs `path`; messages say `shown`.
void writeNamed(const Path &path, const Path &shown, std::span<const uint8_t> bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.fd < 0) {
    fail(shown, "write", errno);
  }
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t count = ::write(file.fd, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      int error = errno;
      ::unlink(path.c_str());
      fail(shown, "write", error);
    }
    done += static_cast<size_t>(count);
  }
  if (::fsync(file.fd) != 0) {
    int error = errno;
    ::unlink(path.c_str());
    fail(shown, "write to the disk", error);
  }
}

} // namespace

void requireFile(const Path &path, std::string_view what) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    int error = errno;
    throw UserError(path.string() + ": expected the " + std::string(what) + ", found " +
                    (error == ENOENT ? "no such file" : std::strerror(error)) + remedyFor(error));
  }
  if (S_ISDIR(status.st_mode)) {
    throw UserError(path.string() + ": expected the " + std::string(what) +
                    ", found a directory; name a file");
  }
  if (!S_ISREG(status.st_mode)) {
    throw UserError(path.string() + ": expected the " + std::string(what) +
                    ", found something not a regular file; " +
                    "save the contents to a file and name that");
  }
}

std::vector<uint8_t> readBytes(const Path &path, std::string_view what) {
  return readAll<std::vector<uint8_t>>(path, what);
}

std::string readText(const Path &path, std::string_view what) {
  return readAll<std::string>(path, what);
}

void writeSynced(const Path &path, std::span<const uint8_t> bytes) {
  writeNamed(path, path, bytes);
}

void replaceFile(const Path &path, std::span<const uint8_t> bytes) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    // Renaming over a device such as /dev/null would take it away from every program of the
    // machine.
    throw UserError(path.string() + ": expected the name of a file to write, found " +
                    (S_ISDIR(status.st_mode) ? "a directory" : "something not a regular file") +
                    "; name another file");
  }
  Path temporary = path;
  temporary += ".tmp-" + std::to_string(::getpid());
  writeNamed(temporary, path, bytes);
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    int error = errno;
    ::unlink(temporary.c_str());
    fail(path, "write", error);
  }
  syncFolder(path.has_parent_path() ? path.parent_path() : Path("."));
}

void syncFolder(const Path &folder) {
  Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.fd < 0 || ::fsync(directory.fd) != 0) {
    fail(folder, "write the directory to the disk", errno);
  }
}

void makeFolder(const Path &folder) {
  std::error_code error;
  if (folder.empty()) {
    throw UserError("expected the name of a directory, found an empty one; name a directory");
  }
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw UserError(folder.string() + ": cannot create the directory: " + error.message() +
                    remedyFor(error.value()));
  }
  if (!std::filesystem::is_directory(folder)) {
    throw UserError(folder.string() +
                    ": expected a directory, found a file of this name; name another directory");
  }
}

} // namespace sluice::runtime
