// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decompression of gzip and zstd text.
#pragma once

#include "sluice/Runtime/Data/FileContents.h"

namespace sluice::runtime {

enum class Compression { None, Gzip, Zstd };

/// Limits the growth of a file, so that a small file cannot fill a disk. Text stays below the
/// limit.
struct GrowthLimit {
  size_t bytes = size_t(1) << 30; ///< results up to this size may have any ratio
  size_t ratio = 1000;            ///< bytes of the result per byte of the file
};

/// Returns the compression of a file according to the header of its first gzip member or zstd
/// frame. A zstd file may start with skippable frames. The data after the header may still be
/// damaged.
Compression findCompression(const FileContents &contents);

/// Writes the decompressed contents of all members of a gzip file, or frames of a zstd file, to
/// `into`. Returns the number of members. Skips skippable frames, and zero bytes that pad a gzip
/// file. Throws FormatError with the path and an offset if the file is truncated or damaged, if
/// other bytes follow, if zstd data need a dictionary or a window above 128 MiB, or if the result
/// exceeds `limit`.
int64_t decompress(const FileContents &packed, Compression compression, const Path &path,
                   TemporaryFile &into, const GrowthLimit &limit = {});

} // namespace sluice::runtime
