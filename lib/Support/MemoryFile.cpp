// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/MemoryFile.h"

#include "sluice/Support/Error.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sluice {

[[noreturn]] static void fail(const char *doing, int error) {
  throw JobError(std::string("cannot ") + doing + " a file in memory: " + std::strerror(error) +
                 (error == EMFILE || error == ENFILE ? "; raise the limit on open files (ulimit -n)"
                                                     : "; free memory"));
}

MemoryFile::MemoryFile(const char *name) : fd(::memfd_create(name, 0)) {
  if (fd < 0) {
    fail("make", errno);
  }
}

MemoryFile::~MemoryFile() { ::close(fd); }

void MemoryFile::write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      fail("write", errno);
    }
    bytes = bytes.subspan(count < 0 ? 0 : static_cast<size_t>(count));
  }
}

std::string MemoryFile::read(size_t spare) const {
  struct stat status{};
  if (::fstat(fd, &status) != 0) {
    fail("read", errno);
  }
  std::string contents;
  contents.reserve(static_cast<size_t>(status.st_size) + spare);
  contents.resize(static_cast<size_t>(status.st_size));
  for (size_t done = 0; done < contents.size();) {
    ssize_t count =
        ::pread(fd, contents.data() + done, contents.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      fail("read", count < 0 ? errno : EIO);
    }
    done += static_cast<size_t>(count);
  }
  return contents;
}

std::string MemoryFile::path() const { return "/proc/self/fd/" + std::to_string(fd); }

} // namespace sluice
