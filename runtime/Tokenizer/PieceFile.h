// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the fields of a SentencePiece model (a protocol buffer, sentencepiece_model.proto) that
// losslessness depends on, and checks them before SentencePiece reads the model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::runtime {

enum class PieceType : uint64_t { Normal = 1, Unknown, Control, UserDefined, Unused, Byte };

struct Piece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::Normal;
};

struct PieceFile {
  std::vector<Piece> pieces;
  uint64_t modelType = 1;        ///< 1 unigram, 2 bpe, 3 word, 4 char
  bool addsPrefix = true;        ///< a space before a text
  bool removesWhitespace = true; ///< repeated spaces, and spaces at both ends
  bool escapesWhitespace = true; ///< U+2581 for a space
  bool hasNormalization = false; ///< rules that replace characters
  bool hasDenormalization = false;

  bool changesText() const {
    return addsPrefix || removesWhitespace || !escapesWhitespace || hasNormalization ||
           hasDenormalization;
  }
};

/// Throws UserError if `model` is not a protocol buffer of this type, or if its pieces are not
/// distinct non-empty texts with finite scores. `origin` starts the message.
PieceFile parsePieceFile(std::string_view model, const std::string &origin);

/// Returns the bytes that, appended to a model, switch off each setting that changes text: the last
/// value of a field counts.
std::string_view getLosslessSettings();

} // namespace sluice::runtime
