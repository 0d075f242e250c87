// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text as bytes: files, and the order in which training draws rows from them.
#pragma once

#include "sluice/Runtime/ByteFiles.h"
#include "sluice/Runtime/Inputs.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Where training stands in its data: two integers, from which every later row follows.
struct DataPosition {
  int64_t epoch = 0, index = 0;
  bool operator==(const DataPosition &) const = default;
};

/// What training draws its batches from. Which row stands at a position is a pure function of the
/// seed and the position.
class TrainingSource {
public:
  TrainingSource() = default;
  virtual ~TrainingSource() = default;
  TrainingSource(const TrainingSource &) = delete;
  TrainingSource &operator=(const TrainingSource &) = delete;

  virtual int64_t rowsPerEpoch() const = 0;
  virtual const std::vector<ByteFile> &usedFiles() const = 0;
  virtual const std::vector<ByteFile> &skippedFiles() const = 0;
  /// What a user should know of the data, a line each.
  virtual std::vector<std::string> notes() const = 0;
  /// SHA-256 over the contents of the files that are used, in order; a resumed run must see the
  /// same.
  virtual const std::string &hash() const = 0;
  /// Writes `rows` consecutive rows from `position` on, crossing into later epochs where needed,
  /// and returns the position after them. Throws DataError where a file has changed.
  virtual DataPosition fill(DataPosition position, int64_t rows, const BatchInputs &into) const = 0;
};

/// Items of which each is a row by itself: a line with its named inputs, an image.
class ItemSource : public TrainingSource {
public:
  explicit ItemSource(uint64_t seed) : seed(seed) {}

  /// Writes item `index`, below rowsPerEpoch(), as row `row` of the batch. Returns how many of its
  /// tokens are to be predicted.
  virtual int64_t write(int64_t index, int64_t row, const BatchInputs &into) const = 0;
  /// Of an item of text: its bytes, from the first one that is predicted on, whole even where the
  /// context cuts them.
  virtual std::optional<std::string> textOf(int64_t index) const = 0;
  /// What an item is: "lines".
  virtual std::string_view noun() const = 0;
  /// How an item is scored, for people.
  virtual std::string_view protocol() const = 0;
  /// Each epoch takes every item once, in an order of its own.
  DataPosition fill(DataPosition position, int64_t rows, const BatchInputs &into) const override;

private:
  uint64_t seed;
};

/// Files by the name of the input, or of the labels, that they hold.
using InputFiles = std::map<std::string, std::vector<Path>>;

/// The files of a named input of numbers: .npy arrays of `width` numbers for each byte of a text.
struct NumberInput {
  std::vector<Path> paths;
  int64_t width = 1;
  bool isTarget = false; ///< rows are distributions; else weights, of at least 0
};
using NumberInputs = std::map<std::string, NumberInput>;

/// Numbers of one text: row i belongs to byte i.
struct NumberFile {
  Path path;
  FileContents bytes; ///< of the file
  size_t start = 0;   ///< of its numbers, f32
  int64_t width = 1;
};

/// Reads an array of f32 and checks it: its shape, and that numbers are finite and at least 0; of a
/// target also that each row adds up to 1, but for 1e-3. Throws UserError with the path and the
/// row.
NumberFile readNumbers(const Path &path, const NumberInput &input, const ByteFile &text,
                       const ReadingOptions &reading = {});

/// What data say beside texts: for each byte of a text "0" or "1", or numbers. File i of a name
/// belongs to text i.
class LabelFiles {
public:
  LabelFiles() = default;
  /// `texts` are the named texts, `used` the texts that are long enough and `skipped` the short
  /// ones, whose files are checked too. Throws UserError where a name has another number of
  /// files, a file another number of bytes than its text, or a byte is neither.
  LabelFiles(const InputFiles &labels, const std::vector<Path> &texts,
             const std::vector<ByteFile> &used, const std::vector<ByteFile> &skipped = {},
             const NumberInputs &numbers = {}, const ReadingOptions &reading = {});

  bool has(const std::string &name) const { return byName.contains(name); }
  bool hasNumbers(const std::string &name) const { return numbersByName.contains(name); }
  /// Labels of `count` bytes of text `text` from byte `start` on, past its end from its beginning,
  /// as those of row `row` of the batch; zeros of names that have no files.
  void write(size_t text, int64_t start, int64_t count, int64_t row, const BatchInputs &into) const;
  /// Of the texts' hash and the labels; the texts' alone where there are none.
  std::string hashWith(const std::string &texts) const;

private:
  void writeNumbers(size_t text, int64_t start, int64_t count, int64_t row,
                    const BatchInputs &into) const;

  std::map<std::string, std::vector<ByteFile>> byName; ///< of the texts that were read
  std::map<std::string, std::vector<NumberFile>> numbersByName;
};

/// Rows of context + 1 bytes, drawn without replacement within an epoch. Which bytes row `index` of
/// epoch `epoch` holds is a pure function of (seed, epoch, index): a keyed permutation of the
/// epoch's rows. Neighbouring rows of a file share one byte (the last target of one is the first
/// input of the next), and each epoch cuts the files at other places. `cyclic` files have no end:
/// behind the last byte stands the first.
/// Files too short for one row are skipped where another is long enough.
class TrainingData : public TrainingSource {
public:
  TrainingData(const std::vector<Path> &paths, int64_t vocabulary, int64_t context, uint64_t seed,
               bool cyclic = false, const InputFiles &labels = {}, const NumberInputs &numbers = {},
               const ReadingOptions &reading = {});

  int64_t rowsPerEpoch() const override { return totalRows; }
  int64_t bytes() const;
  const std::vector<ByteFile> &usedFiles() const override { return files; }
  const std::vector<ByteFile> &skippedFiles() const override { return skipped; }
  /// Skipped files, ids that bytes never are.
  std::vector<std::string> notes() const override;
  const std::string &hash() const override { return contentHash; }

  /// The bytes of one row; `position.index` < rowsPerEpoch(). Throws as FileContents does.
  std::vector<uint8_t> row(DataPosition position) const;

  /// Where it begins.
  struct Place {
    size_t file;
    int64_t start;
    auto operator<=>(const Place &) const = default;
  };
  Place placeOf(DataPosition position) const;

  DataPosition fill(DataPosition position, int64_t rows, const BatchInputs &into) const override;

private:
  std::vector<ByteFile> skipped, files; // in this order: reading files sets what was skipped
  std::vector<int64_t> firstRow;        // by file, then the total
  int64_t vocabulary, context, totalRows = 0;
  uint64_t seed;
  bool cyclic;
  LabelFiles labels;
  std::string contentHash;
};

/// A permutation of [0, count) chosen by `key`: the image of `index`. O(1) memory; a few rounds of
/// a Feistel network, walked until the image falls below `count` (fewer than four steps on
/// average).
uint64_t permute(uint64_t index, uint64_t count, uint64_t key);

/// The factor that step `step` of a run trains with: each of `factors` equally likely.
int64_t drawFactor(const std::vector<int64_t> &factors, int64_t seed, int64_t step);

} // namespace sluice::runtime
