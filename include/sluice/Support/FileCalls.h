// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// System calls on files with messages for failures.
#pragma once

#include "sluice/Support/Files.h"

#include <sys/types.h>
#include <unistd.h>

namespace sluice {

/// Returns a remedy for an errno: "; free memory".
const char *describeRemedy(int error);

/// Throws "PATH: cannot DOING: REASON; REMEDY" for the errno `error`: a UserError, or a JobError if
/// the machine failed.
[[noreturn]] void failAt(const Path &path, std::string_view doing, int error);

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

/// Returns the type of a file, S_IFREG and so on; 0 if `path` does not exist.
mode_t getFileType(const Path &path);

/// Checks for the name of an open file of a process, such as /dev/fd/3. It may refer to a regular
/// file, but a rename would replace only the name, and other processes cannot find it.
bool isDescriptor(const Path &path);

/// Writes all bytes. Returns an errno, or 0.
int writeAll(int fd, std::span<const uint8_t> bytes);

} // namespace sluice
