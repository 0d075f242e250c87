// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens files of data: text, whose bytes are token ids, compressed text, token ids, and streams.
#pragma once

#include "sluice/Runtime/Data/TokenIds.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sluice::runtime {

struct ByteFile;

/// Maps texts to token ids and back. The tokenizers of Runtime/Tokenizer implement it.
class TextEncoder {
public:
  TextEncoder() = default;
  virtual ~TextEncoder() = default;
  TextEncoder(const TextEncoder &) = delete;
  TextEncoder &operator=(const TextEncoder &) = delete;

  /// Returns the file of the ids of a text, with ByteFile::text and ByteFile::encoder.
  virtual ByteFile encodeFile(ByteFile text) const = 0;
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  /// Returns 1 for each token of a line that ends a word, by the rule `pieces`, and 0 for others.
  virtual std::vector<int32_t> findWordEnds(std::span<const int32_t> ids) const = 0;
  /// Returns the number of ids.
  virtual int64_t size() const = 0;
  /// Returns the contents of the tokenizer's file.
  virtual std::vector<uint8_t> toFile() const = 0;
  /// Returns the hash of the tokenizer, in hexadecimal.
  virtual const std::string &hash() const = 0;
};

/// A file of token ids: a text, whose bytes are the ids, or an array of integers.
struct ByteFile {
  Path path;                           ///< as given; for messages
  FileContents bytes;                  ///< decompressed
  Path copy = {};                      ///< path of the run's copy of a stream; else empty
  bool isDecompressed = false;         ///< `bytes` are not the bytes of the file itself
  std::vector<std::string> notes = {}; ///< remarks for the user, a line each
  TokenLayout layout = {};             ///< of the ids in `bytes`
  FileContents text = {};              ///< text that `encoder` encoded
  std::shared_ptr<const TextEncoder> encoder = {};

  /// Returns the path under which a later run finds the data.
  Path source() const { return copy.empty() ? splitTokenPath(path).second : copy; }
  /// Returns true for a text, whose bytes are the ids.
  bool isText() const { return layout.isBytes(); }
  int64_t tokenCount() const { return static_cast<int64_t>(layout.countIds(bytes.size())); }
  /// Fills `into` with the token ids from `first` on; all of them exist.
  void readTokens(int64_t first, std::span<int32_t> into) const {
    readIds(bytes, layout, static_cast<size_t>(first), into);
  }
  /// Returns `count` token ids from `first` on.
  std::vector<int32_t> readTokens(int64_t first, int64_t count) const;
  /// Returns the text of the tokens [first, first + count) of a text or of an encoded text.
  std::string readText(int64_t first, int64_t count) const;
  /// Returns these tokens as a file of its own, in memory.
  ByteFile cut(int64_t first, int64_t count) const;
  /// Returns a file of the given tokens with this file's encoder, in memory.
  ByteFile replaceTokens(std::span<const int32_t> ids) const;
};

/// Copies of the streams (standard input, pipes) that a run reads for training or for evaluation,
/// as files in a folder of the run. A resumed run reads copy i, from 1, in place of stream i.
class StreamCopies {
public:
  /// `folder` need not exist; copies are named `prefix`1, `prefix`2, ... Temporary files are
  /// written to `temporary`, which must exist and should be on the same disk. With `reuse`, copies
  /// that exist are read instead of streams.
  StreamCopies(Path folder, std::string prefix, Path temporary, bool reuse);

  struct Copy {
    Path stream, path;
    FileContents contents;
    bool isReused = false; ///< read from `path` and not from the stream
  };

  /// Adds the copy of the next stream. The caller reads its contents.
  Copy &add(const Path &stream);
  /// Writes the copies to `folder`.
  void save() const;
  const std::deque<Copy> &all() const { return copies; }
  /// Checks for a stream that was read and has no copy yet. It cannot be read again.
  bool hasRead() const;
  const Path &temporaryFolder() const { return temporary; }

private:
  Path folder, temporary;
  std::string prefix;
  bool reuse;
  std::deque<Copy> copies; // references to elements stay valid
};

/// Options of reading data.
struct ReadingOptions {
  bool isRaw = false;                         ///< reads a file's own bytes, of any format
  std::shared_ptr<StreamCopies> streams = {}; ///< null: no copies of streams
  /// Accepts token ids: NumPy arrays, and names with `uint16Prefix`.
  bool takesIds = false;
  std::shared_ptr<const TextEncoder> encoder = {}; ///< encodes texts; null: tokens are bytes
  /// Hash of the tokenizer of the model's weights, without which texts are rejected; empty: none.
  std::string tokenizer = {};
  /// Files in memory by path, which are read in place of files of these names.
  std::map<Path, ByteFile> memory = {};
  /// Token that ends the lines of token ids in memory; a text's lines end as `encoder` specifies.
  int32_t lineEnd = '\n';
};

/// Opens a file of data, or reads a stream: standard input if the name is "-", or a pipe such as
/// a shell's <(...). gzip and zstd data are decompressed to a temporary file. `what` is its role in
/// messages. Throws FormatError if the file or its decompressed bytes are of another known
/// format, or if compressed data is damaged.
ByteFile openByteFile(const Path &path, std::string_view what, const ReadingOptions &reading = {});

/// Opens files, checking that each token id is below `vocabulary`, that each file has at least
/// `least` tokens, which `why` explains, and that the files are all texts or all token ids. Throws
/// UserError with the path, and the index of an offending token, and as openByteFile does. With
/// `skipped`, files that are too short are left out and named there, as long as one is long enough.
std::vector<ByteFile> readByteFiles(const std::vector<Path> &paths, int64_t vocabulary,
                                    int64_t least, const std::string &why,
                                    std::vector<ByteFile> *skipped = nullptr,
                                    const ReadingOptions &reading = {});

/// Returns "skipped 2 of 9 files, shorter than 17 bytes (the context and one byte to predict): a,
/// b; join ..."; empty if no file was skipped.
std::string describeSkipped(const std::vector<ByteFile> &skipped, size_t files, int64_t least,
                            const std::string &why);

/// Returns a note if texts are read as bytes by a model with more ids; else an empty text.
std::string describeUnusedIds(const std::vector<ByteFile> &files, int64_t vocabulary);

/// Returns the first notes of the files, and the number of remaining ones.
std::vector<std::string> collectNotes(const std::vector<ByteFile> &files);

/// Checks for files whose tokens are not bytes.
bool haveIds(const std::vector<ByteFile> &files);
/// Checks for files of token ids, whose text is unknown.
bool lackText(const std::vector<ByteFile> &files);

/// Returns the SHA-256 of the SHA-256 sums of the files' contents, in order. The type of token ids
/// comes before the sum of their file.
std::string hashFiles(const std::vector<ByteFile> &files);

} // namespace sluice::runtime
