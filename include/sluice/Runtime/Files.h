// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whole files in and out. Every failure is a UserError that names the path and the reason.
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

/// Throws unless `path` is a readable regular file. `what` names its role: "artifact", "data file".
void requireFile(const Path &path, std::string_view what);

std::vector<uint8_t> readBytes(const Path &path, std::string_view what);
std::string readText(const Path &path, std::string_view what);

/// Writes and fsyncs; leaves no file behind where it fails.
void writeSynced(const Path &path, std::span<const uint8_t> bytes);

/// Writes a temporary file beside `path`, fsyncs it, renames it over `path` and fsyncs the folder:
/// a reader or a crash sees the old contents or the new, never a part. Refuses a `path` that is
/// there and not a regular file: a directory, or a device, which a rename would replace.
void replaceFile(const Path &path, std::span<const uint8_t> bytes);

/// Makes renames and new names in `folder` durable.
void syncFolder(const Path &folder);

/// Creates `folder` and its parents.
void makeFolder(const Path &folder);

} // namespace sluice::runtime
