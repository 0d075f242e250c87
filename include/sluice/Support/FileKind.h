// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recognizes files by their contents: for outputs, which replace only files of their own kind, for
// messages about files of the wrong kind, and for data.
#pragma once

#include "sluice/Support/Files.h"

namespace sluice {

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
  Tokenizer,
  TokenCache,
  // Files that are often given in place of the former.
  LfsPointer,
  SentencePiece,
  SubwordCodes,
  HuggingFaceTokenizer,
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

/// Recognizes contents of `size` bytes by their first bytes (up to `mostHead` of them; fewer if
/// there are no more) and their last ones (up to `mostTail`). A file with damage elsewhere keeps
/// its kind.
constexpr size_t mostHead = 4096, mostTail = 64;
FileKind recognize(std::string_view head, std::string_view tail, size_t size);
FileKind recognize(std::span<const uint8_t> contents);

/// Checks for text in an encoding without zero bytes: no control characters except whitespace.
bool isText(std::string_view head);

/// Recognizes the file or folder `path`. Throws UserError or JobError if it cannot be read. A
/// device or a pipe is Binary, and is not read.
FileKind recognizeFile(const Path &path);

/// Checks for the folder of a run, as `sluice train` writes it.
bool isRunFolder(const Path &folder);
/// Checks for the folder of a checkpoint.
bool isCheckpointFolder(const Path &folder);

} // namespace sluice
