// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of data: text, whose bytes are token ids, compressed or not, and streams. Every command
// that reads data opens it here.
#pragma once

#include "sluice/Runtime/FileContents.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace sluice::runtime {

/// A file of data that is of another known format than text. `--raw` reads its bytes.
class FormatError : public UserError {
public:
  using UserError::UserError;
};

/// A file whose bytes are token ids.
struct ByteFile {
  Path path;                           ///< as given; for messages
  FileContents bytes;                  ///< decompressed
  Path kept = {};                      ///< of a stream: where the run has its own copy; else empty
  bool unpacked = false;               ///< the file itself has other bytes
  std::vector<std::string> notes = {}; ///< what a user should know of it, a line each

  /// Returns the path under which a later run finds the data.
  const Path &source() const { return kept.empty() ? path : kept; }
};

/// Copies of the streams (standard input, pipes) that one role of a run reads, as files in a folder
/// of the run. Stream i of the role, from 1, is copy i: a resumed run reads it instead.
class StreamCopies {
public:
  /// `folder` need not exist; copies are named `prefix`1 and on. Temporary files are written to
  /// `temporary`, which must exist and should be on the same disk. With `reuse`, copies that exist
  /// are read instead of streams.
  StreamCopies(Path folder, std::string prefix, Path temporary, bool reuse);

  struct Copy {
    Path stream, path;
    FileContents contents;
    bool isReused = false; ///< read from `path` and not from the stream
  };

  /// Adds the copy of the next stream. Its contents are to be read.
  Copy &add(const Path &stream);
  /// Writes the copies.
  void save() const;
  const std::deque<Copy> &all() const { return copies; }
  bool hasRead() const; ///< a stream, which cannot be read again
  const Path &temporaryFolder() const { return temporary; }

private:
  Path folder, temporary;
  std::string prefix;
  bool reuse;
  std::deque<Copy> copies; // which stay where they are
};

/// How files of data are read.
struct ReadingOptions {
  bool isRaw = false;                         ///< a file's own bytes, whatever it is
  std::shared_ptr<StreamCopies> streams = {}; ///< null: streams leave no copy
};

/// Opens a file of data, or reads a stream: standard input where the name is "-", or a pipe such as
/// a shell's <(...). gzip and zstd data are decompressed, to a temporary file. `what` names its
/// role. Throws FormatError where the file, or what it decompresses to, is of another known format,
/// and UserError where it is damaged.
ByteFile openByteFile(const Path &path, std::string_view what, const ReadingOptions &reading = {});

/// Opens files, checking that each byte is below `vocabulary` and that each file has at least
/// `least` bytes, which `why` explains. Throws UserError with the path, and the offset of an
/// offending byte, and as openByteFile does. With `skipped`, files that are too short are left out
/// and named there, as long as one is long enough.
std::vector<ByteFile> readByteFiles(const std::vector<Path> &paths, int64_t vocabulary,
                                    int64_t least, const std::string &why,
                                    std::vector<ByteFile> *skipped = nullptr,
                                    const ReadingOptions &reading = {});

/// "skipped 2 of 9 files, shorter than 17 bytes (the context and one byte to predict): a, b; join
/// ..."; empty where none was.
std::string describeSkipped(const std::vector<ByteFile> &skipped, size_t files, int64_t least,
                            const std::string &why);

/// The notes of files, a few of many.
std::vector<std::string> collectNotes(const std::vector<ByteFile> &files);

/// SHA-256 over the SHA-256 sums of the files' contents, in order.
std::string hashFiles(const std::vector<ByteFile> &files);

} // namespace sluice::runtime
