// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Generate/Session.h"

#include "SessionText.h"
#include "sluice/Runtime/Data/Safetensors.h"
#include "sluice/Support/FileKind.h"
#include "sluice/Support/FileMixUp.h"
#include "sluice/Support/Hash.h"
#include "sluice/Support/Json.h"
#include "sluice/Support/OutputFile.h"
#include "sluice/Support/Text.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sluice::runtime {
namespace {

const std::string &remedy = sessionRemedy;
constexpr const char *sessionKey = "sluice.session", *hashKey = "sluice.session_sha256";

/// Returns the hash of the hashes of all tensors in the plan's order, independent of the files they
/// were loaded from.
std::string hashOfWeights(Executor &executor) {
  std::string hashes;
  for (const Tensor &tensor : executor.plan().tensors) {
    std::span<const float> data = executor.tensor(tensor, Access::Read);
    hashes += sha256Hex({reinterpret_cast<const uint8_t *>(data.data()), data.size_bytes()});
  }
  return sha256Hex(hashes);
}

/// An owner of a session: its key, its name in messages, the name of another one, and its hash
/// here.
struct Owner {
  const char *key, *name, *other;
  std::string value;
};
std::vector<Owner> listOwners(Executor &executor) {
  return {
      {"artifact", "artifact", "another artifact", sha256Hex(executor.artifact().elf())},
      {"weights", "weights", "other weights", hashOfWeights(executor)},
      {"target", "instruction set (--cpu-target chooses it)", "another one", executor.target()}};
}

/// A state of one text without padding: as f32 if all of its values are exact in f32, otherwise the
/// bits of its integers.
class StateRow {
public:
  explicit StateRow(const State &state)
      : state(state), width(state.region.shape.size() < 2 ? 1 : state.region.shape.back()),
        lines(state.rowBytes() / getByteSize(state.region.type) /
              (state.region.shape.size() < 2 ? 1 : state.region.rowStride)),
        shape(state.region.shape.begin() + 1, state.region.shape.end()) {}

  /// Excludes the number of tokens that the states have seen, which the window has.
  static bool isNumbers(const State &state) { return state.region.type != Type::i64; }
  NamedTensor named(const std::string &name) {
    data.resize(static_cast<size_t>(lines * width));
    return {name, shape, data};
  }
  void take(std::span<const uint8_t> bytes) {
    each([&](size_t i, size_t at, size_t size) {
      uint32_t bits = 0;
      std::memcpy(reinterpret_cast<uint8_t *>(&bits) + (4 - size), bytes.data() + at, size);
      data[i] = std::bit_cast<float>(bits);
    });
  }
  void give(std::span<uint8_t> bytes) const {
    each([&](size_t i, size_t at, size_t size) {
      auto bits = std::bit_cast<uint32_t>(data[i]);
      std::memcpy(bytes.data() + at, reinterpret_cast<uint8_t *>(&bits) + (4 - size), size);
    });
  }

private:
  /// Calls `action` for each element with its index, its first byte in the arena, and its size:
  /// bf16 is the upper half of f32.
  template <typename Action> void each(const Action &action) const {
    auto size = static_cast<size_t>(getByteSize(state.region.type));
    for (int64_t i = 0; i < lines * width; ++i) {
      auto at = static_cast<size_t>(i / width * state.region.rowStride + i % width);
      action(static_cast<size_t>(i), at * size, size);
    }
  }

  const State &state;
  int64_t width, lines;
  std::vector<int64_t> shape;
  std::vector<float> data;
};

/// Returns the file's description after verifying its checksum.
Json readDescription(const SafetensorsFile &file, const std::string &origin) {
  std::string text = file.metadata(sessionKey);
  if (text.empty() || !file.hasChecksum()) {
    throw UserError(origin + ": expected a session, found a file without one" + remedy);
  }
  if (file.metadata(hashKey) != sha256Hex(text)) {
    throw UserError(origin + ": expected a session that matches its checksum, found a damaged one" +
                    remedy);
  }
  return readJson(text, origin + ": " + sessionKey, "JSON", remedy);
}

void requireOwners(const StrictJson &json, Executor &executor, const std::string &origin) {
  for (const Owner &owner : listOwners(executor)) {
    std::string found = json.at(owner.key).string();
    if (found != owner.value) {
      throw UserError(origin + ": expected a session of the same " + owner.name + " (" +
                      owner.value + "), found one of " + owner.other + " (" + found +
                      "); name what it was saved with, or begin anew without it");
    }
  }
}

} // namespace

void saveSession(const Path &path, Executor &executor, const Predictor &predictor,
                 const Session &session) {
  const auto &states = executor.plan().generation->states;
  Predictor::GenerationWindow window = predictor.window(0);
  std::vector<StateRow> rows;
  rows.reserve(states.size()); // tensors point into it
  std::vector<NamedTensor> tensors;
  for (const auto &[name, state] : states) {
    if (StateRow::isNumbers(state)) {
      rows.emplace_back(state);
      tensors.push_back(rows.back().named(name));
      rows.back().take(executor.stateRow(state, 0, Access::Read));
    }
  }
  Json json = {{"format", "sluice-session"},  {"version", 1},
               {"text", session.text.tokens}, {"sample", session.text.sample},
               {"drawn", session.text.drawn}, {"sampling", describe(session.options)},
               {"start", window.start},       {"seen", window.seen}};
  if (session.areIds) {
    json["ids"] = true;
  }
  if (!session.tokenizer.empty()) {
    json["tokenizer"] = session.tokenizer;
  }
  if (!session.text.given.empty()) {
    json["inputs"] = session.text.given;
  }
  for (const Owner &owner : listOwners(executor)) {
    json[owner.key] = owner.value;
  }
  std::string text = json.dump();
  replaceFile(path, encodeSafetensors(tensors, {{sessionKey, text}, {hashKey, sha256Hex(text)}}));
}

Session loadSession(const Path &path, Executor &executor, Predictor &predictor) {
  std::string origin = path.string();
  requireKind(path, FileKind::Session, "a session");
  std::vector<uint8_t> bytes = readBytes(path, "session");
  SafetensorsFile file(bytes, origin, {remedy, remedy});
  Json description = readDescription(file, origin);
  StrictJson json(description, origin + ": " + sessionKey, remedy);
  requireSession(json);
  requireOwners(json, executor, origin);
  Predictor::GenerationWindow window;
  Session session = parseSession(json, executor.plan(), window);
  const auto &states = executor.plan().generation->states;
  std::vector<StateRow> rows;
  rows.reserve(states.size());
  std::vector<NamedTensor> tensors;
  for (const auto &[name, state] : states) {
    if (StateRow::isNumbers(state)) {
      rows.emplace_back(state);
      tensors.push_back(rows.back().named(name));
    }
  }
  for (const NamedTensor &tensor : tensors) {
    file.check(tensor);
  }
  for (const NamedTensor &tensor : tensors) {
    file.copy(tensor);
  }
  auto row = rows.begin();
  for (const auto &[name, state] : states) {
    std::span<uint8_t> place = executor.stateRow(state, 0, Access::Edit);
    if (StateRow::isNumbers(state)) {
      (row++)->give(place);
    } else {
      std::memcpy(place.data(), &window.seen, std::min(place.size(), sizeof window.seen));
    }
  }
  auto begin = session.text.tokens.begin() + window.start;
  std::copy(begin, begin + std::max<int64_t>(window.seen, 0), executor.text().begin());
  predictor.begin(0, window);
  return session;
}

} // namespace sluice::runtime
