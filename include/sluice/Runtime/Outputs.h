// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks the files that a command is about to write.
#pragma once

#include "sluice/Runtime/FileKind.h"

#include <string>
#include <vector>

namespace sluice::runtime {

/// A file that a command is asked to write.
struct Output {
  std::string flag; ///< the flag that names it: "--picture"
  Path path;        ///< empty: the flag is not given
  FileKind kind;    ///< the kind of the new file
};

/// Throws UserError where writing an output would lose something, before any work is done:
/// - it cannot be written (see requireWritable), or two of them are one file;
/// - it is one of `inputs`, the files and folders that the command reads;
/// - it belongs to a run or a checkpoint, read or not: a page, a picture or an array may be written
///   into a run's folder, its own files and checkpoints are never replaced;
/// - it replaces a file of another kind, by its contents, or its name ends as those of another kind
///   do, and `force` is not given. An empty file may be replaced.
void checkOutputs(const std::vector<Output> &outputs, const std::vector<Path> &inputs, bool force);

/// Checks a folder for files of fixed `names`: it must be new and no part of a run, or hold none of
/// them, or all of `marks`, which an earlier call of the command has written.
void checkOutputFolder(const std::string &flag, const Path &folder,
                       const std::vector<std::string> &names, const std::vector<std::string> &marks,
                       const std::vector<Path> &inputs, bool force);

} // namespace sluice::runtime
