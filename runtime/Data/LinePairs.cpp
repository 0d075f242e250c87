// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/LinePairs.h"

#include "sluice/Runtime/Data/Numbers.h"
#include "sluice/Runtime/Data/Sources.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <utility>

namespace sluice::runtime {

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
  for (const EdgeInput &edges : getEdgeInputs(plan)) {
    names += ", \"" + edges.name + "\"";
  }
  return names;
}

void requireInputs(const Plan &plan, const InputFiles &files, const std::string &flag) {
  std::vector<std::string> numbers = getNumberNames(plan);
  std::vector<EdgeInput> edges = getEdgeInputs(plan);
  for (const auto &[name, paths] : files) {
    if (!plan.given.contains(name) && std::ranges::find(numbers, name) == numbers.end() &&
        std::ranges::find(edges, name, &EdgeInput::name) == edges.end()) {
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
    if (files.contains(name) == isComputed(input)) {
      throw UserError(
          isComputed(input)
              ? flag + ": expected no file for the input \"" + name +
                    "\", whose bits follow from "
                    "the words of \"" +
                    input.on + "\", found one; leave it out"
              : "expected " + flag + " " + name + "=FILE, as the model has the input \"" + name +
                    "\", found none; give a file with a line for each line of the text");
    }
  }
  for (const EdgeInput &each : edges) {
    if (!each.pattern.empty() && files.contains(each.name)) {
      throw UserError(flag + ": expected no file for the edges \"" + each.name +
                      "\", whose pattern is \"" + each.pattern + "\", found one; leave it out");
    }
    if (each.pattern.empty() && !files.contains(each.name)) {
      throw UserError(
          "expected " + flag + " " + each.name + "=FILE, as the model has the edges \"" +
          each.name +
          "\", found none; give a CoNLL-U file, or one with a line of edges such as 0-3 "
          "1-2 for each line of \"" +
          each.axis + "\"; or write \"pattern\": \"chain\" for \"capacity\" of inputs." +
          each.name + " in the spec, which needs no file");
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

static void requireEnd(const std::string &name, const GivenInput &input, const Lines &lines) {
  if (input.hasEnd && lines.lineEnd() >= input.vocabulary) {
    throw UserError("the input \"" + name + "\": expected a vocabulary above " +
                    std::to_string(lines.lineEnd()) + ", the token that ends its lines, found " +
                    std::to_string(input.vocabulary) +
                    "; raise it, or leave \"end\" out of the spec");
  }
}

InputLines::InputLines(const InputFiles &files, const Plan &plan, const ReadingOptions &reading)
    : given(plan.given), seed(static_cast<uint64_t>(plan.model.seed)) {
  for (const auto &[name, input] : given) {
    if (input.on.empty()) {
      int64_t most = input.capacity - (input.hasEnd ? 1 : 0);
      const Lines &lines =
          inputs.try_emplace(name, files.at(name), input.vocabulary, most, reading).first->second;
      requireEnd(name, input, lines);
    }
  }
  for (const auto &[name, input] : given) {
    if (!input.on.empty()) {
      auto paths = files.find(name);
      streams.try_emplace(name, name, input, inputs.at(input.on),
                          paths == files.end() ? std::vector<Path>() : paths->second, reading,
                          plan.model.seed);
    }
  }
  for (const EdgeInput &input : getEdgeInputs(plan)) {
    edges.try_emplace(input.name, input);
    if (input.pattern.empty()) {
      edgeLines.try_emplace(input.name, files.at(input.name), reading);
      checkEdges(input);
    }
  }
}

int64_t InputLines::countRows(const EdgeInput &input, int64_t index,
                              std::span<const int32_t> line) const {
  return input.connectsWords() ? countWords(streams.at(input.on).at(index, line, /*hasEnd=*/false))
                               : std::ssize(line);
}

/// Returns the text of each word of a line, without whitespace around it.
static std::vector<std::string> splitWords(const Lines &on, std::span<const int32_t> line,
                                           std::span<const int32_t> bits) {
  std::vector<std::string> words;
  for (size_t first = 0, p = 0; p < line.size(); ++p) {
    if (bits[p] != 0 || p + 1 == line.size()) {
      std::string word = on.decode(line.subspan(first, p + 1 - first));
      constexpr const char *spaces = " \t\v\f\r";
      word.erase(0, std::min(word.find_first_not_of(spaces), word.size()));
      word.erase(word.find_last_not_of(spaces) + 1);
      words.push_back(word);
      first = p + 1;
    }
  }
  return words;
}

/// Throws UserError unless a sentence has the words of the input's line.
void InputLines::checkWords(const EdgeInput &input, int64_t index) {
  const EdgeLines &sentences = edgeLines.at(input.name);
  const Lines &on = inputs.at(input.axis);
  if (!input.connectsWords()) {
    throw UserError(sentences.describePlace(index) +
                    ": expected edges between rows, as in 0-3 "
                    "1-2, found a sentence of CoNLL-U; let the edges \"" +
                    input.name + "\" be \"on\" an input with \"derived\": \"word_end\"");
  }
  Lines::Line line = on.whole(index);
  std::vector<int32_t> bits = streams.at(input.on).at(index, line, /*hasEnd=*/false);
  std::vector<std::string> expected = splitWords(on, line, bits);
  std::vector<int32_t> numbers; // of the words that a sentence has: blank ones are in no sentence
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].empty()) {
      numbers.push_back(static_cast<int32_t>(i));
    }
  }
  if (std::erase(expected, "") > 0) {
    wordNumbers[{input.name, index}] = numbers;
  }
  const std::vector<std::string> &found = sentences.getWords(index);
  if (expected != found) {
    auto at = static_cast<size_t>(std::ranges::mismatch(expected, found).in1 - expected.begin());
    auto show = [&](const std::vector<std::string> &words) {
      return at < words.size() ? quote(words[at]) : "no word";
    };
    throw UserError(sentences.describePlace(index) + ": expected the words of " +
                    on.describePlace(index) + ", of which number " + std::to_string(at + 1) +
                    " is " + show(expected) + ", found " + show(found) +
                    "; parse the lines of the input, with the same words");
  }
}

Edges InputLines::readEdges(const EdgeInput &input, int64_t index) const {
  Edges edges = edgeLines.at(input.name).at(index, input.connectsWords() ? "word" : "row");
  if (auto numbers = wordNumbers.find({input.name, index}); numbers != wordNumbers.end()) {
    for (auto &[u, v] : edges) {
      u = numbers->second[static_cast<size_t>(u)];
      v = numbers->second[static_cast<size_t>(v)];
    }
  }
  return edges;
}

void InputLines::checkEdges(const EdgeInput &input) {
  const EdgeLines &lines = edgeLines.at(input.name);
  const Lines &on = inputs.at(input.axis);
  std::string noun = input.connectsWords() ? "word" : "row";
  if (on.count() > 0 && lines.count() > 0) {
    lines.at(0, noun); // a file of another kind is reported before its number of lines
  }
  lines.requireCount(on.count(), showPath(on.files().front().path.native()));
  for (int64_t i = 0; i < on.count(); ++i) {
    if (lines.haveWords()) {
      checkWords(input, i);
    }
    Edges found = readEdges(input, i);
    int64_t rows = countRows(input, i, on.whole(i));
    auto outside = std::ranges::find_if(found, [&](auto edge) { return edge.second >= rows; });
    if (outside != found.end()) {
      throw UserError(lines.describePlace(i) + ": expected edges between the " +
                      std::to_string(rows) + " " + noun + "s of " + on.describePlace(i) +
                      ", counted from 0, found " + std::to_string(outside->first) + "-" +
                      std::to_string(outside->second) + "; correct the number");
    }
    if (std::ssize(found) > input.capacity) {
      throw UserError(lines.describePlace(i) + ": expected at most " +
                      std::to_string(input.capacity) + " edges, found " +
                      std::to_string(found.size()) + "; raise \"capacity\" of the input \"" +
                      input.name + "\" in the spec");
    }
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
  GivenLines all;
  for (const auto &[name, lines] : inputs) {
    all[name] = lines.at(index);
    if (given.at(name).hasEnd) {
      all[name].push_back(lines.lineEnd());
    }
  }
  for (const auto &[name, stream] : streams) {
    const std::string &on = given.at(name).on;
    all[name] = stream.at(index, all.at(on), given.at(on).hasEnd);
  }
  for (const auto &[name, input] : edges) {
    uint64_t key = input.pattern.empty() ? 0
                                         : computeLineKey(static_cast<uint64_t>(seed),
                                                          inputs.at(input.axis).whole(index));
    if (input.isDrawn()) {
      const std::vector<int32_t> &on = all.at(input.on);
      all[name] = {computeDrawNumber(key),
                   static_cast<int32_t>(input.connectsWords() ? countWords(on) : std::ssize(on))};
      continue;
    }
    std::span<const int32_t> line = all.at(input.axis);
    line = line.first(line.size() - (given.at(input.axis).hasEnd ? 1 : 0));
    int64_t rows = countRows(input, index, line);
    std::vector<int32_t> &ends = all[name];
    for (auto [u, v] :
         input.pattern.empty() ? readEdges(input, index) : buildPattern(input.pattern, rows, key)) {
      if (v < rows) { // else of a row that was cut
        ends.insert(ends.end(), {u, v});
      }
    }
  }
  return all;
}

std::vector<ByteFile> InputLines::listFiles() const {
  std::vector<ByteFile> files;
  for (const auto &[name, lines] : inputs) {
    files.insert(files.end(), lines.files().begin(), lines.files().end());
  }
  for (const auto &[name, stream] : streams) {
    if (const Lines *lines = stream.lines()) {
      files.insert(files.end(), lines->files().begin(), lines->files().end());
    }
  }
  for (const auto &[name, lines] : edgeLines) {
    files.insert(files.end(), lines.files().begin(), lines.files().end());
  }
  return files;
}

static const std::vector<Path> &requireFiles(const std::vector<Path> &text, const Plan &plan,
                                             const ReadingOptions &reading) {
  int64_t lineEnd = reading.encoder ? '\n' : reading.lineEnd;
  if (text.empty()) {
    throw UserError("expected at least one data file, found none; give --data FILE");
  }
  if (plan.model.vocabulary <= lineEnd) {
    throw UserError("expected a vocabulary above " + std::to_string(lineEnd) + ", the " +
                    (lineEnd == '\n' ? "byte" : "id") + " that ends a line, found " +
                    std::to_string(plan.model.vocabulary) + "; raise the spec's vocabulary");
  }
  return text;
}

LinePairs::LinePairs(const std::vector<Path> &paths, const InputFiles &given, const Plan &plan,
                     uint64_t seed, const ReadingOptions &reading)
    : ItemSource(seed),
      text(requireFiles(paths, plan, reading), plan.model.vocabulary, plan.model.context, reading),
      inputs(given, plan, reading), context(plan.model.context), vocabulary(plan.model.vocabulary),
      files(text.files()) {
  for (const auto &[name, lines] : inputs.byName()) {
    lines.requireCount(text.count(), paths.front().string());
  }
  std::vector<ByteFile> others = inputs.listFiles();
  files.insert(files.end(), others.begin(), others.end());
  contentHash = hashFiles(files);
  if (plan.shapes.empty()) {
    return;
  }
  std::vector<LineBatches::LineLengths> axes{text.getLengths()};
  for (int32_t &length : axes.front()) { // the end is predicted too
    length = std::min(length + 1, static_cast<int32_t>(context));
  }
  for (const auto &[name, lines] : inputs.byName()) {
    axes.push_back(lines.getLengths());
    if (plan.given.at(name).hasEnd) {
      std::ranges::for_each(axes.back(), [](int32_t &length) { ++length; });
    }
  }
  batches.emplace(plan, std::move(axes), seed);
}

std::optional<BatchSize> LinePairs::findBatch(DataPosition position) const {
  if (!batches) {
    return std::nullopt;
  }
  const LineBatches::Batch *batch = batches->find(position);
  if (!batch) { // of a damaged checkpoint
    throw UserError("expected a position in the data at which a batch begins, found line " +
                    std::to_string(position.index + 1) + " of epoch " +
                    std::to_string(position.epoch + 1) + "; begin a run from the weights");
  }
  return batch->size;
}

int64_t LinePairs::countBatches(DataPosition from, int64_t epochs, int64_t rows) const {
  return batches ? batches->count(from, epochs) : ItemSource::countBatches(from, epochs, rows);
}

DataPosition LinePairs::fill(DataPosition position, int64_t rows, const BatchInputs &into) const {
  if (!batches) {
    return ItemSource::fill(position, rows, into);
  }
  findBatch(position); // throws if there is none
  const LineBatches::Batch &batch = *batches->find(position);
  for (size_t row = 0; row < batch.indices.size(); ++row) {
    write(batches->getLine(position.epoch, batch.indices[row]), static_cast<int64_t>(row), into);
    if (!into.drawRows.empty()) {
      into.drawRows[row] = batch.indices[row];
    }
  }
  position.index += batch.size.rows;
  return position.index < rowsPerEpoch() ? position : DataPosition{position.epoch + 1, 0};
}

std::vector<std::string> LinePairs::notes() const {
  std::vector<std::string> list = collectNotes(files);
  if (!isEncoded()) {
    list.push_back(describeUnusedIds(text.files(), vocabulary));
  }
  list.push_back(text.describeCut("the text"));
  for (const auto &[name, lines] : inputs.byName()) {
    list.push_back(lines.describeCut("the input " + name));
    list.push_back(lines.describeLone(text, "the input " + name));
  }
  std::erase(list, "");
  return list;
}

std::optional<std::string> LinePairs::getTextAt(int64_t index) const {
  return text.decode(text.whole(index)) + '\n';
}

int64_t LinePairs::countBytes(int64_t index, int64_t tokens) const {
  if (!isEncoded()) {
    return tokens;
  }
  Lines::Line line = text.whole(index);
  auto inside = std::min(static_cast<size_t>(tokens), line.size());
  return std::ssize(text.decode(std::span(line).first(inside))) +
         (tokens - static_cast<int64_t>(inside));
}

int64_t LinePairs::write(int64_t index, int64_t row, const BatchInputs &into) const {
  int64_t most = into.context > 0 ? into.context : context;
  auto width = static_cast<size_t>(most + 1);
  std::span<int32_t> tokens = into.tokens.subspan(static_cast<size_t>(row) * width, width);
  std::ranges::fill(tokens, text.lineEnd());
  Lines::Line line = text.at(index);
  std::ranges::copy(line, tokens.begin() + 1);
  into.write(row, inputs.at(index));
  auto scored = std::min<int64_t>(std::ssize(line) + 1, most);
  if (!into.lengths.empty()) {
    into.lengths[static_cast<size_t>(row)] = scored;
  }
  if (!into.padding.empty()) {
    std::span<float> padding =
        into.padding.subspan(static_cast<size_t>(row * most), static_cast<size_t>(most));
    std::ranges::fill(padding, 1.0F);
    std::ranges::fill(padding.first(static_cast<size_t>(scored)), 0.0F);
  }
  return scored;
}

} // namespace sluice::runtime
