// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of token ids, which are computed once from texts and a tokenizer. docs/plan-and-artifact.md
// specifies the format.
#pragma once

#include "sluice/Runtime/Data/ByteFiles.h"
#include "sluice/Runtime/Tokenizer/Tokenizer.h"

namespace sluice::runtime {

/// The tokens of one text in a cache.
struct CachedText {
  int64_t start = 0, tokens = 0; ///< range of ids
  int64_t bytes = 0;
  std::string sha256;
};

/// The tokens of texts, in a file. Ids are read as needed, so memory does not grow with the data.
class TokenCache {
public:
  /// Opens the file of these texts, in this order, and this tokenizer. Throws UserError if it was
  /// written for others, is damaged or of another kind.
  static TokenCache open(const Path &path, const std::vector<ByteFile> &texts,
                         const Tokenizer &tokenizer);

  int64_t size() const { return tokens; }
  /// Returns the file, and the layout of its ids.
  const FileContents &contents() const { return file; }
  TokenLayout layout() const;
  const std::vector<CachedText> &texts() const { return ranges; }
  /// Fills `ids` with the tokens from `start` on; all of them exist. Throws as FileContents does.
  void read(int64_t start, std::span<int32_t> ids) const;

private:
  FileContents file;
  int64_t tokens = 0, width = 0; ///< width: bytes of an id in the file
  std::vector<CachedText> ranges;
};

/// Opens the cache `path` if it holds the tokens of `texts`; otherwise computes them on `threads`
/// threads and replaces the file, unless that is of another kind (UserError).
TokenCache tokenizeToCache(const std::vector<ByteFile> &texts, const Tokenizer &tokenizer,
                           const Path &path, int threads = 1);

} // namespace sluice::runtime
