// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/Files.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/FileCalls.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sluice {
namespace {

[[noreturn]] void refuseKind(const Path &path, std::string_view what, mode_t kind) {
  throw UserError(showPath(path.native()) + ": expected the " + std::string(what) + ", found " +
                  (S_ISDIR(kind) ? "a directory; name a file"
                                 : "something not a regular file; save the contents to a file "
                                   "and name that"));
}

template <typename Container>
Container readAll(const Path &path, std::string_view what, size_t most) {
  requireFile(path, what);
  // Without O_NONBLOCK, opening a pipe that has replaced the file would block until there is a
  // writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) {
    failAt(path, "read", errno);
  }
  struct stat status{};
  if (::fstat(file.fd, &status) != 0) {
    failAt(path, "read", errno);
  }
  if (!S_ISREG(status.st_mode)) {
    refuseKind(path, what, status.st_mode);
  }
  auto size = static_cast<size_t>(status.st_size);
  if (size > most) {
    throw UserError(showPath(path.native()) + ": expected the " + std::string(what) +
                    " to have at most " + std::to_string(most) + " bytes, found " +
                    std::to_string(size) + "; name another file");
  }
  Container contents(size, 0);
  size_t done = 0;
  while (done < contents.size()) {
    ssize_t count = ::read(file.fd, contents.data() + done, contents.size() - done);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      failAt(path, "read", errno);
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

bool isMachineFailure(int error) {
  switch (error) {
  case ENOSPC:
  case EDQUOT:
  case EFBIG:
  case EIO:
  case EMFILE:
  case ENFILE:
  case ENOMEM:
  case EAGAIN:
  case EINTR:
  case ESTALE:
    return true;
  default:
    return false;
  }
}

void failWith(const std::string &message, int error) {
  if (isMachineFailure(error)) {
    throw JobError(message);
  }
  throw UserError(message);
}

bool isThere(const Path &path) { return getFileType(path) != 0; }
bool isFolder(const Path &path) { return S_ISDIR(getFileType(path)); }
bool isRegularFile(const Path &path) { return S_ISREG(getFileType(path)); }

bool isSameFile(const Path &a, const Path &b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a, b, ignored);
}

std::vector<std::string> listFolder(const Path &folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error), end;
  for (; !error && entries != end; entries.increment(error)) {
    names.push_back(entries->path().filename().native());
  }
  if (error) {
    failAt(folder, "read the directory", error.value());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void removeAll(const Path &path) noexcept {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

void moveFile(const Path &from, const Path &to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    failAt(to, "write", errno);
  }
}

void requireFile(const Path &path, std::string_view what) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    int error = errno;
    if (path.empty()) {
      throw UserError("expected the " + std::string(what) + ", found an empty name; name a file");
    }
    if (error == ENOENT) {
      throw UserError(showPath(path.native()) + ": expected the " + std::string(what) +
                      ", found no such file" + describeRemedy(error));
    }
    failAt(path, "read the " + std::string(what), error);
  }
  if (!S_ISREG(status.st_mode)) {
    refuseKind(path, what, status.st_mode);
  }
}

std::vector<uint8_t> readBytes(const Path &path, std::string_view what, size_t most) {
  return readAll<std::vector<uint8_t>>(path, what, most);
}

std::string readText(const Path &path, std::string_view what, size_t most) {
  return readAll<std::string>(path, what, most);
}

void writeSynced(const Path &path, std::span<const uint8_t> bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.fd < 0) {
    failAt(path, "write", errno);
  }
  int error = writeAll(file.fd, bytes);
  if (error == 0 && ::fsync(file.fd) != 0) {
    error = errno;
  }
  if (error != 0) {
    ::unlink(path.c_str());
    failAt(path, "write", error);
  }
}

void appendFile(const Path &path, std::span<const uint8_t> bytes) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (file.fd < 0) {
    failAt(path, "write", errno);
  }
  if (int error = writeAll(file.fd, bytes)) {
    failAt(path, "write", error);
  }
}

void syncFolder(const Path &folder) {
  Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.fd < 0 && errno == EACCES) {
    return; // a folder that is writable but not readable: no program can do more
  }
  if (directory.fd < 0 || ::fsync(directory.fd) != 0) {
    failAt(folder, "write the directory to the disk", errno);
  }
}

void makeFolder(const Path &folder) {
  std::error_code error;
  if (folder.empty()) {
    throw UserError("expected the name of a directory, found an empty one; name a directory");
  }
  std::filesystem::create_directories(folder, error);
  if (error) {
    failAt(folder, "create the directory", error.value());
  }
  if (!isFolder(folder)) {
    throw UserError(showPath(folder.native()) +
                    ": expected a directory, found a file of this name; name another directory");
  }
}

} // namespace sluice
