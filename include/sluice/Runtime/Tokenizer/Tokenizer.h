// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tokenizers: lossless maps between bytes and token ids. docs/running.md#tokenizers defines the
// encoding, and docs/plan-and-artifact.md the file.
#pragma once

#include "sluice/Support/Files.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::runtime {

class SubwordModel;

/// The format of the model in a tokenizer's file. The values are part of the format.
enum class SubwordFormat : uint32_t { SentencePiece = 1, SubwordNmt = 2 };

/// A tokenizer. decode(encode(text)) equals `text` for arbitrary bytes. Copies share the model; all
/// functions may run on several threads at once.
class Tokenizer {
public:
  /// Reads a file that `save` wrote. Throws UserError for files of other kinds, truncated files and
  /// damaged ones.
  static Tokenizer open(const Path &path);
  /// Reads the contents of a file. `origin` starts messages.
  static Tokenizer read(std::span<const uint8_t> file, const std::string &origin);
  /// Takes a model. Throws UserError if the model does not have a token for each byte.
  static Tokenizer fromModel(SubwordFormat format, std::string model, const std::string &origin);

  /// Encoding a text with line breaks equals encoding each line, up to and including its line
  /// break, and joining the results.
  std::vector<int32_t> encode(std::span<const uint8_t> text) const;
  /// Returns the bytes of the tokens. Throws UserError for an id outside [0, size()).
  std::string decode(std::span<const int32_t> ids) const;
  /// Returns 1 for each token of a line that ends a word, and 0 for others: a token of subword-nmt
  /// without @@, a token before one that begins with a space, and the last token. Throws as
  /// `decode` does.
  std::vector<int32_t> findWordEnds(std::span<const int32_t> ids) const;
  /// Returns the number of ids.
  int64_t size() const;
  /// Returns the SHA-256 of the file, without its own checksum, in lower-case hexadecimal. Equal
  /// hashes mean equal encodings.
  const std::string &hash() const;
  /// Returns "bpe", "unigram", "characters" or "subword-nmt".
  std::string_view kind() const;
  SubwordFormat format() const;
  /// Returns the SentencePiece model, or the codes of subword-nmt.
  std::string_view model() const;
  /// Returns the contents of a file that `read` accepts, a pure function of the model.
  std::vector<uint8_t> toFile() const;
  /// Writes the file, as replaceFile does.
  void save(const Path &path) const;

private:
  struct Contents;
  friend class TokenDecoder;
  std::shared_ptr<const Contents> contents;
};

/// Returns the number of bytes of `text` before an incomplete UTF-8 character at its end.
size_t measureWholeCharacters(std::string_view text);

/// Decodes tokens one at a time. The concatenation of all results, with `finish`, equals `decode`
/// of all ids.
class TokenDecoder {
public:
  explicit TokenDecoder(const Tokenizer &tokenizer) : tokenizer(tokenizer) {}
  /// Returns the bytes up to the last whole UTF-8 character; the start of a character is returned
  /// once the character is complete. Bytes that no character has are returned as they are. Throws
  /// UserError as `decode` does.
  std::string push(int32_t id);
  /// Returns the remaining bytes, an incomplete character.
  std::string finish();

private:
  Tokenizer tokenizer;
  std::string incomplete;
  bool needsSpace = false; ///< the last token ends a word
};

} // namespace sluice::runtime
