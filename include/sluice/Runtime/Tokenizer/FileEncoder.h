// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Encodes files of data with a tokenizer, once for each text.
#pragma once

#include "sluice/Runtime/Data/ByteFiles.h"
#include "sluice/Runtime/Tokenizer/Tokenizer.h"

namespace sluice::runtime {

/// The file in a run for its tokenizer.
inline constexpr const char *runTokenizer = "tokenizer.tok";

/// Returns an encoder whose files of ids are stored in `folder`, named by the hashes of text and
/// tokenizer; the folder is created when needed. An empty `folder` is
/// $XDG_CACHE_HOME/sluice/tokens, else ~/.cache/sluice/tokens. Each text is encoded on `threads`
/// threads. Throws UserError if SLUICE_TOKEN_CACHE_SIZE, the maximum size of the folder, is not a
/// size.
std::shared_ptr<const TextEncoder> makeFileEncoder(const Tokenizer &tokenizer, int threads,
                                                   const Path &folder = {});

/// Removes the least recently used files of ids in `folder` until the others have at most
/// `mostBytes`, and temporary files that are older than an hour. Other files stay. A process that
/// has opened a file continues to read it.
void trimTokenFolder(const Path &folder, uint64_t mostBytes);

} // namespace sluice::runtime
