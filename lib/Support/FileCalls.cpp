// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Support/FileCalls.h"

#include "sluice/Support/Text.h"

#include <cerrno>
#include <cstring>
#include <sys/stat.h>

namespace sluice {

const char *describeRemedy(int error) {
  switch (error) {
  case EACCES:
  case EPERM:
    return "; change its permissions or name another place";
  case EROFS:
    return "; name a place on a disk that can be written";
  case ENOSPC:
  case EDQUOT:
    return "; free space on the disk or name another place";
  case EFBIG:
    return "; raise the limit on the size of files (ulimit -f) or name another place";
  case EIO:
    return "; check the disk, or name another place";
  case EMFILE:
  case ENFILE:
    return "; raise the limit on open files (ulimit -n)";
  case ENOMEM:
    return "; free memory";
  case ENAMETOOLONG:
    return "; use a shorter name";
  case ELOOP:
    return "; fix the symbolic links or name another place";
  case ENOENT:
  case ENOTDIR:
    return "; check the path";
  default:
    return "; name another place";
  }
}

void failAt(const Path &path, std::string_view doing, int error) {
  failWith(showPath(path.native()) + ": cannot " + std::string(doing) + ": " +
               std::strerror(error) + describeRemedy(error),
           error);
}

mode_t getFileType(const Path &path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) {
    return status.st_mode & S_IFMT;
  }
  if (errno == ENOENT || errno == ENOTDIR) {
    return 0;
  }
  failAt(path, "look at it", errno);
}

int writeAll(int fd, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      return errno;
    }
    bytes = bytes.subspan(count < 0 ? 0 : static_cast<size_t>(count));
  }
  return 0;
}

bool isDescriptor(const Path &path) {
  const std::string &name = path.native();
  return name == "/dev/stdin" || name.starts_with("/dev/fd/") ||
         (name.starts_with("/proc/") && name.find("/fd/") != std::string::npos);
}

} // namespace sluice
