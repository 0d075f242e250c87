// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/Data.h"

#include "sluice/Runtime/Data/RowOrder.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace sluice::runtime {

static constexpr const char *rowTokens = "the context and one to predict";

std::optional<BatchSize> TrainingSource::findBatch(DataPosition) const { return std::nullopt; }

int64_t TrainingSource::countBatches(DataPosition from, int64_t epochs, int64_t rows) const {
  int64_t left = (epochs - from.epoch) * rowsPerEpoch() - from.index;
  return (std::max<int64_t>(0, left) + rows - 1) / rows;
}

DataPosition ItemSource::fill(DataPosition position, int64_t rows, const BatchInputs &into) const {
  auto count = static_cast<uint64_t>(rowsPerEpoch());
  for (int64_t row = 0; row < rows; ++row) {
    uint64_t key = getEpochKey(seed, position.epoch);
    write(static_cast<int64_t>(permute(static_cast<uint64_t>(position.index), count, key)), row,
          into);
    if (++position.index == rowsPerEpoch()) {
      position = {position.epoch + 1, 0};
    }
  }
  return position;
}

uint64_t getEpochKey(uint64_t seed, int64_t epoch) {
  return mix64(seed ^ mix64(static_cast<uint64_t>(epoch)));
}

uint64_t permute(uint64_t index, uint64_t count, uint64_t key) {
  // Two halves of `half` bits each; 2^(2 half) >= count.
  int half = std::max(1, static_cast<int>(std::bit_width(count - 1) + 1) / 2);
  uint64_t mask = (uint64_t(1) << half) - 1;
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      uint64_t next = left ^ (mix64(key ^ mix64(right + (round << 56))) & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= count);
  return index;
}

int64_t drawFactor(const std::vector<int64_t> &factors, int64_t seed, int64_t step) {
  constexpr uint64_t own = 0x666163746f72; // distinct from the streams that order rows
  uint64_t number = mix64(mix64(static_cast<uint64_t>(seed) ^ own) ^ static_cast<uint64_t>(step));
  return factors[static_cast<size_t>(number % factors.size())]; // uniform to 1 in 2^60
}

TrainingData::TrainingData(const std::vector<Path> &paths, int64_t vocabulary, int64_t context,
                           uint64_t seed, bool cyclic, const InputFiles &given,
                           const NumberInputs &numbers, const ReadingOptions &reading)
    : files(readByteFiles(paths, vocabulary, context + 1, rowTokens, &skipped, reading)),
      vocabulary(vocabulary), context(context), seed(seed), cyclic(cyclic),
      labels(given, paths, files, skipped, numbers, reading) {
  if (files.empty()) {
    throw UserError("expected at least one data file, found none; give --data FILE");
  }
  std::vector<int64_t> sizes;
  std::ranges::transform(files, std::back_inserter(sizes), &ByteFile::tokenCount);
  firstRow = RowOrder{context, seed, cyclic}.countFirstRows(sizes);
  orderedRow = {0};
  for (int64_t size : sizes) {
    orderedRow.push_back(orderedRow.back() + (size - 1) / context);
  }
  totalRows = firstRow.back();
  contentHash = labels.hashWith(hashFiles(files));
}

std::vector<std::string> TrainingData::notes() const {
  std::vector<std::string> list = collectNotes(files);
  if (!skipped.empty()) {
    list.push_back(describeSkipped(skipped, files.size() + skipped.size(), context + 1, rowTokens));
  }
  list.push_back(describeUnusedIds(files, vocabulary));
  std::erase(list, "");
  return list;
}

TrainingData::Place TrainingData::findDataPlace(DataPosition position) const {
  RowPlace place = RowOrder{context, seed, cyclic}.find(
      position, firstRow, [this](size_t file) { return files[file].tokenCount(); });
  return {place.text, place.start};
}

std::vector<int32_t> TrainingData::row(DataPosition position) const {
  return readRow(findDataPlace(position));
}

std::vector<int32_t> TrainingData::readRow(const Place &place) const {
  const ByteFile &file = files[place.file];
  std::vector<int32_t> row(static_cast<size_t>(context + 1));
  int64_t ahead = std::min(context + 1, file.tokenCount() - place.start);
  file.readTokens(place.start, std::span(row).first(static_cast<size_t>(ahead)));
  // Wraps around in a cyclic file.
  file.readTokens(0, std::span(row).subspan(static_cast<size_t>(ahead)));
  return row;
}

void TrainingData::write(const Place &place, int64_t row, const BatchInputs &into) const {
  std::ranges::copy(readRow(place), into.tokens.begin() + row * (context + 1));
  labels.write(place.file, place.start, context, row, into);
}

void TrainingData::writeOrdered(int64_t index, int64_t row, const BatchInputs &into) const {
  auto file =
      static_cast<size_t>(std::ranges::upper_bound(orderedRow, index) - orderedRow.begin() - 1);
  write({file, (index - orderedRow[file]) * context}, row, into);
}

DataPosition TrainingData::fill(DataPosition position, int64_t rows,
                                const BatchInputs &into) const {
  for (int64_t i = 0; i < rows; ++i) {
    write(findDataPlace(position), i, into);
    if (++position.index == totalRows) {
      position = {position.epoch + 1, 0};
    }
  }
  return position;
}

} // namespace sluice::runtime
