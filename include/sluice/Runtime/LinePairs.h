// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Texts for models with named inputs: line i of one file belongs to line i of the others.
#pragma once

#include "sluice/Runtime/Data.h"
#include "sluice/Runtime/Plan.h"

#include <map>

namespace sluice::runtime {

/// `NAME=FILE` of each flag. Throws UserError where one has another form; `flag` names it.
InputFiles parseInputFiles(const std::string &flag, const std::vector<std::string> &written);
/// The same of labels, where NAME is that of segments.
InputFiles parseLabelFiles(const std::string &flag, const std::vector<std::string> &written);

/// Refuses files for inputs that the plan does not have, and inputs that have no files. `flag` is
/// what gives them.
void requireInputs(const Plan &plan, const InputFiles &files, const std::string &flag);

/// Refuses a model with named inputs for `command`, which cannot be given any.
void refuseInputs(const Plan &plan, const std::string &command);

/// Lines of bytes, which are token ids; files of one list follow one another, and the last line of
/// a file need not end. A line's bytes are read where they are asked for.
class Lines {
public:
  using Line = std::vector<uint8_t>;

  /// Lines of `files`, each cut to `most` bytes. Throws UserError where a byte is no token id.
  Lines(const std::vector<Path> &files, int64_t vocabulary, int64_t most,
        const ReadingOptions &reading = {});
  Lines(const Lines &) = delete;
  Lines &operator=(const Lines &) = delete;

  int64_t count() const { return static_cast<int64_t>(lines.size()); }
  Line at(int64_t index) const { return read(index, most); }
  /// Line `index`, not cut.
  Line whole(int64_t index) const { return read(index, SIZE_MAX); }
  const std::vector<ByteFile> &files() const { return opened; }
  /// Refuses another number of lines than `expected`, which those of `other` are.
  void requireCount(int64_t expected, const std::string &other) const;
  /// "cut 3 of 9 lines of WHAT, longer than 16 bytes (its context)"; empty where none was.
  std::string describeCut(const std::string &what) const;

private:
  struct Extent {
    size_t start = 0, end = 0; ///< bytes of its file
  };
  void findLines(const FileContents &bytes);
  Line read(int64_t index, size_t mostBytes) const;

  std::vector<ByteFile> opened;
  std::vector<int64_t> firstLine; ///< by file
  std::vector<Extent> lines;
  size_t most;
};

/// The lines of every named input of a model.
class InputLines {
public:
  InputLines(const InputFiles &files, const Plan &plan, const ReadingOptions &reading = {});

  /// Line `index` of each.
  GivenLines at(int64_t index) const;
  const std::map<std::string, Lines> &byName() const { return inputs; }
  /// Those of every input; each must have as many.
  int64_t count() const;

private:
  std::map<std::string, Lines> inputs;
};

/// Line i of a text with line i of each named input. A row of the batch holds one of them: its
/// tokens are a line end, the line, and line ends up to the context.
class LinePairs : public ItemSource {
public:
  /// Throws UserError where the files differ in their number of lines, and where a byte is no token
  /// id.
  LinePairs(const std::vector<Path> &text, const InputFiles &inputs, const Plan &plan,
            uint64_t seed, const ReadingOptions &reading = {});

  int64_t rowsPerEpoch() const override { return text.count(); }
  const std::vector<ByteFile> &usedFiles() const override { return files; }
  const std::vector<ByteFile> &skippedFiles() const override { return none; }
  /// How many lines were cut.
  std::vector<std::string> notes() const override;
  const std::string &hash() const override { return contentHash; }

  /// A line's tokens are predicted, and the end behind it where it fits.
  int64_t write(int64_t index, int64_t row, const BatchInputs &into) const override;
  std::optional<std::string> textOf(int64_t index) const override;
  std::string_view noun() const override { return "lines"; }
  std::string_view protocol() const override {
    return "each by itself with its inputs; a line's bytes are scored, and the end behind it where "
           "the context holds it; a token is a byte";
  }

private:
  Lines text;
  InputLines inputs;
  int64_t context;
  std::vector<ByteFile> files, none;
  std::string contentHash;
};

} // namespace sluice::runtime
