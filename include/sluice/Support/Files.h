// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations on files and folders. No other code in sluice calls throwing functions of
// <filesystem>, so every failure has a message with the path, the reason and a remedy. Errors are
// UserErrors, or JobErrors if the machine failed (disk full, I/O error, no file handle left).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

using Path = std::filesystem::path;

inline std::span<const uint8_t> asBytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

/// Checks for a file of this name. Throws if the answer is unknown: a parent folder is not
/// searchable, symbolic links form a loop, or the name is too long.
bool isThere(const Path &path);
bool isFolder(const Path &path);      ///< throws as isThere does
bool isRegularFile(const Path &path); ///< throws as isThere does

/// Checks that both are names of the same file; false if either does not exist or is inaccessible.
bool isSameFile(const Path &a, const Path &b);

/// Returns the sorted names in `folder`, without `.` and `..`. Throws if it cannot be read.
std::vector<std::string> listFolder(const Path &folder);

/// Removes a file, or a folder with its contents, as far as possible. Errors are ignored.
void removeAll(const Path &path) noexcept;

/// Throws on failure.
void moveFile(const Path &from, const Path &to);

/// Throws unless `path` is a readable regular file; reading a pipe could block forever. `what` is
/// its role in messages: "artifact", "data file".
void requireFile(const Path &path, std::string_view what);

/// Reads at most `most` bytes; throws if the file is larger.
std::vector<uint8_t> readBytes(const Path &path, std::string_view what, size_t most = SIZE_MAX);
std::string readText(const Path &path, std::string_view what, size_t most = SIZE_MAX);

/// Writes a file and fsyncs it; removes it on failure.
void writeSynced(const Path &path, std::span<const uint8_t> bytes);

/// Appends to a file, in one piece if there is space; creates a missing file.
void appendFile(const Path &path, std::span<const uint8_t> bytes);

/// Makes renames and new names in `folder` durable with fsync.
void syncFolder(const Path &folder);

/// Creates `folder` and its parents.
void makeFolder(const Path &folder);

/// Throws JobError if the errno `error` is a failure of the machine, otherwise UserError. `message`
/// ends with a description of the failure.
[[noreturn]] void failWith(const std::string &message, int error);

/// Checks for errors of the machine, as opposed to errors in the user's input.
bool isMachineFailure(int error);

} // namespace sluice
