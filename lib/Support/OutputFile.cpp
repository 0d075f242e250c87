// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/OutputFile.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/FileCalls.h"
#include "sluice/Support/Text.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace sluice {
namespace {

/// Separates a file's name from the id of the process that writes it.
constexpr std::string_view temporaryMark = ".tmp-";

Path getFolder(const Path &path) { return path.has_parent_path() ? path.parent_path() : Path("."); }

/// Returns the prefix of the names of temporary files for `path`, short enough for every file
/// system.
std::string getTemporaryPrefix(const Path &path) {
  constexpr size_t longest = 240;
  return path.filename().native().substr(0, longest) + std::string(temporaryMark);
}

/// Removes temporary files of ended processes that wrote `path`. Ids of processes in other
/// containers are meaningless here; such processes are recognized by their lock.
void removeLeftovers(const Path &path) {
  std::string start = getTemporaryPrefix(path);
  std::error_code error;
  for (std::filesystem::directory_iterator entries(getFolder(path), error), end;
       !error && entries != end; entries.increment(error)) {
    std::string name = entries->path().filename().native();
    std::string digits = name.starts_with(start) ? name.substr(start.size()) : "";
    if (digits.empty() || digits.size() > 9 ||
        digits.find_first_not_of("0123456789") != std::string::npos ||
        ::kill(static_cast<pid_t>(std::stol(digits)), 0) == 0 || errno != ESRCH) {
      continue;
    }
    Descriptor file(
        ::open(entries->path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    if (file.fd >= 0 && ::flock(file.fd, LOCK_EX | LOCK_NB) == 0) {
      ::unlink(entries->path().c_str());
    }
  }
}

/// Returns the path through which a descriptor of this process can be linked.
std::string getDescriptorPath(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

} // namespace

Path resolveOutput(const Path &path) {
  constexpr int mostLinks = 40; // the kernel's limit
  Path current = path;
  for (int links = 0;; ++links) {
    std::error_code error;
    if (isDescriptor(std::filesystem::absolute(current, error))) {
      throw UserError(showPath(path.native()) +
                      ": expected the name of a file to write, found a stream of a process; name a "
                      "file, which is replaced as a whole");
    }
    Path next = std::filesystem::read_symlink(current, error);
    if (error) {
      return current; // not a link, or missing
    }
    if (links == mostLinks) {
      failAt(path, "write", ELOOP);
    }
    current = next.is_absolute() ? next : getFolder(current) / next;
  }
}

void requireWritable(const Path &path) {
  if (path.empty()) {
    throw UserError("expected the name of a file to write, found an empty one; name a file");
  }
  std::string shown = showPath(path.native());
  if (shown == "-") {
    throw UserError("-: expected the name of a file to write, found the sign for a stream; name a "
                    "file, which is replaced as a whole (one of this name is ./-)");
  }
  mode_t kind = getFileType(path);
  if (kind != 0 && !S_ISREG(kind)) {
    throw UserError(shown + ": expected the name of a file to write, found " +
                    (S_ISDIR(kind) ? "a directory" : "something not a regular file") +
                    "; name another file");
  }
  if (!path.has_filename()) {
    throw UserError(shown + ": expected the name of a file to write, found one that ends in a "
                            "slash; name a file");
  }
  Path target = resolveOutput(path), folder = getFolder(target);
  if (!isFolder(folder)) {
    throw UserError(shown + ": expected a folder to write into, found no folder " +
                    showPath(folder.native()) + "; create it or name another file");
  }
  if ((kind != 0 && ::access(target.c_str(), W_OK) != 0) ||
      ::access(folder.c_str(), W_OK | X_OK) != 0) {
    failAt(path, "write", errno);
  }
}

OutputFile::OutputFile(const Path &path) : path(path) {
  requireWritable(path);
  target = resolveOutput(path);
  temporary = getFolder(target) / (getTemporaryPrefix(target) + std::to_string(::getpid()));
  open();
  ::flock(fd, LOCK_EX | LOCK_NB); // without locks, the process id has to suffice
  struct stat replaced{};
  if (::stat(target.c_str(), &replaced) == 0 && ::fchmod(fd, replaced.st_mode & 07777) != 0) {
    fail(errno);
  }
}

OutputFile::~OutputFile() { discard(); }

void OutputFile::open() {
  constexpr mode_t mode = 0644;
  fd = ::open(getFolder(target).c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
  if (fd >= 0 && ::access(getDescriptorPath(fd).c_str(), F_OK) != 0) {
    ::close(fd); // without /proc the file could not be named later
    fd = -1;
    errno = EOPNOTSUPP;
  }
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT)) {
    fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    isNamed = fd >= 0;
  }
  if (fd < 0) {
    failAt(path, "write", errno);
  }
}

void OutputFile::discard() noexcept {
  if (fd >= 0) {
    ::close(fd);
    fd = -1;
  }
  if (isNamed) {
    ::unlink(temporary.c_str());
    isNamed = false;
  }
}

void OutputFile::fail(int error) {
  discard();
  failAt(path, "write", error);
}

void OutputFile::write(std::span<const uint8_t> bytes) {
  if (int error = writeAll(fd, bytes)) {
    fail(error);
  }
}

/// Gives an unnamed file `name`, which must not exist.
static bool linkUnnamed(int fd, const Path &name) {
  return ::linkat(AT_FDCWD, getDescriptorPath(fd).c_str(), AT_FDCWD, name.c_str(),
                  AT_SYMLINK_FOLLOW) == 0;
}

void OutputFile::nameTemporary() {
  ::unlink(temporary.c_str()); // a leftover of an earlier process with this id
  if (!linkUnnamed(fd, temporary)) {
    fail(errno);
  }
  isNamed = true;
}

/// Gives the file its name. A link cannot replace a file, but a rename can, so the new file first
/// gets a temporary name if `path` exists.
void OutputFile::publish() {
  if (!isNamed) {
    if (linkUnnamed(fd, target)) {
      return;
    }
    if (errno != EEXIST) {
      fail(errno);
    }
    nameTemporary();
  }
  if (::rename(temporary.c_str(), target.c_str()) != 0) {
    fail(errno);
  }
  isNamed = false;
}

void OutputFile::stage() {
  if (::fsync(fd) != 0) {
    fail(errno);
  }
  if (!isNamed) {
    nameTemporary();
  }
  isStaged = true;
}

void OutputFile::finish() {
  if (!isStaged && ::fsync(fd) != 0) {
    fail(errno);
  }
  publish();
  ::close(fd);
  fd = -1;
  syncFolder(getFolder(target));
  removeLeftovers(target);
}

void replaceFile(const Path &path, std::span<const uint8_t> bytes) {
  OutputFile file(path);
  file.write(bytes);
  file.finish();
}

} // namespace sluice
