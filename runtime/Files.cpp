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

[[noreturn]] void fail(const Path &path, std::string_view doing, int error) {
  throw UserError(path.string() + ": cannot " + std::string(doing) + ": " + std::strerror(error));
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
  struct stat status {};
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

} // namespace

void requireFile(const Path &path, std::string_view what) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw UserError(path.string() + ": expected the " + std::string(what) + ", found no such file (" +
                    std::strerror(errno) + ")");
  }
  if (S_ISDIR(status.st_mode)) {
    throw UserError(path.string() + ": expected the " + std::string(what) + ", found a directory; name a file");
  }
  if (!S_ISREG(status.st_mode)) {
    throw UserError(path.string() + ": expected the " + std::string(what) + ", found something not a regular file");
  }
}

std::vector<uint8_t> readBytes(const Path &path, std::string_view what) {
  return readAll<std::vector<uint8_t>>(path, what);
}

std::string readText(const Path &path, std::string_view what) { return readAll<std::string>(path, what); }

void writeSynced(const Path &path, std::span<const uint8_t> bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.fd < 0) {
    fail(path, "write", errno);
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
      fail(path, "write", error);
    }
    done += static_cast<size_t>(count);
  }
  if (::fsync(file.fd) != 0) {
    int error = errno;
    ::unlink(path.c_str());
    fail(path, "write to the disk", error);
  }
}

void replaceFile(const Path &path, std::span<const uint8_t> bytes) {
  if (std::filesystem::is_directory(path)) {
    throw UserError(path.string() + ": cannot write: a directory has this name");
  }
  Path temporary = path;
  temporary += ".tmp-" + std::to_string(::getpid());
  writeSynced(temporary, bytes);
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
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder)) {
    throw UserError(folder.string() + ": cannot create the directory: " +
                    (error ? error.message() : std::string("a file has this name")));
  }
}

} // namespace sluice::runtime
