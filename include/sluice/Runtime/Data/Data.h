// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads text as bytes, and defines the order in which training draws rows from it.
#pragma once

#include "sluice/Runtime/Data/ByteFiles.h"
#include "sluice/Runtime/Data/Inputs.h"
#include "sluice/Runtime/Data/Labels.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// The position of training in its data: two integers that determine every later row.
struct DataPosition {
  int64_t epoch = 0, index = 0;
  bool operator==(const DataPosition &) const = default;
};

/// The size of a batch of lines by length.
struct BatchSize {
  size_t shape = 0;   ///< number of its shape (Plan::shapes)
  int64_t rows = 0;   ///< its lines
  int64_t length = 0; ///< maximum number of predicted tokens of a line
  int64_t tokens = 0; ///< predicted tokens of all lines
};

/// A source of training batches. The row at a position is a pure function of the seed and the
/// position.
class TrainingSource {
public:
  TrainingSource() = default;
  virtual ~TrainingSource() = default;
  TrainingSource(const TrainingSource &) = delete;
  TrainingSource &operator=(const TrainingSource &) = delete;

  virtual int64_t rowsPerEpoch() const = 0;
  virtual const std::vector<ByteFile> &usedFiles() const = 0;
  virtual const std::vector<ByteFile> &skippedFiles() const = 0;
  /// Returns remarks on the data for the user, one per line.
  virtual std::vector<std::string> notes() const = 0;
  /// Returns the SHA-256 over the contents of the files in use, in order. A resumed run must find
  /// the same hash.
  virtual const std::string &hash() const = 0;
  /// Writes `rows` consecutive rows starting at `position`, continues in later epochs where needed,
  /// and returns the next position. Throws DataError if a file has changed.
  virtual DataPosition fill(DataPosition position, int64_t rows, const BatchInputs &into) const = 0;
  /// Returns the number of rows of an epoch in the order of the files: texts are then cut from
  /// their first token on.
  virtual int64_t countOrdered() const = 0;
  /// Writes row `index` < countOrdered() in the order of the files to row `row` of the batch.
  virtual void writeOrdered(int64_t index, int64_t row, const BatchInputs &into) const = 0;
  /// Returns the size of the batch at `position`, which `fill` must write; none if a batch has any
  /// number of rows. Throws UserError if no batch begins there.
  virtual std::optional<BatchSize> findBatch(DataPosition position) const;
  /// Returns the number of batches from `from` to the end of epoch `epochs` - 1, each of at most
  /// `rows` rows.
  virtual int64_t countBatches(DataPosition from, int64_t epochs, int64_t rows) const;
};

/// Items that each fill one row: a line with its named inputs, or an image.
class ItemSource : public TrainingSource {
public:
  explicit ItemSource(uint64_t seed) : seed(seed) {}

  /// Writes item `index` < rowsPerEpoch() to row `row` of the batch. Returns the number of its
  /// tokens that are predicted.
  virtual int64_t write(int64_t index, int64_t row, const BatchInputs &into) const = 0;
  /// Returns the bytes of a text item from the first predicted byte on, including bytes beyond the
  /// context. Empty for items that are not text.
  virtual std::optional<std::string> getTextAt(int64_t index) const = 0;
  /// Returns the number of bytes of the first `tokens` tokens of item `index` that are predicted.
  virtual int64_t countBytes(int64_t /*index*/, int64_t tokens) const { return tokens; }
  /// Returns true if a tokenizer made the tokens.
  virtual bool isEncoded() const { return false; }
  /// Returns the plural noun for items: "lines".
  virtual std::string_view noun() const = 0;
  /// Describes how an item is scored, for people.
  virtual std::string_view protocol() const = 0;
  /// Draws every item once per epoch, in an order specific to the epoch.
  DataPosition fill(DataPosition position, int64_t rows, const BatchInputs &into) const override;
  int64_t countOrdered() const override { return rowsPerEpoch(); }
  void writeOrdered(int64_t index, int64_t row, const BatchInputs &into) const override {
    write(index, row, into);
  }

private:
  uint64_t seed;
};

/// Rows of context + 1 tokens, drawn without replacement within an epoch. The tokens of row `index`
/// of epoch `epoch` are a pure function of (seed, epoch, index): a keyed permutation of the epoch's
/// rows. Adjacent rows of a file share one token (the last target of one is the first input of the
/// next), and each epoch cuts the files at different offsets. `cyclic` files wrap around at their
/// end. Files that are too short for one row are skipped unless all are.
class TrainingData : public TrainingSource {
public:
  TrainingData(const std::vector<Path> &paths, int64_t vocabulary, int64_t context, uint64_t seed,
               bool cyclic = false, const InputFiles &labels = {}, const NumberInputs &numbers = {},
               const ReadingOptions &reading = {});

  int64_t rowsPerEpoch() const override { return totalRows; }
  const std::vector<ByteFile> &usedFiles() const override { return files; }
  const std::vector<ByteFile> &skippedFiles() const override { return skipped; }
  /// Reports skipped files, and token ids that no byte can have.
  std::vector<std::string> notes() const override;
  const std::string &hash() const override { return contentHash; }

  /// Returns the tokens of one row. `position.index` < rowsPerEpoch(). Throws as FileContents does.
  std::vector<int32_t> row(DataPosition position) const;

  /// The start of a row.
  struct Place {
    size_t file;
    int64_t start;
    auto operator<=>(const Place &) const = default;
  };
  Place findDataPlace(DataPosition position) const;
  DataPosition fill(DataPosition position, int64_t rows, const BatchInputs &into) const override;
  int64_t countOrdered() const override { return orderedRow.back(); }
  void writeOrdered(int64_t index, int64_t row, const BatchInputs &into) const override;

private:
  std::vector<int32_t> readRow(const Place &place) const;
  /// Writes the row that begins at a place, with its labels and numbers, to row `row` of the batch.
  void write(const Place &place, int64_t row, const BatchInputs &into) const;

  std::vector<ByteFile> skipped, files; // declared in this order: reading `files` fills `skipped`
  std::vector<int64_t> firstRow;        // first row of each file, then the total
  std::vector<int64_t> orderedRow;      // the same in the order of the files
  int64_t vocabulary, context, totalRows = 0;
  uint64_t seed;
  bool cyclic;
  LabelFiles labels;
  std::string contentHash;
};

/// Returns the key of `permute` for the rows of an epoch.
uint64_t getEpochKey(uint64_t seed, int64_t epoch);

/// Returns the image of `index` under the permutation of [0, count) that `key` selects. Takes O(1)
/// memory: a Feistel network of a few rounds is iterated until the image is below `count` (fewer
/// than four iterations on average).
uint64_t permute(uint64_t index, uint64_t count, uint64_t key);

/// Returns the factor for step `step` of a run, drawn uniformly from `factors`.
int64_t drawFactor(const std::vector<int64_t> &factors, int64_t seed, int64_t step);

} // namespace sluice::runtime
