// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random damage to the files of a run: a reader rejects it with a UserError, or it reads the
// written bytes. SLUICE_FAULTS sets the number of trials per kind.
#include "Fixture.h"

#include "sluice/Runtime/Device/Recording.h"
#include "sluice/Runtime/Device/Tuning.h"
#include "sluice/Runtime/Plan/Plan.h"
#include "sluice/Runtime/Report/Report.h"
#include "sluice/Runtime/Train/Checkpoint.h"
#include "sluice/Runtime/Train/Metrics.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Json.h"

#include <cstdlib>
#include <cstring>
#include <random>

using namespace sluice;
using namespace sluice::runtime;
using namespace sluice::test;
using sluice::Json;

namespace {

int trials() {
  const char *text = std::getenv("SLUICE_FAULTS");
  return text ? std::atoi(text) : 50;
}

class Faults : public testing::Test {
protected:
  Faults() : executor(bigramArtifact(folder), 1) {
    executor.scalarI64("seed") = 3;
    executor.run("initialize");
    state.step = 12;
    state.dataHash = "d";
    state.specHash = "s";
    saveCheckpoint(run, executor, state, 3);
    original = numbers();
  }

  size_t draw(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random); }

  std::vector<float> numbers() {
    std::vector<float> all;
    for (const Tensor &tensor : executor.plan().tensors) {
      auto add = [&](std::span<float> part) { all.insert(all.end(), part.begin(), part.end()); };
      add(executor.tensor(tensor));
      for (const auto &[name, ignored] : tensor.states) {
        add(executor.state(tensor, name));
      }
    }
    return all;
  }

  /// True if the reader rejected its input; fails the test if it read other numbers.
  bool refuses(const std::function<void()> &read, const std::string &fault) {
    try {
      read();
    } catch (const UserError &) {
      return true;
    }
    std::vector<float> found = numbers();
    EXPECT_EQ(std::memcmp(found.data(), original.data(), original.size() * sizeof(float)), 0)
        << fault;
    return false;
  }

  /// Changes one to four bytes.
  std::string spoil(std::string bytes) {
    for (size_t left = 1 + draw(4); left > 0; --left) {
      bytes[draw(bytes.size())] ^= static_cast<char>(1 + draw(255));
    }
    return bytes;
  }

  TemporaryFolder folder;
  Path run = folder / "run", checkpoint = run / "checkpoints/12";
  Executor executor;
  TrainingState state;
  std::vector<float> original;
  std::mt19937 random{20261122};
};

// Half of the trials hit the header, which is a small part of the file.
TEST_F(Faults, RejectsDamagedWeightFiles) {
  std::string whole = readFile(checkpoint / "weights.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, whole.data(), 8);
  Path bare = folder / "bare.safetensors";
  int refused = 0;
  for (int i = 0; i < trials(); ++i) {
    size_t headerBytes = 8 + header;
    std::string file =
        i % 2 == 0 ? spoil(whole) : spoil(whole.substr(0, headerBytes)) + whole.substr(headerBytes);
    writeFile(bare, file);
    refused += refuses([&] { loadWeights(bare, executor); }, "trial " + std::to_string(i));
  }
  RecordProperty("refused", refused);
  EXPECT_GT(refused, trials() * 9 / 10);
}

TEST_F(Faults, RejectsDamagedCheckpoints) {
  int refused = 0;
  for (int i = 0; i < trials(); ++i) {
    const char *name =
        std::array{"weights.safetensors", "optimizer.safetensors", "state.json"}[i % 3];
    std::string whole = readFile(checkpoint / name);
    writeFile(checkpoint / name, spoil(whole));
    TrainingState loaded;
    bool isRefused = refuses([&] { loaded = loadCheckpoint(run, executor); },
                             std::string(name) + ", trial " + std::to_string(i));
    EXPECT_TRUE(isRefused || (loaded.step == 12 && loaded.position == state.position)) << i;
    refused += isRefused;
    writeFile(checkpoint / name, whole);
  }
  EXPECT_GT(refused, trials() * 9 / 10);
}

TEST_F(Faults, RejectsTruncatedFiles) {
  for (int i = 0; i < trials(); ++i) {
    const char *name =
        std::array{"weights.safetensors", "optimizer.safetensors", "state.json"}[i % 3];
    std::string whole = readFile(checkpoint / name), cut = whole.substr(0, draw(whole.size() - 1));
    writeFile(checkpoint / name, cut);
    EXPECT_TRUE(refuses([&] { loadCheckpoint(run, executor); }, name)) << cut.size();
    writeFile(checkpoint / name, whole);
    if (i % 3 == 0) {
      writeFile(folder / "bare", cut);
      EXPECT_TRUE(refuses([&] { loadWeights(folder / "bare", executor); }, name)) << cut.size();
    }
  }
}

/// Offsets of a JSON text outside strings.
std::vector<size_t> outsideStrings(const std::string &text) {
  std::vector<size_t> places;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!inString) {
      places.push_back(i);
    }
    if (text[i] == '"') {
      inString = !inString;
    } else if (text[i] == '\\') {
      ++i;
    }
  }
  return places;
}

/// Replaces a value, or any text, in `text` by a value of up to 100,000 levels.
std::string deepen(const std::string &text, const std::function<size_t(size_t)> &draw) {
  std::vector<size_t> places = outsideStrings(text);
  size_t levels = 1000 + draw(100000), at = places[draw(places.size())];
  bool closed = draw(2) == 0, objects = draw(2) == 0;
  std::string deep;
  for (size_t i = 0; i < levels; ++i) {
    deep += objects ? "{\"a\":" : "[";
  }
  deep += closed ? "0" + std::string(levels, objects ? '}' : ']') : "";
  if (draw(2) == 0) { // after a colon: a valid value instead of another
    size_t colon = text.find(':', at), comma = text.find_first_of(",}", colon);
    if (colon != std::string::npos && comma != std::string::npos) {
      return text.substr(0, colon + 1) + deep + text.substr(comma);
    }
  }
  return text.substr(0, at) + deep + text.substr(at);
}

TEST_F(Faults, RejectsDeepJson) {
  auto below = [this](size_t most) { return draw(most); };
  writeTuning(folder / "tuning", Tuning{"GPU", 1, 1, {}});
  std::string tuning = readFile(folder / "tuning"), plan = bigramPlan().dump(),
              stateText = readFile(checkpoint / "state.json"),
              weights = readFile(checkpoint / "weights.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, weights.data(), 8);
  auto withHeader = [](const std::string &magic, std::string text, const std::string &rest) {
    uint64_t length = text.size();
    return magic + std::string(reinterpret_cast<const char *>(&length), 8) + text + rest;
  };
  for (int i = 0; i < trials(); ++i) {
    SCOPED_TRACE(i);
    userError([&] { parsePlan(deepen(plan, below), "plan"); });
    writeFile(folder / "tuning", deepen(tuning, below));
    userError([&] { readTuning(folder / "tuning"); });
    writeFile(checkpoint / "state.json", deepen(stateText, below));
    userError([&] { loadCheckpoint(run, executor); });
    writeFile(folder / "bare",
              withHeader("", deepen(weights.substr(8, header), below), weights.substr(8 + header)));
    userError([&] { loadWeights(folder / "bare", executor); });
    std::string recording = R"({"artifact": "a", "device": "d", "launches": []})";
    writeFile(folder / "recording", withHeader(std::string("SLUICREC\1\0\0\0\0\0\0\0", 16),
                                               deepen(recording, below), ""));
    userError([&] { readRecording(folder / "recording"); });
    const std::string good = "{\"step\":1,\"bits_per_byte\":7.5}";
    writeFile(run / "metrics.jsonl", good + "\n" + deepen(good, below) + "\n");
    writeFile(run / "costs.json", deepen(R"({"name":"a","memory":{"by_scale":{"1":2}}})", below));
    EXPECT_NE(makeReport(run).find("Damaged lines of metrics.jsonl"), std::string::npos);
    EXPECT_EQ(keepLinesUpTo(run / "metrics.jsonl", 5), 1);
    EXPECT_EQ(readFile(run / "metrics.jsonl"), good + "\n");
  }
}

// Logged lines are unchanged, byte for byte; the garbage is found next to it.
TEST_F(Faults, HandlesGarbageInMetrics) {
  Path path = folder / "metrics.jsonl", beside = folder / "metrics.jsonl.damaged";
  for (int i = 0; i < trials(); ++i) {
    std::string text, kept, aside;
    int64_t damaged = 0;
    for (int step = 1; step <= 20; ++step) {
      std::string line = Json{{"step", step}, {"loss", draw(100)}}.dump() + "\n", garbage;
      text += line;
      kept += step <= 15 ? line : "";
      if (draw(4) == 0) {
        switch (draw(3)) {
        case 0: // truncated
          garbage = line.substr(0, 1 + draw(line.size() - 2));
          break;
        case 1: // bytes
          for (size_t left = 1 + draw(50); left > 0; --left) {
            garbage += static_cast<char>(128 + draw(128));
          }
          break;
        default: // JSON, but not a line of metrics
          garbage =
              std::array{"{\"loss\":1}", "[]", "7", "{\"step\":-1}", "{\"step\":1.5}"}[draw(5)];
        }
        text += garbage + "\n";
        aside += garbage + "\n";
        ++damaged;
      }
    }
    writeFile(path, text);
    std::filesystem::remove(beside);
    EXPECT_EQ(readLines(path).size(), 20u);
    EXPECT_EQ(keepLinesUpTo(path, 15), damaged);
    EXPECT_EQ(readFile(path), kept);
    EXPECT_EQ(damaged > 0 ? readFile(beside) : "", aside);
  }
}

} // namespace
