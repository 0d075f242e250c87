// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/Lines.h"

#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace sluice::runtime {

static int32_t findLineEnd(const ReadingOptions &reading) {
  return reading.encoder ? reading.encoder->encode("\n").front() : reading.lineEnd;
}

/// A line end is not a token of an input of bytes, so the input's vocabulary may be smaller.
static int64_t getReadVocabulary(int64_t vocabulary, const ReadingOptions &reading) {
  return reading.encoder ? vocabulary : std::max<int64_t>(vocabulary, reading.lineEnd + 1);
}

/// Calls `action` with the first token and the tokens of each piece of a file.
static void forEachPiece(const ByteFile &file,
                         const std::function<void(int64_t, std::span<const int32_t>)> &action) {
  constexpr int64_t pieceTokens = 1 << 16;
  std::vector<int32_t> piece;
  for (int64_t start = 0; start < file.tokenCount(); start += pieceTokens) {
    piece.resize(static_cast<size_t>(std::min(pieceTokens, file.tokenCount() - start)));
    file.readTokens(start, piece);
    action(start, piece);
  }
}

/// Returns the first token of a file for which `isWrong` holds; empty if there is none.
static std::optional<int32_t> findToken(const ByteFile &file,
                                        const std::function<bool(int32_t)> &isWrong) {
  std::optional<int32_t> found;
  forEachPiece(file, [&](int64_t, std::span<const int32_t> piece) {
    auto wrong = std::ranges::find_if(piece, isWrong);
    if (!found && wrong != piece.end()) {
      found = *wrong;
    }
  });
  return found;
}

Lines::Lines(const std::vector<Path> &paths, int64_t vocabulary, int64_t most,
             const ReadingOptions &reading)
    : encoder(reading.encoder), endToken(findLineEnd(reading)),
      opened(readByteFiles(paths, getReadVocabulary(vocabulary, reading), 1, "a line", nullptr,
                           reading)),
      most(static_cast<size_t>(most)) {
  for (const ByteFile &file : opened) {
    firstLine.push_back(count());
    findLines(file);
    if (vocabulary > endToken) {
      continue; // every token was checked
    }
    if (std::optional<int32_t> wrong =
            findToken(file, [&](int32_t id) { return id != endToken && id >= vocabulary; })) {
      throw UserError(paths.front().string() + ": expected token ids below the vocabulary of " +
                      std::to_string(vocabulary) + ", found " + std::to_string(*wrong) +
                      "; raise the vocabulary or clean the file");
    }
  }
}

void Lines::findLines(const ByteFile &file) {
  Extent line;
  forEachPiece(file, [&](int64_t start, std::span<const int32_t> piece) {
    for (auto at = piece.begin(); (at = std::find(at, piece.end(), endToken)) != piece.end();
         ++at) {
      line.end = start + (at - piece.begin());
      lines.push_back(std::exchange(line, {line.end + 1, line.end + 1}));
    }
  });
  if (line.start < file.tokenCount()) {
    lines.push_back({line.start, file.tokenCount()});
  }
}

size_t Lines::findFile(int64_t index) const {
  return static_cast<size_t>(std::ranges::upper_bound(firstLine, index) - firstLine.begin() - 1);
}

int64_t Lines::measure(int64_t index) const {
  const Extent &line = lines[static_cast<size_t>(index)];
  return line.end - line.start;
}

std::vector<int32_t> Lines::getLengths() const {
  std::vector<int32_t> lengths;
  for (const Extent &line : lines) {
    lengths.push_back(
        static_cast<int32_t>(std::min(line.end - line.start, static_cast<int64_t>(most))));
  }
  return lengths;
}

Lines::Line Lines::read(int64_t index, size_t mostTokens) const {
  auto count = std::min(static_cast<size_t>(measure(index)), mostTokens);
  return opened[findFile(index)].readTokens(lines[static_cast<size_t>(index)].start,
                                            static_cast<int64_t>(count));
}

std::string Lines::decode(std::span<const int32_t> tokens) const {
  return encoder ? encoder->decode(tokens) : std::string(tokens.begin(), tokens.end());
}

std::string Lines::describePlace(int64_t index) const {
  size_t file = findFile(index);
  return showPath(opened[file].path.native()) + ":" + std::to_string(index - firstLine[file] + 1);
}

void Lines::requireCount(int64_t expected, const std::string &other) const {
  if (count() != expected) {
    throw UserError(showPath(opened.front().path.native()) + ": expected as many lines as " +
                    other + " has, " + std::to_string(expected) + ", found " +
                    std::to_string(count()) + "; line i of the one belongs to line i of the other");
  }
}

std::string Lines::describeLone(const Lines &other, const std::string &what) const {
  auto isEmpty = [](const Extent &line) { return line.start == line.end; };
  int64_t count = 0;
  for (size_t i = 0; i < std::min(lines.size(), other.lines.size()); ++i) {
    count += isEmpty(lines[i]) && !isEmpty(other.lines[i]) ? 1 : 0;
  }
  return count == 0 ? ""
                    : "note: " + std::to_string(count) + " of " + std::to_string(lines.size()) +
                          " lines of " + what + " are empty while the text's are not";
}

std::string Lines::describeCut(const std::string &what) const {
  auto cut = std::ranges::count_if(lines, [&](const Extent &line) {
    return line.end - line.start > static_cast<int64_t>(most);
  });
  return cut == 0 ? ""
                  : "cut " + std::to_string(cut) + " of " + std::to_string(lines.size()) +
                        " lines of " + what + ", longer than " + std::to_string(most) +
                        (isEncoded() || haveIds(opened) ? " tokens" : " bytes") + " (its context)";
}

} // namespace sluice::runtime
