// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recognizes files by their contents: for outputs, which replace files of their own kind alone, and
// for messages about a file of the wrong kind.
#pragma once

#include "sluice/Runtime/Files.h"

namespace sluice::runtime {

enum class FileKind {
  // Files that sluice writes or reads.
  Missing,
  Empty,
  Folder,
  Run,
  Checkpoint,
  Artifact,
  Weights,
  Session,
  Recording,
  Npy,
  Svg,
  Html,
  Certificate,
  Smt,
  Trace,
  Metrics,
  Tuning,
  Spec,
  // Files that are often given in their place.
  LfsPointer,
  PyTorch,
  Pickle,
  Gguf,
  Hdf5,
  Npz,
  Zip,
  Gzip,
  Zstd,
  Bzip2,
  Xz,
  Tar,
  SevenZip,
  Parquet,
  Arrow,
  Sqlite,
  Png,
  Jpeg,
  Pdf,
  Elf,
  Utf16,
  Utf32,
  Json,
  Text,
  Binary,
};

/// Recognizes contents of `size` bytes by their first bytes (up to `mostHead` of them; fewer only
/// where there are no more) and their last ones (up to `mostTail`). Nothing else of a file is
/// looked at, so a damaged file has the kind that it had.
constexpr size_t mostHead = 4096, mostTail = 64;
FileKind recognize(std::string_view head, std::string_view tail, size_t size);
FileKind recognize(std::span<const uint8_t> contents);

/// Checks for text of any encoding that has no zero bytes: no control characters but white space.
bool isText(std::string_view head);

/// Recognizes what `path` names. Throws UserError or JobError where it cannot be read. A device or
/// a pipe is Binary, and is not read.
FileKind recognizeFile(const Path &path);

/// The folder of a run: what `sluice train` writes.
bool isRunFolder(const Path &folder);
/// The folder of a checkpoint.
bool isCheckpointFolder(const Path &folder);

/// The kind for a message: "a Sluice artifact", "a Git LFS pointer".
std::string_view describe(FileKind kind);

/// Whether `found` can be told from files of `expected` by `recognize`. Text and Binary cannot: a
/// parser's message says more about them.
bool isMixUp(FileKind expected, FileKind found);

/// "found an HTML page; download the file itself": what was found in place of a file of the kind
/// `expected`, and what to do. `path` is named in commands of the remedy.
std::string explainMixUp(FileKind expected, FileKind found, const Path &path);

/// Throws UserError "PATH: expected ROLE, " and explainMixUp where `path` is of a kind that is
/// another one for sure.
void requireKind(const Path &path, FileKind expected, std::string_view role);

} // namespace sluice::runtime
