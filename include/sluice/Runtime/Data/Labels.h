// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Labels of texts: files of bytes, and numbers.
#pragma once

#include "sluice/Runtime/Data/Numbers.h"

namespace sluice::runtime {

struct SourceFiles;

/// Files by the name of the input, or of the labels, that they contain.
using InputFiles = std::map<std::string, std::vector<Path>>;

/// Labels for texts: "0" or "1" for each byte of a text, or numbers. File i of a name belongs to
/// text i.
class LabelFiles {
public:
  LabelFiles() = default;
  /// `texts` are the named texts, `used` are the texts of sufficient length, and `skipped` are the
  /// others, whose labels are checked too. Throws UserError if a name has a wrong number of files,
  /// a file has a wrong number of bytes, or a byte is neither "0" nor "1".
  LabelFiles(const InputFiles &labels, const std::vector<Path> &texts,
             const std::vector<ByteFile> &used, const std::vector<ByteFile> &skipped = {},
             const NumberInputs &numbers = {}, const ReadingOptions &reading = {});

  bool has(const std::string &name) const { return byName.contains(name); }
  bool hasNumbers(const std::string &name) const { return numbersByName.contains(name); }
  /// Writes the labels of `count` bytes of text `text`, starting at byte `start` and wrapping
  /// around at the end, to row `row` of the batch. Names without files get zeros.
  void write(size_t text, int64_t start, int64_t count, int64_t row, const BatchInputs &into) const;
  /// Returns the hash of `texts`, the hash of the texts, combined with the labels; `texts` itself
  /// if there are no labels.
  std::string hashWith(const std::string &texts) const;

private:
  std::map<std::string, std::vector<ByteFile>> byName; ///< labels of the texts in use
  NumberFiles numbersByName;
};

/// Returns the names of the labels that kernels of a plan read.
std::vector<std::string> getLabelNames(const Plan &plan);
/// Returns the plan's input that holds the labels `name`.
std::string labelsInput(const std::string &name);

/// Rejects labels that the plan does not have, labels without files if `areNeeded`, and images for
/// a model that has labels.
void requireLabels(const Plan &plan, const SourceFiles &files, bool areNeeded);

} // namespace sluice::runtime
