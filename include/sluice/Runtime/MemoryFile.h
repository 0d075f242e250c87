// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files for other programs that a killed process leaves nothing of, and that need no folder.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace sluice::runtime {

/// A file in memory, gone with the processes that have it open. Every failure is a JobError.
class MemoryFile {
public:
  /// `name` is for those who list a process's files.
  explicit MemoryFile(const char *name);
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  ~MemoryFile();

  /// Writes behind what was written.
  void write(std::span<const uint8_t> bytes);
  /// All of it, in a string with room for `spare` bytes more.
  std::string read(size_t spare = 0) const;
  /// Its name in this process and in programs that it starts.
  std::string path() const;
  int descriptor() const { return fd; }

private:
  int fd;
};

} // namespace sluice::runtime
