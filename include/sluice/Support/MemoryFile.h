// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files in memory for other programs. They need no folder, and a killed process leaves nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace sluice {

/// A file in memory that exists while a process has it open. Every failure is a JobError.
class MemoryFile {
public:
  /// `name` appears in the system's list of a process's files.
  explicit MemoryFile(const char *name);
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  ~MemoryFile();

  /// Appends bytes.
  void write(std::span<const uint8_t> bytes);
  /// Returns the contents in a string with capacity for `spare` more bytes.
  std::string read(size_t spare = 0) const;
  /// Returns the path of the file in this process and in child processes.
  std::string path() const;
  int descriptor() const { return fd; }

private:
  int fd;
};

} // namespace sluice
