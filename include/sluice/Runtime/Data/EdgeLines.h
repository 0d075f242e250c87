// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of edges: a line such as "0-3 1-2" for each line of an input, or sentences of CoNLL-U.
#pragma once

#include "sluice/Runtime/Data/Conllu.h"
#include "sluice/Runtime/Data/Lines.h"

namespace sluice::runtime {

/// The edges of the lines of an input.
class EdgeLines {
public:
  /// Reads `files`, which have CoNLL-U if the first line of the first one that is not a comment has
  /// a tab. Throws UserError if they have another format.
  EdgeLines(const std::vector<Path> &files, const ReadingOptions &reading);

  /// Returns the edges of line `index`. Throws UserError, with the place, for a line that is no
  /// list of pairs; `noun` names one end of an edge: "row" or "word".
  Edges at(int64_t index, const std::string &noun) const;
  /// Returns true if the edges connect the words of sentences.
  bool haveWords() const { return !sentences.empty(); }
  /// Returns the words of sentence `index`.
  const std::vector<std::string> &getWords(int64_t index) const {
    return sentences[static_cast<size_t>(index)].words;
  }
  /// Returns the file and the number of the line, or of the first line of the sentence.
  std::string describePlace(int64_t index) const;
  /// Returns the number of lines, or of sentences.
  int64_t count() const { return haveWords() ? std::ssize(sentences) : lines.count(); }
  /// Throws UserError unless there are `expected` lines or sentences, as many as `other` has.
  void requireCount(int64_t expected, const std::string &other) const;
  const std::vector<ByteFile> &files() const { return lines.files(); }

private:
  void parseSentences();

  Lines lines;
  std::vector<ConlluSentence> sentences;
  std::vector<std::string> sentenceFiles; ///< names, by sentence
};

} // namespace sluice::runtime
