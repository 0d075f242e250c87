// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lines of token ids in files of text: of bytes, or of the ids of a tokenizer.
#pragma once

#include "sluice/Runtime/Data/ByteFiles.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Lines of token ids. The files of a list are concatenated, and the last line of a file need not
/// be terminated. The ids of a line are read on access.
class Lines {
public:
  using Line = std::vector<int32_t>;

  /// Reads the lines of `files`, each truncated to `most` tokens. Throws UserError if a token is
  /// not below `vocabulary`; a line end need not be.
  Lines(const std::vector<Path> &files, int64_t vocabulary, int64_t most,
        const ReadingOptions &reading = {});
  Lines(const Lines &) = delete;
  Lines &operator=(const Lines &) = delete;

  int64_t count() const { return static_cast<int64_t>(lines.size()); }
  Line at(int64_t index) const { return read(index, most); }
  /// Returns line `index` without truncation.
  Line whole(int64_t index) const { return read(index, SIZE_MAX); }
  /// Returns the number of tokens of line `index` without truncation.
  int64_t measure(int64_t index) const;
  /// Returns the number of tokens of every line, each at most `most`.
  std::vector<int32_t> getLengths() const;
  /// Returns the token that ends a line.
  int32_t lineEnd() const { return endToken; }
  /// Returns the bytes of tokens of a line.
  std::string decode(std::span<const int32_t> tokens) const;
  /// Returns true if a tokenizer made the tokens.
  bool isEncoded() const { return encoder != nullptr; }
  const std::vector<ByteFile> &files() const { return opened; }
  /// Returns the file and the number of line `index`, for messages: "tags.txt:3".
  std::string describePlace(int64_t index) const;
  /// Throws UserError unless the number of lines is `expected`, the number of lines of `other`.
  void requireCount(int64_t expected, const std::string &other) const;
  /// Returns "cut 3 of 9 lines of WHAT, longer than 16 bytes (its context)"; empty if no line was
  /// truncated.
  std::string describeCut(const std::string &what) const;
  /// Returns "note: 3 of 9 lines of WHAT are empty while the text's are not", which may be a sign
  /// of files that do not belong together; empty if there is no such line. `other` is the text.
  std::string describeLone(const Lines &other, const std::string &what) const;

private:
  struct Extent {
    int64_t start = 0, end = 0; ///< tokens of its file
  };
  void findLines(const ByteFile &file);
  size_t findFile(int64_t index) const;
  Line read(int64_t index, size_t mostTokens) const;

  std::shared_ptr<const TextEncoder> encoder;
  int32_t endToken;
  std::vector<ByteFile> opened;
  std::vector<int64_t> firstLine; ///< index of the first line of each file
  std::vector<Extent> lines;
  size_t most;
};

} // namespace sluice::runtime
