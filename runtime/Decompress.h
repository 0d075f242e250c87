// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text that gzip or zstd compressed.
#pragma once

#include "sluice/Runtime/FileContents.h"

namespace sluice::runtime {

enum class Compression { None, Gzip, Zstd };

/// What a result may grow to: text does not, so that a small file cannot fill a disk.
struct GrowthLimit {
  size_t bytes = size_t(1) << 30; ///< a result of at most so many bytes may have any ratio
  size_t ratio = 1000;            ///< of the result's bytes to the file's
};

/// Whether `bytes` begin as every gzip member, or zstd frame, does.
bool hasHeader(std::span<const uint8_t> bytes, Compression compression);

/// The compression of a file that starts with the bytes `head`, all of it or its beginning: the
/// format's header followed by data that decompress. Else None.
Compression findCompression(std::span<const uint8_t> head);

/// Writes the decompressed contents of all members of a gzip file, or frames of a zstd file, to
/// `into`. Returns how many there are. Throws UserError
/// with the path and an offset where the file is cut short or damaged, where other bytes follow,
/// and where the result exceeds `limit`.
int64_t decompress(const FileContents &packed, Compression compression, const Path &path,
                   TemporaryFile &into, const GrowthLimit &limit = {});

} // namespace sluice::runtime
