// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Trains tokenizers with SentencePiece, and imports models of other programs.
#pragma once

#include "sluice/Runtime/Data/ByteFiles.h"
#include "sluice/Runtime/Tokenizer/Tokenizer.h"

namespace sluice::runtime {

struct TokenizerTraining {
  int64_t vocabulary = 0;   ///< maximum number of ids, at least 257: <unk> and the bytes
  std::string kind = "bpe"; ///< "bpe", "unigram" or "characters"
  double coverage = 0.9995; ///< share of the text's characters that get tokens of their own
};

/// Trains one tokenizer on all files. Equal bytes and settings result in equal models. The size is
/// smaller than `vocabulary` if the text has too few pieces. Throws UserError if the text has no
/// characters, or more characters than `vocabulary` has room for.
Tokenizer trainTokenizer(const std::vector<ByteFile> &files, const TokenizerTraining &training);

struct ImportedTokenizer {
  Tokenizer tokenizer;
  std::vector<std::string> notes; ///< changed settings of the model, for the user
};

/// Imports a SentencePiece model with byte fallback or the codes of subword-nmt. Text is not
/// normalized, as it must be decoded exactly: settings of a model that change text are switched
/// off. Throws UserError for other files.
ImportedTokenizer importTokenizer(const Path &path);

} // namespace sluice::runtime
