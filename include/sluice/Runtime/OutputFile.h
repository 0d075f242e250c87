// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes output files, which appear whole or not at all.
#pragma once

#include "sluice/Runtime/Files.h"

namespace sluice::runtime {

/// Returns the path of the file that writing to `path` replaces: `path` itself, or the target of a
/// symbolic link. Throws UserError for a loop of links.
Path resolveOutput(const Path &path);

/// Writes a file without a name in the folder of `path`, which replaces `path` in one step when
/// `finish` is called. A process that is killed before leaves nothing; where the file system has no
/// files without names, it leaves `path`.tmp-PID, which the next writer of `path` removes. A file
/// that is replaced passes its permissions on. Every failure is a UserError or a JobError.
class OutputFile {
public:
  /// Throws as `requireWritable` does.
  explicit OutputFile(const Path &path);
  /// Removes the file unless `finish` was called.
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  void write(std::span<const uint8_t> bytes);
  /// Makes the file durable and gives it its name.
  void finish();

private:
  void open();
  void publish();
  void discard() noexcept;
  [[noreturn]] void fail(int error);

  Path path;      ///< as the user named it
  Path target;    ///< without symbolic links
  Path temporary; ///< in the folder of `target`; exists only while `isNamed`
  bool isNamed = false;
  int fd = -1;
};

} // namespace sluice::runtime
