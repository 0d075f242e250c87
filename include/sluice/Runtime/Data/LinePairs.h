// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Texts for models with named inputs. Line i of one file belongs to line i of the others.
#pragma once

#include "sluice/Runtime/Data/EdgeLines.h"
#include "sluice/Runtime/Data/LineBatches.h"
#include "sluice/Runtime/Data/Lines.h"
#include "sluice/Runtime/Data/SideStreams.h"
#include "sluice/Runtime/Plan/Plan.h"

#include <map>

namespace sluice::runtime {

/// Parses `NAME=FILE` values of the flag `flag`. Throws UserError for any other form.
InputFiles parseInputFiles(const std::string &flag, const std::vector<std::string> &written);
/// Parses the files of labels, where NAME is the name of segments.
InputFiles parseLabelFiles(const std::string &flag, const std::vector<std::string> &written);

/// Rejects files for inputs that the plan does not have, and inputs without files. `flag` is the
/// flag that specifies them.
void requireInputs(const Plan &plan, const InputFiles &files, const std::string &flag);

/// Rejects a model with named inputs for `command`, which supports none.
void refuseInputs(const Plan &plan, const std::string &command);

/// The lines of every named input of a model, and of its inputs of edges.
class InputLines {
public:
  /// Throws UserError for a byte that is not a token id, and for a line that is not a list of
  /// edges between rows of its line.
  InputLines(const InputFiles &files, const Plan &plan, const ReadingOptions &reading = {});

  /// Returns line `index` of each input.
  GivenLines at(int64_t index) const;
  /// Returns the lines of the inputs that have an axis of their own.
  const std::map<std::string, Lines> &byName() const { return inputs; }
  /// Returns the number of lines, which all inputs must share.
  int64_t count() const;
  /// Returns the files of all inputs.
  std::vector<ByteFile> listFiles() const;

private:
  void checkEdges(const EdgeInput &edges);
  /// Also finds the line's word of each word of a sentence, which omits blank ones.
  void checkWords(const EdgeInput &edges, int64_t index);
  /// Returns the edges of a file between rows or words of a whole line.
  Edges readEdges(const EdgeInput &edges, int64_t index) const;
  /// Returns the number of rows or words of a line, or of its beginning, that edges may connect.
  int64_t countRows(const EdgeInput &edges, int64_t index, std::span<const int32_t> line) const;

  std::map<std::string, GivenInput> given;
  uint64_t seed; ///< of edges that are drawn
  std::map<std::string, Lines> inputs;
  std::map<std::string, SideStream> streams;
  /// By edges and line: numbers of the words that a sentence has, where the line has others too.
  std::map<std::pair<std::string, int64_t>, std::vector<int32_t>> wordNumbers;
  std::map<std::string, EdgeInput> edges;
  std::map<std::string, EdgeLines> edgeLines; ///< of `edges` without a pattern, by the same names
};

/// Pairs line i of a text with line i of each named input. The tokens of a batch row are a line
/// end, the line, and line ends up to the context.
class LinePairs : public ItemSource {
public:
  /// Throws UserError if the files differ in their number of lines, or if a byte is not a token id.
  LinePairs(const std::vector<Path> &text, const InputFiles &inputs, const Plan &plan,
            uint64_t seed, const ReadingOptions &reading = {});

  int64_t rowsPerEpoch() const override { return text.count(); }
  DataPosition fill(DataPosition position, int64_t rows, const BatchInputs &into) const override;
  std::optional<BatchSize> findBatch(DataPosition position) const override;
  int64_t countBatches(DataPosition from, int64_t epochs, int64_t rows) const override;
  const std::vector<ByteFile> &usedFiles() const override { return files; }
  const std::vector<ByteFile> &skippedFiles() const override { return none; }
  /// Reports the number of truncated lines.
  std::vector<std::string> notes() const override;
  const std::string &hash() const override { return contentHash; }

  /// The tokens of the line are predicted, and the following line end if it fits.
  int64_t write(int64_t index, int64_t row, const BatchInputs &into) const override;
  std::optional<std::string> getTextAt(int64_t index) const override;
  int64_t countBytes(int64_t index, int64_t tokens) const override;
  bool isEncoded() const override { return text.isEncoded(); }
  std::string_view noun() const override { return "lines"; }
  std::string_view protocol() const override {
    return isEncoded() ? "each by itself with its inputs; a line's tokens are scored, and the end "
                         "after it where the context holds it; tokens are the tokenizer's"
                       : "each by itself with its inputs; a line's bytes are scored, and the end "
                         "after it where the context holds it; a token is a byte";
  }

private:
  Lines text;
  InputLines inputs;
  int64_t context, vocabulary;
  std::optional<LineBatches> batches; ///< of lines by length
  std::vector<ByteFile> files, none;
  std::string contentHash;
};

} // namespace sluice::runtime
