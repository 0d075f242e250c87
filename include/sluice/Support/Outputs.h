// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks the files that a command is about to write.
#pragma once

#include "sluice/Support/FileKind.h"

#include <functional>
#include <string>
#include <vector>

namespace sluice {

/// Folder of a run with its copies of the streams that it was trained and evaluated on, and the
/// beginnings of their names, which a number follows.
inline constexpr const char *streamsFolder = "data";
inline constexpr const char *trainingStream = "data-", *heldOutStream = "held-out-";

/// A file that a command will write.
struct Output {
  std::string flag; ///< flag that specifies it: "--picture"
  Path path;        ///< empty: the flag is not given
  FileKind kind;    ///< the kind of the new file
};

/// Throws UserError, before any work is done, if writing an output would lose data:
/// - it cannot be written (see requireWritable), or two outputs are the same file;
/// - it is one of `inputs`, the files and folders that the command reads;
/// - it belongs to a run or a checkpoint. A page, a picture or an array may be written into a run's
/// folder, but the run's own files and checkpoints are never replaced;
/// - `force` is not given, and the output replaces a file of another kind, or its name has the
/// extension of another kind. An empty file may be replaced.
void checkOutputs(const std::vector<Output> &outputs, const std::vector<Path> &inputs, bool force);

/// Checks a folder for files of fixed `names`. It must not be part of a run, nor, if there are
/// names, a run or a checkpoint itself. Without `force` it must be new, contain none of the names,
/// or satisfy `isEarlier`, which recognizes the unchanged output of an earlier call of the command.
/// Throws UserError before any work is done.
void checkOutputFolder(const std::string &flag, const Path &folder,
                       const std::vector<std::string> &names,
                       const std::function<bool()> &isEarlier, const std::vector<Path> &inputs,
                       bool force);

} // namespace sluice
