// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks the files and arrays of sluice_open_data.
#include "Parts.h"

#include "sluice/Runtime/Data/Npy.h"
#include "sluice/Runtime/Tokenizer/FileEncoder.h"
#include "sluice/Runtime/Tokenizer/Tokenizer.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace sluice::interface {

using namespace sluice::runtime;

namespace {

/// Returns "tokens", "inputs.NAME" or "labels.NAME": the part of messages and the name of an array.
std::string getName(const sluice_part &part) {
  switch (part.role) {
  case SLUICE_TEXT:
    return "tokens";
  case SLUICE_INPUT:
    return std::string("inputs.") + part.name;
  default:
    return std::string("labels.") + part.name;
  }
}

void checkPart(const sluice_part &part) {
  if (part.role < SLUICE_TEXT || part.role > SLUICE_LABEL) {
    throw UserError("role: expected SLUICE_TEXT, SLUICE_INPUT or SLUICE_LABEL, found " +
                    std::to_string(part.role) + "; give one of them");
  }
  if (part.role != SLUICE_TEXT && (!part.name || !*part.name)) {
    throw UserError("name: expected the name of an input or of segments, found none; name it");
  }
  if (part.path && (part.ids || part.numbers)) {
    throw UserError(getName(part) + ": expected a file or an array, found both; give one of them");
  }
  // The bytes of an array of numbers, and its header, are below 2^63.
  constexpr int64_t most = std::numeric_limits<int64_t>::max() / 16;
  for (auto [what, number] : {std::pair("count", part.count), {"width", part.width}}) {
    if (number < 0) {
      throw UserError(std::string(what) + ": expected a number of at least 0, found " +
                      std::to_string(number) + "; give the size of the array");
    }
  }
  if (part.width > 0 && part.count > most / part.width) {
    throw UserError("count: expected an array of at most " + std::to_string(most) +
                    " numbers, found more; give the size of the array");
  }
  bool isOfNumbers = part.role == SLUICE_INPUT;
  if (!part.path && (isOfNumbers ? part.ids != nullptr : part.numbers != nullptr)) {
    throw UserError(getName(part) + ": expected " + (isOfNumbers ? "numbers" : "ids") + ", found " +
                    (isOfNumbers ? "ids" : "numbers") +
                    "; an input has numbers, a text and labels have ids");
  }
  if (!part.path && part.count > 0 && !part.ids && !part.numbers) {
    throw UserError(getName(part) +
                    ": expected a file or an array, found neither; set path, ids or numbers");
  }
}

ByteFile makeFile(const std::string &name, std::vector<uint8_t> bytes) {
  return {name, FileContents(std::move(bytes))};
}

/// Returns a byte for each id. Throws UserError for an id outside of [least, least + values).
ByteFile makeBytes(const std::string &name, const sluice_part &part, int32_t values, uint8_t zero,
                   const std::string &expected) {
  std::span<const int32_t> ids(part.ids, static_cast<size_t>(part.count));
  std::vector<uint8_t> bytes;
  bytes.reserve(ids.size());
  for (int32_t id : ids) {
    if (id < 0 || id >= values) {
      throw UserError(name + ": expected " + expected + ", found " + std::to_string(id) +
                      " at index " + std::to_string(bytes.size()) + "; correct the array");
    }
    bytes.push_back(static_cast<uint8_t>(zero + id));
  }
  return makeFile(name, std::move(bytes));
}

ByteFile makeTokens(const std::string &name, const sluice_part &part) {
  std::vector<uint8_t> bytes(static_cast<size_t>(part.count) * sizeof(int32_t));
  if (!bytes.empty()) {
    std::memcpy(bytes.data(), part.ids, bytes.size());
  }
  ByteFile file = makeFile(name, std::move(bytes));
  file.layout.type = TokenType::Int32;
  return file;
}

/// Returns the bytes of a .npy file.
ByteFile makeNumbers(const std::string &name, const sluice_part &part) {
  std::string header = encodeNpyHeader(
      part.width > 1 ? std::vector{part.count, part.width} : std::vector{part.count}, "<f4");
  auto numbers = static_cast<size_t>(part.count * std::max<int64_t>(1, part.width));
  std::vector<uint8_t> bytes(header.size() + numbers * sizeof(float));
  std::memcpy(bytes.data(), header.data(), header.size());
  if (numbers > 0) {
    std::memcpy(bytes.data() + header.size(), part.numbers, numbers * sizeof(float));
  }
  return makeFile(name, std::move(bytes));
}

std::shared_ptr<const TextEncoder> openTokenizer(const LoadedModel &state, const char *path) {
  Tokenizer found = Tokenizer::open(path);
  if (int64_t vocabulary = state.plan().model.vocabulary; found.size() > vocabulary) {
    throw UserError(showPath(path) + ": expected a tokenizer of at most " +
                    std::to_string(vocabulary) + " ids, the vocabulary of the artifact, found " +
                    std::to_string(found.size()) +
                    "; compile the spec with --set vocabulary=" + std::to_string(found.size()));
  }
  return makeFileEncoder(found, availableThreads());
}

/// Throws UserError for an array where the model takes lines.
void requireNoLines(const LoadedModel &state, const sluice_part &part) {
  const Plan &plan = state.plan();
  if (!plan.given.empty() && !part.path) {
    throw UserError(getName(part) +
                    ": expected a file of lines, found an array; arrays of lines "
                    "are opened by sluice_open_lines in C, and are lists in Python");
  }
}

ByteFile makeArray(const std::string &name, const sluice_part &part, bool areImages) {
  switch (part.role) {
  case SLUICE_TEXT:
    return areImages ? makeBytes(name, part, 256, 0, "bytes of pixels, from 0 to 255")
                     : makeTokens(name, part);
  case SLUICE_INPUT:
    return makeNumbers(name, part);
  default:
    return makeBytes(name, part, 2, '0', "labels 0 and 1");
  }
}

} // namespace

GivenData readParts(const LoadedModel &state, const sluice_part *parts, int64_t count,
                    const sluice_data_options *options) {
  if (count < 1) {
    throw UserError("count: expected at least one part, found " + std::to_string(count) +
                    "; give a text, or files of lines");
  }
  require(parts, "parts");
  sluice_data_options given = readOptions(options);
  GivenData data;
  data.isHeldOut = given.is_held_out != 0;
  data.isInOrder = given.in_order != 0;
  SourceFiles &files = data.files;
  files.inputFlag = "inputs";
  files.labelFlag = "labels";
  files.reading.takesIds = true;
  if (given.images) {
    files.images = parseImageSize("images", given.images);
  }
  if (given.tokenizer) {
    files.reading.encoder = openTokenizer(state, given.tokenizer);
  }
  std::map<std::string, int64_t> numbers;
  std::vector<Path *> opened;
  const auto *at = reinterpret_cast<const char *>(parts);
  for (int64_t i = 0; i < count; ++i, at += parts->size) { // as large as the caller's
    sluice_part part = readOptions(reinterpret_cast<const sluice_part *>(at));
    checkPart(part);
    requireNoLines(state, part);
    std::string name = getName(part);
    int64_t number = numbers[name]++;
    if (number > 0) {
      name += "[" + std::to_string(number) + "]";
    }
    std::vector<Path> &list = part.role == SLUICE_TEXT    ? files.data
                              : part.role == SLUICE_INPUT ? files.inputs[part.name]
                                                          : files.labels[part.name];
    if (!part.path) {
      files.reading.memory.emplace(name, makeArray(name, part, files.images.has_value()));
      list.emplace_back(name);
    } else {
      // No file of this name is taken for an array.
      bool isLikeArray = getName(part) == part.path || name == part.path;
      list.emplace_back(isLikeArray ? Path(".") / part.path : Path(part.path));
    }
  }
  return data;
}

} // namespace sluice::interface
