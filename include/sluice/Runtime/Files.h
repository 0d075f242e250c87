// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files and folders. Nothing else in sluice calls what throws of the file system, so that every
// failure is one message that names the path, the reason and a remedy: a UserError, or a JobError
// where the machine failed and not what the user named (a full disk, an I/O error, no file handle
// left).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::runtime {

using Path = std::filesystem::path;

inline std::span<const uint8_t> asBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

/// Whether something has this name. Throws where that cannot be known: a parent folder that may not
/// be searched, a loop of symbolic links, a name that is too long.
bool isThere(const Path &path);
bool isFolder(const Path &path);      ///< likewise
bool isRegularFile(const Path &path); ///< likewise

/// Whether both are names of one file; false where one of them is not there or cannot be looked at.
bool isSameFile(const Path &a, const Path &b);

/// Names in `folder`, sorted, without `.` and `..`. Throws where it cannot be read.
std::vector<std::string> listFolder(const Path &folder);

/// Removes a file, or a folder and all in it, as far as that goes: for what is no longer wanted,
/// where failing helps nobody.
void removeAll(const Path &path) noexcept;

/// Throws where it fails.
void moveFile(const Path &from, const Path &to);

/// Throws unless `path` is a readable regular file: a pipe could keep a job waiting for ever.
/// `what` names its role: "artifact", "data file".
void requireFile(const Path &path, std::string_view what);

/// Reads at most `most` bytes; throws where the file has more.
std::vector<uint8_t> readBytes(const Path &path, std::string_view what, size_t most = SIZE_MAX);
std::string readText(const Path &path, std::string_view what, size_t most = SIZE_MAX);

/// Writes and fsyncs; leaves no file behind where it fails.
void writeSynced(const Path &path, std::span<const uint8_t> bytes);

/// Writes behind what the file has, in one piece where there is room; makes the file where there is
/// none.
void appendFile(const Path &path, std::span<const uint8_t> bytes);

/// Throws where `replaceFile` could not write `path`, as far as that shows before: an empty name, a
/// directory, a device (which a rename would take away from every program of the machine), a folder
/// that is not there. For before a long job.
void requireWritable(const Path &path);

/// Writes a temporary file beside `path`, fsyncs it, renames it over `path` and fsyncs the folder:
/// a reader or a crash sees the old contents or the new, never a part. Refuses what
/// `requireWritable` does. Removes what a killed process left there of the same.
void replaceFile(const Path &path, std::span<const uint8_t> bytes);

/// Makes renames and new names in `folder` durable.
void syncFolder(const Path &folder);

/// Creates `folder` and its parents.
void makeFolder(const Path &folder);

/// Throws JobError where `error`, an errno, is the machine's failure, else UserError. `message`
/// ends in what went wrong.
[[noreturn]] void failWith(const std::string &message, int error);

/// Whether `error` says that the machine failed, and not what the user named.
bool isMachineFailure(int error);

} // namespace sluice::runtime
