// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/EdgeLines.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <limits>

namespace sluice::runtime {

/// Returns the options for files whose tokens are their bytes.
static ReadingOptions readBytes(ReadingOptions reading) {
  reading.encoder = nullptr;
  reading.tokenizer.clear();
  reading.lineEnd = '\n';
  return reading;
}

static std::string toText(const Lines::Line &line) { return {line.begin(), line.end()}; }

EdgeLines::EdgeLines(const std::vector<Path> &files, const ReadingOptions &reading)
    : lines(files, /*vocabulary=*/256, std::numeric_limits<int64_t>::max(), readBytes(reading)) {
  for (int64_t i = 0; i < lines.count(); ++i) {
    std::string line = toText(lines.whole(i));
    if (line.empty() || line.starts_with('#')) {
      continue;
    }
    if (line.find('\t') != std::string::npos) {
      parseSentences();
    }
    return;
  }
}

void EdgeLines::parseSentences() {
  for (const ByteFile &file : lines.files()) {
    std::string name = file.path.native();
    for (ConlluSentence &sentence : parseConllu(file.readText(0, file.tokenCount()), name)) {
      sentences.push_back(std::move(sentence));
      sentenceFiles.push_back(name);
    }
  }
}

Edges EdgeLines::at(int64_t index, const std::string &noun) const {
  if (haveWords()) {
    return sentences[static_cast<size_t>(index)].edges;
  }
  std::string wrong;
  std::optional<Edges> found = parseEdges(toText(lines.whole(index)), wrong);
  if (!found) {
    throw UserError(describePlace(index) + ": expected edges between two different " + noun +
                    "s, as in 0-3 1-2, found " + showText(wrong) + "; write two " + noun +
                    " numbers with - between them");
  }
  return *found;
}

std::string EdgeLines::describePlace(int64_t index) const {
  if (!haveWords()) {
    return lines.describePlace(index);
  }
  auto i = static_cast<size_t>(index);
  return showPath(sentenceFiles[i]) + ":" + std::to_string(sentences[i].place);
}

void EdgeLines::requireCount(int64_t expected, const std::string &other) const {
  if (!haveWords()) {
    lines.requireCount(expected, other);
  } else if (std::ssize(sentences) != expected) {
    throw UserError(showPath(sentenceFiles.front()) + ": expected " + std::to_string(expected) +
                    " sentences, one for each line of " + other + ", found " +
                    std::to_string(sentences.size()) +
                    "; give a sentence for each line, with an empty line after it");
  }
}

} // namespace sluice::runtime
