// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads files that may be larger than memory.
#pragma once

#include "sluice/Support/Error.h"
#include "sluice/Support/Files.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::runtime {

/// A file of data that changed while a job read it. Results from before the change are valid.
class DataError : public UserError {
public:
  using UserError::UserError;
};

/// The bytes of a file as they were when it was opened. Small files are held in memory. Each `read`
/// of a larger file calls pread, so memory stays bounded and the page cache holds recent pages. The
/// file is not mapped: access to a mapping that another program has truncated ends the process.
/// Copies share the open file.
///
/// Every function that reads throws JobError if the disk fails, and DataError if the file was
/// truncated or rewritten. A change of a few bytes is found only after `sha256Hex` was called.
/// Appended bytes are not read.
class FileContents {
public:
  /// Bytes that `forEachPiece` reads at once.
  static constexpr size_t pieceBytes = size_t(1) << 20;

  FileContents() = default;
  /// Takes bytes in memory.
  FileContents(std::vector<uint8_t> bytes); // NOLINT: converts implicitly
  /// Takes over the descriptor of a regular file. `name` is for messages.
  static FileContents fromDescriptor(const Path &name, int fd);
  /// Opens a regular file. `what` is its role in messages. Throws as `readBytes` does.
  static FileContents open(const Path &path, std::string_view what);

  size_t size() const { return file ? file->size : 0; }
  bool empty() const { return size() == 0; }
  /// Fills `into` with the bytes from `start` on; all of them exist.
  void read(size_t start, std::span<uint8_t> into) const;
  /// Returns `count` bytes from `start` on, or fewer at the end of the file.
  std::vector<uint8_t> read(size_t start, size_t count) const;
  std::vector<uint8_t> readAll() const { return read(0, size()); }
  /// Calls `action` with the start and the bytes of each piece of [`from`, `to`).
  void forEachPiece(const std::function<void(size_t start, std::span<const uint8_t>)> &action,
                    size_t from = 0, size_t to = SIZE_MAX) const;
  /// Returns the index of the first byte for which `isWrong` holds; size() if there is none.
  size_t find(const std::function<bool(uint8_t)> &isWrong) const;
  /// Returns the SHA-256 of all bytes in lower-case hexadecimal. Computed once.
  const std::string &sha256Hex() const;
  /// Links a file without a name to `path`, or writes a copy there; then calls fsync.
  void saveAs(const Path &path) const;

private:
  struct File {
    Path name;
    std::vector<uint8_t> memory; // the bytes, if there is no descriptor
    int fd = -1;
    size_t size = 0;
    int64_t changed = 0; // time of the last known change, nanoseconds
    std::string sample;  // bytes at even distances, if there is a descriptor
    std::string hash;    // empty: not computed
    File() = default;
    File(const File &) = delete;
    File &operator=(const File &) = delete;
    ~File();
  };
  std::string computeHash() const;
  void readFromFile(size_t start, std::span<uint8_t> into) const;
  [[noreturn]] void failShortened(size_t found) const;
  /// Returns bytes at even distances of a file that is not held in memory.
  std::string readSample() const;
  void checkUnchanged() const;

  std::shared_ptr<File> file;
};

/// The bytes of a file in memory that the system gets back at once, in whole or in part, where an
/// allocator may keep freed memory.
class FileMemory {
public:
  explicit FileMemory(const FileContents &contents);
  FileMemory(FileMemory &&other) noexcept : all(std::exchange(other.all, {})) {}
  FileMemory(const FileMemory &) = delete;
  FileMemory &operator=(const FileMemory &) = delete;
  ~FileMemory();

  std::span<const uint8_t> bytes() const { return all; }
  /// Returns the memory of bytes that are no longer needed to the system; they change.
  void release(std::span<const uint8_t> some) const;

private:
  std::span<uint8_t> all;
};

/// A file without a name for the bytes of a stream. It is removed with the last descriptor.
class TemporaryFile {
public:
  /// Creates the file in `folder`; if that is empty, in $TMPDIR, /var/tmp or /tmp.
  explicit TemporaryFile(const Path &folder);
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;
  ~TemporaryFile();

  /// Throws JobError if the disk is full.
  void write(std::span<const uint8_t> bytes);
  size_t size() const { return written; }
  /// Returns the written bytes. `name` is for messages. Nothing may be written afterwards.
  FileContents finish(const Path &name);

private:
  Path folder;
  int fd = -1;
  size_t written = 0;
};

} // namespace sluice::runtime
