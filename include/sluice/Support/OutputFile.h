// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes output files, which appear whole or not at all.
#pragma once

#include "sluice/Support/Files.h"

namespace sluice {

/// Returns the path of the file that writing to `path` replaces: `path` itself, or the target of a
/// symbolic link. Throws UserError for a loop of links.
Path resolveOutput(const Path &path);

/// Writes an unnamed file in the folder of `path`, which replaces `path` atomically in `finish`. A
/// process that is killed earlier leaves nothing; on file systems without unnamed files it leaves
/// `path`.tmp-PID, which the next writer of `path` removes. The permissions of a replaced file are
/// preserved. Every failure is a UserError or a JobError.
class OutputFile {
public:
  /// Throws as `requireWritable` does.
  explicit OutputFile(const Path &path);
  /// Removes the file unless `finish` was called.
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  void write(std::span<const uint8_t> bytes);
  /// Makes the file durable, next to `path`, so that only a rename is left for `finish`. For files
  /// that belong together: stage all of them before the first `finish`.
  void stage();
  /// Makes the file durable and gives it its name.
  void finish();

private:
  void open();
  void nameTemporary();
  void publish();
  void discard() noexcept;
  [[noreturn]] void fail(int error);

  Path path;      ///< as given by the user
  Path target;    ///< with symbolic links resolved
  Path temporary; ///< in the folder of `target`; exists only while `isNamed`
  bool isNamed = false, isStaged = false;
  int fd = -1;
};

/// Throws if it is certain that `replaceFile` cannot write `path`: an empty name, a directory, a
/// device (which a rename would remove for every program of the machine), or a missing folder. Call
/// it before a long job.
void requireWritable(const Path &path);

/// Writes a temporary file next to `path`, fsyncs it, renames it to `path` and fsyncs the folder:
/// after a crash, and for concurrent readers, `path` has either the old or the new contents.
/// Rejects the same paths as `requireWritable`. Removes temporary files of killed processes for the
/// same `path`.
void replaceFile(const Path &path, std::span<const uint8_t> bytes);

} // namespace sluice
