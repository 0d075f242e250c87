// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Differential probes of the compiled binary, for each instruction set and 1, 2 and 5 threads:
// changes one token at a time; every row and every position's gradient that may not depend on it
// must be bitwise equal.
//
// Targets are separate from inputs: rows are scored against tokens half a context ahead. Then no
// input is a target. Tokens of a sequence are distinct, so rows of the embedding's gradient are
// positions.
#include "Harness.h"
#include "RowDependences.h"
#include "Specs.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>

using namespace sluice::testing;

namespace {

const std::string source = SLUICE_SOURCE_DIR;
constexpr int64_t context = 32, vocabulary = 64, batch = 2;
/// Tokens per row that are read; targets start here.
constexpr int64_t ahead = context / 2;

/// Different bits, or different lengths.
bool differ(std::span<const float> x, std::span<const float> y) {
  return x.size() != y.size() || std::memcmp(x.data(), y.data(), x.size_bytes()) != 0;
}

/// Losses of a batch and the gradient of each position's embedding.
struct ProbeOutcome {
  std::vector<std::vector<float>> rows;      ///< [batch * length]: one number
  std::vector<std::vector<float>> positions; ///< [batch * length]: one row of the table
};

/// A spec, resized, in model IR with targets apart, and its programs.
class Probe {
public:
  explicit Probe(const std::string &spec) {
    auto json = nlohmann::ordered_json::parse(spec);
    json["context"] = context;
    json["vocabulary"] = vocabulary;
    json["batch"] = batch;
    std::string path = folder.write("model.json", json.dump(1));
    std::regex offset("offset = 1 : i64");
    text = std::regex_replace(emit(path, "model", /*allowLeak=*/true), offset,
                              "offset = " + std::to_string(ahead) + " : i64");
    artifacts = compileForProbe(folder, path, ahead, batch);
    isTied = spec.find("\"tied\": true") != std::string::npos;
  }

  Folder folder;
  std::string text;
  std::map<std::string, std::string> artifacts;
  bool isTied = false; ///< the table's gradient is the head's, too: rows are no positions
};

/// One program with its tokens.
class Program {
public:
  Program(const Probe &probe, const std::string &target, int threads)
      : model(probe.artifacts.at(target), target, threads) {
    Tensors weights = randomWeights(model.shapes(), 7);
    model.setWeights(weights);
    for (const sluice::runtime::Tensor &tensor : model.plan().tensors) {
      if (tensor.shape == std::vector<int64_t>{vocabulary, tensor.shape.back()} && table.empty()) {
        table = tensor.name;
      }
    }
    // Both sequences of the batch are permutations; targets, from `ahead` on, anything.
    std::vector<int32_t> all(vocabulary);
    std::iota(all.begin(), all.end(), 0);
    std::mt19937 generator(3);
    for (int64_t b = 0; b < batch; ++b) {
      std::shuffle(all.begin(), all.end(), generator);
      inputs.insert(inputs.end(), all.begin(), all.begin() + context + 1);
    }
  }

  int32_t &token(int64_t b, int64_t position) {
    return inputs[static_cast<size_t>(b * (context + 1) + position)];
  }
  /// A token that no position of the first sequence has.
  int32_t unused() const {
    for (int32_t id = 0;; ++id) {
      if (std::find(inputs.begin(), inputs.begin() + context + 1, id) ==
          inputs.begin() + context + 1) {
        return id;
      }
    }
  }

  std::vector<std::vector<float>> evaluate(int64_t length) {
    run("evaluate", length);
    return getValueRows(length);
  }

  ProbeOutcome gradient(int64_t length) {
    run("gradient", length);
    ProbeOutcome outcome{getValueRows(length), {}};
    for (const sluice::runtime::Tensor &tensor : model.plan().tensors) {
      if (tensor.name == table) {
        std::span<float> all = model.executor().gradient(tensor);
        size_t width = static_cast<size_t>(tensor.shape.back());
        for (int64_t p = 0; p < length; ++p) { // of the first sequence
          auto first = all.begin() + static_cast<std::ptrdiff_t>(width) * token(0, p);
          outcome.positions.emplace_back(first, first + static_cast<std::ptrdiff_t>(width));
        }
      }
    }
    return outcome;
  }

private:
  void run(const std::string &entry, int64_t length) {
    sluice::runtime::Executor &executor = model.executor();
    std::copy(inputs.begin(), inputs.end(), executor.tokens().begin());
    executor.scalarI64("length") = length;
    executor.scalarI64("rows") = batch;
    executor.scalarI64("seed") = 5;
    executor.scalarI64("step") = 1;
    executor.run(entry);
  }
  std::vector<std::vector<float>> getValueRows(int64_t length) {
    std::vector<std::vector<float>> rows;
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t t = 0; t < length; ++t) {
        rows.push_back({model.executor().outputRow("losses", b)[static_cast<size_t>(t)]});
      }
    }
    return rows;
  }

  Model model;
  std::string table;
  std::vector<int32_t> inputs;
};

/// Results of the probes as text, empty on success.
struct Findings {
  std::string leaks, silent;
};

/// Every token of the first sequence, as an input: no earlier row and no row of the other sequence
/// may change; `silent` lists tokens without effect although some row sees them.
void probeInputs(Program &program, const std::vector<std::vector<bool>> &seen, int64_t length,
                 Findings &findings) {
  std::vector<std::vector<float>> before = program.evaluate(length);
  for (int64_t j = 0; j < length; ++j) {
    int32_t kept = std::exchange(program.token(0, j), program.unused());
    std::vector<std::vector<float>> after = program.evaluate(length);
    program.token(0, j) = kept;
    bool noticed = false, isSeen = false;
    for (int64_t t = 0; t < batch * length; ++t) {
      bool changed = differ(before[static_cast<size_t>(t)], after[static_cast<size_t>(t)]);
      bool allowed = t >= j && t < length;
      noticed |= changed;
      isSeen |= t < length && seen[static_cast<size_t>(t)][static_cast<size_t>(j)];
      if (changed && !allowed) {
        findings.leaks += "of " + std::to_string(length) + " tokens, row " + std::to_string(t) +
                          " changes with token " + std::to_string(j) + "\n";
      }
      bool sees = t < length && seen[static_cast<size_t>(t)][static_cast<size_t>(j)];
      if (changed && !sees) {
        findings.leaks += "row " + std::to_string(t) + " does not see token " + std::to_string(j) +
                          " in model IR\n";
      }
    }
    if (isSeen && !noticed) {
      findings.silent += "no row notices token " + std::to_string(j) + "\n";
    }
  }
}

/// Every row's target: the gradient of positions after the row, and of those that it does not see,
/// may not change.
void probeTargets(Program &program, const std::vector<std::vector<bool>> &seen, int64_t length,
                  Findings &findings) {
  ProbeOutcome before = program.gradient(length);
  for (int64_t t = 0; t < length; ++t) {
    int32_t &target = program.token(0, t + ahead);
    int32_t kept = std::exchange(target, (target + 1) % static_cast<int32_t>(vocabulary));
    ProbeOutcome after = program.gradient(length);
    target = kept;
    bool noticed = false, isSeen = false;
    for (int64_t q = 0; q < length; ++q) {
      auto index = static_cast<size_t>(q);
      bool changed = differ(before.positions[index], after.positions[index]);
      bool sees = seen[static_cast<size_t>(t)][index];
      noticed |= changed;
      isSeen |= sees;
      if (changed && (q > t || !sees)) {
        findings.leaks += "of " + std::to_string(length) + " tokens, the gradient of position " +
                          std::to_string(q) + " changes with row " + std::to_string(t) +
                          "'s loss\n";
      }
    }
    if (isSeen && !noticed) {
      findings.silent += "no gradient notices row " + std::to_string(t) + "'s loss\n";
    }
  }
}

/// Rows are the same at every length that contains them.
void probeLengths(Program &program, int64_t longest, Findings &findings) {
  std::vector<std::vector<float>> before = program.evaluate(1);
  for (int64_t length = 2; length <= longest; ++length) {
    std::vector<std::vector<float>> after = program.evaluate(length);
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t t = 0; t + 1 < length; ++t) {
        if (differ(before[static_cast<size_t>(b * (length - 1) + t)],
                   after[static_cast<size_t>(b * length + t)])) {
          findings.leaks += "row " + std::to_string(t) + " of sequence " + std::to_string(b) +
                            " is another one at length " + std::to_string(length) + "\n";
        }
      }
    }
    before = std::move(after);
  }
}

Findings probe(const Probe &probe, const std::string &target, int threads, bool thorough) {
  int64_t longest = thorough ? 15 : 9;
  Program program(probe, target, threads);
  Findings findings;
  for (int64_t length :
       thorough ? std::vector<int64_t>{7, longest} : std::vector<int64_t>{longest}) {
    std::vector<std::vector<bool>> seen = computeRowDependences(probe.text, length);
    probeInputs(program, seen, length, findings);
    if (!probe.isTied) {
      probeTargets(program, seen, length, findings);
    }
  }
  probeLengths(program, longest, findings);
  return findings;
}

std::string read(const std::string &path) {
  std::ifstream file(source + path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Together every op, method and mask, and every way to shift.
std::vector<std::string> causalSpecs() {
  std::vector<std::string> specs{read("/test/causality/causal/windows.json"),
                                 read("/test/causality/causal/factors-2-3-7-nested.json"),
                                 read("/test/causality/causal/shift-on-coarse-scale.json")};
  for (const char *name : {"PostNorm", "Dropout", "Streams", "Blocks"}) {
    auto family = std::find_if(families().begin(), families().end(), [&](const Family &candidate) {
      return std::string(candidate.name) == name;
    });
    specs.push_back(family == families().end() ? "no family of this name" : family->text);
  }
  return specs;
}

/// The others: compilation takes most of the time.
std::vector<std::string> moreSpecs() {
  std::vector<std::string> specs;
  for (const char *path : {"/models/tiny/vanilla.json", "/models/tiny/hourglass.json",
                           "/models/tiny/nested.json", "/test/causality/causal/dropout.json",
                           "/test/causality/causal/hourglass-at-once-linear.json",
                           "/test/causality/causal/shift-after-upsample.json",
                           "/test/causality/causal/upsample-in-two-steps.json"}) {
    specs.push_back(read(path));
  }
  return specs;
}

} // namespace

class CausalBinary : public ::testing::TestWithParam<std::string> {};

TEST_P(CausalBinary, LaterTokensChangeNoEarlierRowAndNoLaterGradient) {
  Probe program(GetParam());
  for (const auto &[target, artifact] : program.artifacts) {
    for (int threads : {1, 2, 5}) {
      Findings findings = probe(program, target, threads, threads == 1);
      EXPECT_EQ(findings.leaks, "") << target << ", " << threads << " threads";
      EXPECT_EQ(findings.silent, "") << target << ", " << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, CausalBinary, ::testing::ValuesIn(causalSpecs()));
INSTANTIATE_TEST_SUITE_P(Slow, CausalBinary, ::testing::ValuesIn(moreSpecs()));

class LeakyBinary : public ::testing::TestWithParam<std::string> {};

/// The same probe fails on a leak.
TEST_P(LeakyBinary, IsDetected) {
  Probe program(read(GetParam()));
  for (const auto &[target, artifact] : program.artifacts) {
    EXPECT_NE(probe(program, target, 1, true).leaks, "") << target;
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, LeakyBinary,
                         ::testing::Values("/test/causality/leaky/shift-short-2.json",
                                           "/test/causality/leaky/ragged-stored-shift.json"));
