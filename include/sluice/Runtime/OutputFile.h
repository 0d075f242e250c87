// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one writer of output files: a file appears whole, or not at all.
#pragma once

#include "sluice/Runtime/Files.h"

namespace sluice::runtime {

/// The place of the file that writing to `path` replaces: `path` itself, or what a symbolic link
/// there leads to. Throws UserError for a loop of links.
Path resolveOutput(const Path &path);

/// Writes a file without a name in the folder of `path`, which replaces `path` in one step when
/// `finish` is called. A process that is killed before leaves nothing; where the file system has no
/// files without names, it leaves `path`.tmp-PID, which the next writer of `path` removes. A file
/// that is replaced passes its permissions on. Every failure is a UserError or a JobError.
class OutputFile {
public:
  /// Throws what `requireWritable` does.
  explicit OutputFile(const Path &path);
  /// Leaves nothing behind unless `finish` was called.
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  void write(std::span<const uint8_t> bytes);
  /// Makes the file durable and puts it in its place.
  void finish();

private:
  void open();
  void publish();
  void discard() noexcept;
  [[noreturn]] void fail(int error);

  Path path;      ///< as the user named it
  Path target;    ///< without symbolic links
  Path temporary; ///< beside `target`; a name that is taken only while `isNamed`
  bool isNamed = false;
  int fd = -1;
};

} // namespace sluice::runtime
