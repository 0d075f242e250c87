// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decompression of gzip and zstd text.
#pragma once

#include "sluice/Runtime/FileContents.h"

namespace sluice::runtime {

enum class Compression { None, Gzip, Zstd };

/// Limits how far a file may grow, so that a small file cannot fill a disk. Text stays below.
struct GrowthLimit {
  size_t bytes = size_t(1) << 30; ///< a result of at most this size may have any ratio
  size_t ratio = 1000;            ///< the result's bytes over the bytes of the file
};

/// Returns the compression of a file by the header of its first gzip member or zstd frame. A zstd
/// file may begin with skippable frames. The data after the header may still be damaged.
Compression findCompression(const FileContents &contents);

/// Writes the decompressed contents of all members of a gzip file, or frames of a zstd file, to
/// `into`. Returns the number of members. Skippable frames are left out, as are zero bytes that pad
/// a gzip file. Throws FormatError with the path and an offset where the file is cut short or
/// damaged, where other bytes follow, where zstd data need a dictionary or a window above 128 MiB,
/// and where the result exceeds `limit`.
int64_t decompress(const FileContents &packed, Compression compression, const Path &path,
                   TemporaryFile &into, const GrowthLimit &limit = {});

} // namespace sluice::runtime
