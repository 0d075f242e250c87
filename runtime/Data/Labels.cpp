// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/Labels.h"

#include "sluice/Runtime/Data/Numbers.h"
#include "sluice/Runtime/Data/Sources.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/Text.h"

#include <algorithm>

namespace sluice::runtime {

static const std::string labelsPrefix = "labels.";

std::vector<std::string> getLabelNames(const Plan &plan) {
  std::vector<std::string> names;
  for (const auto &[name, region] : plan.inputs) {
    if (name.starts_with(labelsPrefix)) {
      names.push_back(name.substr(labelsPrefix.size()));
    }
  }
  return names;
}

std::string labelsInput(const std::string &name) { return labelsPrefix + name; }

void requireLabels(const Plan &plan, const SourceFiles &files, bool areNeeded) {
  std::vector<std::string> names = getLabelNames(plan);
  std::string list;
  for (const std::string &name : names) {
    list += (list.empty() ? "\"" : ", \"") + name + "\"";
  }
  for (const auto &[name, paths] : files.labels) {
    if (std::ranges::find(names, name) == names.end()) {
      throw UserError(files.labelFlag +
                      ": expected segments whose predictor learns labels, which " +
                      (names.empty() ? "this model has none of" : "are " + list) + ", found \"" +
                      name + "\"; name others, or leave the flag out");
    }
  }
  for (const std::string &name : names) {
    if (areNeeded && !files.labels.contains(name)) {
      throw UserError("expected " + files.labelFlag + " " + name +
                      "=FILE, as the predictor of the segments \"" + name +
                      "\" learns labels, found none; give a file with 0 or 1 for each byte of the "
                      "text");
    }
  }
  if (files.images && !names.empty()) {
    throw UserError("--images: expected a model whose segments need no labels, found labels for " +
                    list + "; train it on texts");
  }
}

/// Reads labels, which are bytes "0" and "1", one per byte of the text.
static ByteFile readLabels(const Path &path, const ByteFile &text, const ReadingOptions &reading) {
  ByteFile labels = openByteFile(path, "file of labels", reading);
  if (labels.tokenCount() != text.tokenCount()) {
    const std::string unit = text.isText() ? "byte" : "token";
    throw UserError(showPath(path.native()) + ": expected as many labels as " +
                    showPath(text.path.native()) + " has " + unit + "s, " +
                    std::to_string(text.tokenCount()) + ", found " +
                    std::to_string(labels.bytes.size()) + "; label i belongs to " + unit + " i");
  }
  size_t wrong = labels.bytes.find([](uint8_t b) { return b != '0' && b != '1'; });
  if (wrong < labels.bytes.size()) {
    throw UserError(showPath(path.native()) + ": byte " + std::to_string(wrong) +
                    ": expected the label 0 or 1, as a digit, found byte " +
                    std::to_string(labels.bytes.read(wrong, 1).front()) +
                    "; write one digit for each byte of the text");
  }
  return labels;
}

LabelFiles::LabelFiles(const InputFiles &labels, const std::vector<Path> &texts,
                       const std::vector<ByteFile> &used, const std::vector<ByteFile> &skipped,
                       const NumberInputs &numbers, const ReadingOptions &reading) {
  auto readAll = [&](const std::string &what, const std::vector<Path> &paths, auto &read,
                     auto readOne) {
    if (paths.size() != texts.size()) {
      throw UserError("expected a file of the " + what + " for each text, " +
                      std::to_string(texts.size()) + ", found " + std::to_string(paths.size()) +
                      "; name them in the order of the texts");
    }
    size_t passed = 0; // number of skipped texts so far
    for (size_t i = 0; i < texts.size(); ++i) {
      bool isSkipped = passed < skipped.size() && texts[i] == skipped[passed].path;
      const ByteFile &text = isSkipped ? skipped[passed++] : used[read.size()];
      auto file = readOne(paths[i], text);
      if (!isSkipped) {
        read.push_back(std::move(file));
      }
    }
  };
  for (const auto &[name, paths] : labels) {
    readAll(
        "labels \"" + name + "\"", paths, byName[name],
        [&](const Path &path, const ByteFile &text) { return readLabels(path, text, reading); });
  }
  for (const auto &[name, input] : numbers) {
    readAll("input \"" + name + "\"", input.paths, numbersByName[name],
            [&](const Path &path, const ByteFile &text) {
              return readNumbers(path, input, text, reading);
            });
  }
}

void LabelFiles::write(size_t text, int64_t start, int64_t count, int64_t row,
                       const BatchInputs &into) const {
  for (const auto &[name, labels] : into.labels) {
    std::span<float> to = labels.rows.subspan(static_cast<size_t>(row * labels.width),
                                              static_cast<size_t>(labels.width));
    std::ranges::fill(to, 0.0F);
    auto files = byName.find(name);
    if (files == byName.end()) {
      continue;
    }
    const FileContents &bytes = files->second[text].bytes;
    auto first = static_cast<size_t>(start), size = static_cast<size_t>(count);
    std::vector<uint8_t> row(size);
    size_t ahead = std::min(size, bytes.size() - first);
    bytes.read(first, std::span(row).first(ahead));
    bytes.read(0, std::span(row).subspan(ahead)); // wraps around in a cyclic text
    std::ranges::transform(row, to.begin(), [](uint8_t b) { return b == '1' ? 1.0F : 0.0F; });
  }
  writeNumbers(numbersByName, text, start, count, row, into);
}

std::string LabelFiles::hashWith(const std::string &texts) const {
  if (byName.empty() && numbersByName.empty()) {
    return texts;
  }
  std::string all = texts;
  for (const auto &[name, files] : byName) {
    all += name + hashFiles(files);
  }
  for (const auto &[name, files] : numbersByName) {
    all += name;
    for (const NumberFile &file : files) {
      all += file.bytes.sha256Hex();
    }
  }
  return sha256Hex(all);
}

} // namespace sluice::runtime
