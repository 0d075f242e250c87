// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/LinePairs.h"

#include "sluice/Runtime/Data/Numbers.h"
#include "sluice/Runtime/Data/Sources.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <utility>

namespace sluice::runtime {

constexpr uint8_t lineEnd = '\n';

static InputFiles parseNamed(const std::string &flag, const std::vector<std::string> &written,
                             const std::string &meaning, const std::string &example) {
  InputFiles files;
  for (const std::string &text : written) {
    size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
      throw UserError(flag + ": expected NAME=FILE, " + meaning + ", found \"" + text +
                      "\"; write it as in " + flag + " " + example);
    }
    files[text.substr(0, equals)].emplace_back(text.substr(equals + 1));
  }
  return files;
}

InputFiles parseInputFiles(const std::string &flag, const std::vector<std::string> &written) {
  return parseNamed(flag, written, "an input of the model and its file", "source=lines.txt");
}

InputFiles parseLabelFiles(const std::string &flag, const std::vector<std::string> &written) {
  return parseNamed(flag, written, "the name of segments and a file of their labels",
                    "words=text.labels");
}

static std::string listInputs(const Plan &plan) {
  std::string names;
  for (const auto &[name, input] : plan.given) {
    names += (names.empty() ? "\"" : ", \"") + name + "\"";
  }
  return names;
}

void requireInputs(const Plan &plan, const InputFiles &files, const std::string &flag) {
  std::vector<std::string> numbers = getNumberNames(plan);
  for (const auto &[name, paths] : files) {
    if (!plan.given.contains(name) && std::ranges::find(numbers, name) == numbers.end()) {
      std::string known = listInputs(plan);
      for (const std::string &each : numbers) {
        known += (known.empty() ? "\"" : ", \"") + each + "\"";
      }
      known = known.empty() ? "none besides its tokens" : known;
      throw UserError(flag + ": expected an input of the model, which has " + known + ", found \"" +
                      name + "\"; name another, or leave the flag out");
    }
  }
  for (const auto &[name, input] : plan.given) {
    if (!files.contains(name)) {
      throw UserError("expected " + flag + " " + name + "=FILE, as the model has the input \"" +
                      name + "\", found none; give a file with a line for each line of the text");
    }
  }
}

void refuseInputs(const Plan &plan, const std::string &command) {
  if (!plan.given.empty()) {
    throw UserError(command +
                    ": expected a model that reads its tokens alone, found one with the "
                    "inputs " +
                    listInputs(plan) +
                    ", which this command cannot be given yet; use sluice train and sluice eval");
  }
}

Lines::Lines(const std::vector<Path> &paths, int64_t vocabulary, int64_t most,
             const ReadingOptions &reading)
    // A line end is not a token of an input, so the input's vocabulary may be smaller.
    : opened(readByteFiles(paths, std::max<int64_t>(vocabulary, lineEnd + 1), 1, "a line", nullptr,
                           reading)),
      most(static_cast<size_t>(most)) {
  for (const ByteFile &file : opened) {
    firstLine.push_back(count());
    findLines(file.bytes);
    if (vocabulary > lineEnd) {
      continue; // every byte was checked
    }
    size_t wrong = file.bytes.find([&](uint8_t id) { return id != lineEnd && id >= vocabulary; });
    if (wrong < file.bytes.size()) {
      throw UserError(paths.front().string() + ": expected token ids below the vocabulary of " +
                      std::to_string(vocabulary) + ", found " +
                      std::to_string(file.bytes.read(wrong, 1).front()) +
                      "; raise the vocabulary or clean the file");
    }
  }
}

void Lines::findLines(const FileContents &bytes) {
  Extent line;
  bytes.forEachPiece([&](size_t start, std::span<const uint8_t> some) {
    for (auto at = some.begin(); (at = std::find(at, some.end(), lineEnd)) != some.end(); ++at) {
      line.end = start + static_cast<size_t>(at - some.begin());
      lines.push_back(std::exchange(line, {line.end + 1, line.end + 1}));
    }
  });
  if (line.start < bytes.size()) {
    lines.push_back({line.start, bytes.size()});
  }
}

Lines::Line Lines::read(int64_t index, size_t mostBytes) const {
  auto file =
      static_cast<size_t>(std::ranges::upper_bound(firstLine, index) - firstLine.begin() - 1);
  const Extent &line = lines[static_cast<size_t>(index)];
  return opened[file].bytes.read(line.start, std::min(line.end - line.start, mostBytes));
}

void Lines::requireCount(int64_t expected, const std::string &other) const {
  if (count() != expected) {
    throw UserError(showPath(opened.front().path.native()) + ": expected as many lines as " +
                    other + " has, " + std::to_string(expected) + ", found " +
                    std::to_string(count()) + "; line i of the one belongs to line i of the other");
  }
}

std::string Lines::describeCut(const std::string &what) const {
  auto cut = std::ranges::count_if(
      lines, [&](const Extent &line) { return line.end - line.start > most; });
  return cut == 0
             ? ""
             : "cut " + std::to_string(cut) + " of " + std::to_string(lines.size()) + " lines of " +
                   what + ", longer than " + std::to_string(most) + " bytes (its context)";
}

InputLines::InputLines(const InputFiles &files, const Plan &plan, const ReadingOptions &reading) {
  for (const auto &[name, paths] : files) {
    const GivenInput &input = plan.given.at(name);
    inputs.try_emplace(name, paths, input.vocabulary, input.capacity, reading);
  }
}

int64_t InputLines::count() const {
  const Lines &first = inputs.begin()->second;
  for (const auto &[name, lines] : inputs) {
    lines.requireCount(first.count(), showPath(first.files().front().path.native()));
  }
  return first.count();
}

GivenLines InputLines::at(int64_t index) const {
  GivenLines given;
  for (const auto &[name, lines] : inputs) {
    Lines::Line line = lines.at(index);
    given[name] = {line.begin(), line.end()};
  }
  return given;
}

static const std::vector<Path> &requireFiles(const std::vector<Path> &text, const Plan &plan) {
  if (text.empty()) {
    throw UserError("expected at least one data file, found none; give --data FILE");
  }
  if (plan.model.vocabulary <= lineEnd) {
    throw UserError("expected a vocabulary above 10, the byte that ends a line, found " +
                    std::to_string(plan.model.vocabulary) + "; raise the spec's vocabulary");
  }
  return text;
}

LinePairs::LinePairs(const std::vector<Path> &paths, const InputFiles &given, const Plan &plan,
                     uint64_t seed, const ReadingOptions &reading)
    : ItemSource(seed),
      text(requireFiles(paths, plan), plan.model.vocabulary, plan.model.context, reading),
      inputs(given, plan, reading), context(plan.model.context), files(text.files()) {
  for (const auto &[name, lines] : inputs.byName()) {
    lines.requireCount(text.count(), paths.front().string());
    files.insert(files.end(), lines.files().begin(), lines.files().end());
  }
  contentHash = hashFiles(files);
}

std::vector<std::string> LinePairs::notes() const {
  std::vector<std::string> list = collectNotes(files);
  list.push_back(text.describeCut("the text"));
  for (const auto &[name, lines] : inputs.byName()) {
    list.push_back(lines.describeCut("the input " + name));
  }
  std::erase(list, "");
  return list;
}

std::optional<std::string> LinePairs::getTextAt(int64_t index) const {
  Lines::Line line = text.whole(index);
  return std::string(line.begin(), line.end()) + static_cast<char>(lineEnd);
}

int64_t LinePairs::write(int64_t index, int64_t row, const BatchInputs &into) const {
  auto width = static_cast<size_t>(context + 1);
  std::span<int32_t> tokens = into.tokens.subspan(static_cast<size_t>(row) * width, width);
  std::ranges::fill(tokens, lineEnd);
  Lines::Line line = text.at(index);
  std::ranges::copy(line, tokens.begin() + 1);
  into.write(row, inputs.at(index));
  auto scored = std::min<int64_t>(std::ssize(line) + 1, context);
  if (!into.lengths.empty()) {
    into.lengths[static_cast<size_t>(row)] = scored;
  }
  if (!into.padding.empty()) {
    std::span<float> padding =
        into.padding.subspan(static_cast<size_t>(row * context), static_cast<size_t>(context));
    std::ranges::fill(padding, 1.0F);
    std::ranges::fill(padding.first(static_cast<size_t>(scored)), 0.0F);
  }
  return scored;
}

} // namespace sluice::runtime
