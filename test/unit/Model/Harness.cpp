// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles, runs and compares complete models.
#include "Harness.h"

#include "sluice/Driver/Driver.h"
#include "sluice/Runtime/Data/Edges.h"
#include "sluice/Support/Files.h"
#include "sluice/Support/Hash.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <future>
#include <gtest/gtest.h>
#include <iostream>
#include <limits>
#include <numeric>
#include <random>
#include <sstream>
#include <stdexcept>

namespace sluice::testing {

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "sluice-test-XXXXXX").string();
  if (!::mkdtemp(name.data())) {
    throw std::runtime_error("cannot make a temporary folder like " + name);
  }
  folder = name;
}

Folder::~Folder() { std::filesystem::remove_all(folder); }

std::string Folder::write(const std::string &name, const std::string &text) const {
  std::ofstream file(folder / name, std::ios::binary);
  file << text;
  if (!file.flush()) {
    throw std::runtime_error("cannot write " + path(name));
  }
  return path(name);
}

static std::string done(const driver::Outcome &outcome) {
  if (outcome.status != 0) {
    throw std::runtime_error(outcome.message);
  }
  return outcome.output;
}

/// True if data selects the rows to read: causality checks cannot compare such passes.
static bool hasSegments(const std::string &source) {
  std::ifstream file(source);
  std::string text(std::istreambuf_iterator<char>(file), {});
  return text.find("\"boundaries\"") != std::string::npos ||
         text.find("\"lsh\"") != std::string::npos;
}

static driver::CompileRequest makeRequest(const Folder &folder, const std::string &source,
                                          const std::string &target, int64_t generationRows) {
  std::string name = std::filesystem::path(source).stem().string() + "." + target + ".sla";
  return {.spec = source,
          .output = folder.path(name),
          .targets = {target},
          .emit = "",
          .verifyEachCausality = !hasSegments(source),
          .generationRows = generationRows};
}

std::string compile(const Folder &folder, const std::string &source, const std::string &target,
                    bool allowLeak, int64_t generationRows) {
  driver::CompileRequest request = makeRequest(folder, source, target, generationRows);
  request.allowLeak = allowLeak;
  done(driver::compile(request));
  return request.output;
}

std::string compileForGeneration(const Folder &folder, const std::string &source,
                                 const std::string &target, int64_t generationRows) {
  driver::CompileRequest request = makeRequest(folder, source, target, generationRows);
  request.hasGradient = false;
  done(driver::compile(request));
  return request.output;
}

namespace {
/// A PATH without the folders of ptxas, unless they contain the linker too.
struct PathWithoutPtxas {
  PathWithoutPtxas() {
    std::string kept;
    std::istringstream folders(saved);
    for (std::string folder; std::getline(folders, folder, ':');) {
      auto has = [&](const char *name) { return std::filesystem::exists(folder + "/" + name); };
      if (!has("ptxas") || has("ld.lld-22") || has("ld.lld")) {
        kept += (kept.empty() ? "" : ":") + folder;
      }
    }
    ::setenv("PATH", kept.c_str(), 1);
  }
  ~PathWithoutPtxas() { ::setenv("PATH", saved.c_str(), 1); }
  std::string saved = ::getenv("PATH") ? ::getenv("PATH") : "";
};
} // namespace

std::string compileForEmulator(const Folder &folder, const std::string &source,
                               const std::string &target, int64_t generationRows) {
  PathWithoutPtxas path;
  return compile(folder, source, target, /*allowLeak=*/false, generationRows);
}

/// Returns a number that depends on the file's name alone.
static size_t getTurn(const std::string &source) {
  std::string name = std::filesystem::path(source).filename();
  return std::accumulate(name.begin(), name.end(), size_t(0));
}

std::vector<std::string> targetsFor(const std::string &source) {
  std::vector<std::string> targets = runtime::machineTargets();
  std::erase(targets, "cpu-avx512-vnni"); // has code for weights in whole numbers alone
  if (readText(source, "spec").find("bf16") == std::string::npos) {
    std::erase(targets, "cpu-amx");
    std::erase(targets, "cpu-avx512-bf16");
  } else if (targets.size() > 2) {
    targets.erase(targets.begin() + 1 + ptrdiff_t(getTurn(source) % 2));
  }
  return targets;
}

std::map<std::string, std::string> compileForAll(const Folder &folder, const std::string &source,
                                                 bool allowLeak, int64_t generationRows) {
  std::map<std::string, std::future<std::string>> jobs;
  for (const std::string &target : targetsFor(source)) {
    jobs[target] = std::async(std::launch::async, [&, target] {
      return compile(folder, source, target, allowLeak, generationRows);
    });
  }
  std::map<std::string, std::string> artifacts;
  for (auto &[target, job] : jobs) {
    artifacts[target] = job.get();
  }
  return artifacts;
}

std::string chooseTarget(const std::string &source) {
  std::vector<std::string> targets = targetsFor(source);
  return targets[getTurn(source) % targets.size()];
}

std::pair<std::string, std::string> compileForOne(const Folder &folder, const std::string &source,
                                                  bool allowLeak, int64_t generationRows) {
  std::string target = chooseTarget(source);
  return {target, compile(folder, source, target, allowLeak, generationRows)};
}

std::map<std::string, std::string> compileForProbe(const Folder &folder, const std::string &source,
                                                   int64_t targetOffset, int64_t batch) {
  std::map<std::string, std::string> artifacts;
  for (const std::string &target : targetsFor(source)) {
    artifacts[target] = folder.path(target + ".sla");
    driver::CompileRequest request;
    request.spec = source;
    request.output = artifacts[target];
    request.targets = {target};
    request.verifyEachCausality = true;
    request.replay = {.targetOffset = targetOffset, .batch = batch};
    done(driver::compile(request));
  }
  return artifacts;
}

std::string emit(const std::string &source, const std::string &stage, bool allowLeak) {
  return done(driver::compile({.spec = source,
                               .output = "",
                               .targets = {"cpu-avx2"},
                               .emit = stage,
                               .allowLeak = allowLeak}));
}

Model::Model(const std::string &artifact, const std::string &target, int threads)
    : running(runtime::Artifact::load(artifact, target), threads) {}

void setWeights(runtime::Executor &executor, const Tensors &weights) {
  for (const runtime::Tensor &tensor : executor.plan().tensors) {
    const std::vector<double> &values = weights.at(tensor.name);
    std::span<float> into = executor.tensor(tensor);
    if (values.size() != into.size()) {
      throw std::runtime_error("weights of another size: " + tensor.name);
    }
    std::copy(values.begin(), values.end(), into.begin());
  }
  executor.prepare();
}

void Model::setWeights(const Tensors &weights) { testing::setWeights(running, weights); }

Tensors Model::weights() {
  Tensors result;
  for (const runtime::Tensor &tensor : plan().tensors) {
    std::span<float> values = running.tensor(tensor);
    result[tensor.name].assign(values.begin(), values.end());
  }
  return result;
}

/// Matrices of deviation 1/sqrt(columns), embeddings 1/2, vectors 1/5 around 1 for gains and 0 for
/// biases: no gradient is then small.
Tensors randomWeights(const std::vector<ReferenceShape> &shapes, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  Tensors weights;
  for (const ReferenceShape &tensor : shapes) {
    bool isVector = tensor.sizes.size() == 1;
    bool isGain = isVector && tensor.name.ends_with("weight");
    double deviation = isVector       ? 0.2
                       : tensor.decay ? 1 / std::sqrt(static_cast<double>(tensor.sizes[1]))
                                      : 0.5;
    std::vector<double> &values = weights[tensor.name];
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      values.push_back(static_cast<float>((isGain ? 1 : 0) + deviation * normal(generator)));
    }
  }
  return weights;
}

std::map<std::string, GivenTokens>
randomGiven(const std::map<std::string, std::pair<int64_t, int64_t>> &axes, int64_t rows,
            uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::map<std::string, GivenTokens> result;
  for (const auto &[name, sizes] : axes) {
    auto [capacity, vocabulary] = sizes;
    GivenTokens &given = result[name];
    given.capacity = capacity;
    for (int64_t row = 0; row < rows; ++row) {
      // Tokens on one axis have equal counts.
      auto some = static_cast<int64_t>(mix64(seed + static_cast<uint64_t>(row)) %
                                       static_cast<uint64_t>(capacity));
      given.counts.push_back(row == 0 ? capacity : row == 1 ? 0 : some);
      for (int64_t i = 0; i < capacity; ++i) {
        given.tokens.push_back(
            static_cast<int32_t>(generator() % static_cast<uint64_t>(vocabulary)));
      }
    }
  }
  return result;
}

Inputs randomInputs(int64_t vocabulary, int64_t rows, int64_t length, uint64_t seed) {
  std::mt19937_64 generator(seed);
  Inputs inputs{.rows = rows,
                .length = length,
                .seed = seed * 0x9E3779B97F4A7C15,
                .step = seed % 1000 + 1,
                .tokens = {},
                .given = {},
                .scored = {}};
  for (int64_t i = 0; i < rows * (length + 1); ++i) {
    inputs.tokens.push_back(static_cast<int32_t>(generator() % static_cast<uint64_t>(vocabulary)));
  }
  return inputs;
}

std::vector<ReferenceShape> Model::shapes() const {
  std::vector<ReferenceShape> result;
  for (const runtime::Tensor &tensor : plan().tensors) {
    result.push_back({tensor.name, tensor.shape, tensor.decay});
  }
  return result;
}

/// Sets the edges of the reference: each row but the last one, with the row before it and row 0, as
/// many as the input can hold. Edges that kernels draw are drawn by 0.
static void setEdges(runtime::Executor &executor, const runtime::EdgeInput &input,
                     const std::vector<int64_t> &counts) {
  runtime::BatchInputs::EdgeLists into = executor.inputs().edges.at(input.name);
  auto size = static_cast<size_t>(into.rows + into.entries);
  for (size_t row = 0; row < counts.size(); ++row) {
    if (input.isDrawn()) {
      auto own = into.lists.subspan(row * size, size);
      std::ranges::fill(own, -1);
      std::ranges::fill(own.first(size_t(counts[row])), 0);
      continue;
    }
    runtime::Edges edges;
    for (int32_t q = 1; q + 1 < counts[row] && std::ssize(edges) + 2 <= input.capacity; ++q) {
      edges.emplace_back(0, q);
      if (q > 1) {
        edges.emplace_back(q - 1, q);
      }
    }
    runtime::writeEdgeLists(edges, into.rows, into.lists.subspan(row * size, size));
  }
}

/// Returns the number of rows of each line, or of words that bits end, for an input of edges.
static std::vector<int64_t> countEdgeRows(const runtime::EdgeInput &edges,
                                          const std::map<std::string, GivenTokens> &given) {
  std::vector<int64_t> counts = given.at(edges.axis).counts;
  const GivenTokens &on = given.at(edges.on);
  for (size_t row = 0; row < counts.size() && edges.connectsWords(); ++row) {
    auto bits = std::span(on.tokens).subspan(row * size_t(on.capacity), size_t(counts[row]));
    counts[row] = runtime::countWords(bits);
  }
  return counts;
}

void setInputs(runtime::Executor &executor, const Inputs &inputs) {
  int64_t stride = executor.plan().model.context + 1;
  std::span<int32_t> tokens = executor.tokens();
  std::fill(tokens.begin(), tokens.end(), std::numeric_limits<int32_t>::min() / 2);
  for (int64_t row = 0; row < inputs.rows; ++row) {
    std::copy_n(inputs.tokens.begin() + row * (inputs.length + 1), inputs.length + 1,
                tokens.begin() + row * stride);
  }
  for (auto &[name, into] : executor.inputs().given) {
    const GivenTokens &given = inputs.given.at(name);
    std::ranges::copy(given.tokens, into.tokens.begin());
    if (!into.counts.empty()) { // streams have the counts of their axis
      std::ranges::copy(given.counts, into.counts.begin());
    }
  }
  for (const runtime::EdgeInput &edges : runtime::getEdgeInputs(executor.plan())) {
    setEdges(executor, edges, countEdgeRows(edges, inputs.given));
  }
  for (auto &[name, labels] : executor.inputs().labels) { // in the order of the reference
    std::ranges::fill(labels.rows, 3e38F);
    for (int64_t row = 0; row < inputs.rows; ++row) {
      const int32_t *text = inputs.tokens.data() + row * (inputs.length + 1);
      int64_t sum = std::accumulate(text, text + inputs.length, int64_t{0});
      for (int64_t p = 0; p < inputs.length; ++p) {
        labels.rows[static_cast<size_t>(row * labels.width + p)] = (sum + p) % 2 == 0 ? 0.0F : 1.0F;
      }
    }
  }
  for (auto &[name, numbers] : executor.inputs().numbers) { // likewise
    bool isTarget = numbers.stride > 1;                     // rows are padded, weights are not
    int64_t width = isTarget ? executor.plan().model.vocabulary : 1;
    std::ranges::fill(numbers.rows, 3e38F);
    for (int64_t row = 0; row < inputs.rows; ++row) {
      const int32_t *text = inputs.tokens.data() + row * (inputs.length + 1);
      int64_t start = std::accumulate(text, text + inputs.length, int64_t{0});
      for (int64_t p = 0; p < inputs.length; ++p) {
        float *into = &numbers.rows[size_t((row * numbers.context + p) * numbers.stride)];
        int64_t sum = 0;
        for (int64_t v = 0; v < width; ++v) {
          sum += 1 + (start + p + v) % 7;
        }
        for (int64_t v = 0; v < width; ++v) {
          into[v] =
              isTarget ? float(1 + (start + p + v) % 7) / float(sum) : float((row + p) % 3) / 2;
        }
      }
    }
  }
  std::span<float> padding = executor.inputs().padding;
  std::ranges::fill(padding, 0.0F);
  for (size_t row = 0; row < inputs.scored.size() && !padding.empty(); ++row) {
    auto text = padding.subspan(row * size_t(stride - 1), size_t(stride - 1));
    std::ranges::fill(text.subspan(size_t(inputs.scored[row])), 1.0F);
  }
  if (std::span<int64_t> lengths = executor.inputs().lengths; !lengths.empty()) {
    std::ranges::fill(lengths, inputs.length);
    std::ranges::copy(inputs.scored, lengths.begin());
  }
  executor.scalarI64("length") = inputs.length;
  executor.scalarI64("rows") = inputs.rows;
  executor.scalarI64("seed") = static_cast<int64_t>(inputs.seed);
  executor.scalarI64("step") = static_cast<int64_t>(inputs.step);
}

void Model::set(const Inputs &inputs) { setInputs(running, inputs); }

/// Losses of valid rows; expects zeros in the others.
std::vector<double> Model::losses(const Inputs &inputs) {
  std::vector<double> result;
  for (int64_t row = 0; row < plan().model.batch; ++row) {
    std::span<const float> values = running.outputRow("losses", row);
    int64_t valid = row < inputs.rows ? inputs.length : 0;
    result.insert(result.end(), values.begin(), values.begin() + valid);
    EXPECT_TRUE(std::all_of(values.begin() + valid, values.end(), [](float x) { return x == 0; }))
        << "row " << row << " has losses beyond its length";
  }
  return result;
}

ReferenceGradient Model::gradient(const Inputs &inputs) {
  set(inputs);
  running.run("gradient");
  ReferenceGradient result{
      .losses = losses(inputs), .loss = running.scalarF32("loss"), .gradients = {}};
  for (const runtime::Tensor &tensor : plan().tensors) {
    std::span<float> values = running.gradient(tensor);
    result.gradients[tensor.name].assign(values.begin(), values.end());
  }
  return result;
}

std::vector<double> Model::evaluate(const Inputs &inputs) {
  set(inputs);
  running.run("evaluate");
  return losses(inputs);
}

std::vector<float> Model::predict(const Inputs &inputs) {
  set(inputs);
  std::ranges::fill(running.inputs().lengths, inputs.length); // whatever is scored
  // The last token is a target, which predicting must not read.
  for (int64_t row = 0; row < inputs.rows; ++row) {
    running.tokens()[static_cast<size_t>(row * (plan().model.context + 1) + inputs.length)] =
        std::numeric_limits<int32_t>::min() / 2;
  }
  running.run("predict");
  std::vector<float> logits;
  for (int64_t row = 0; row < inputs.rows; ++row) {
    std::span<const float> values = running.outputRow("logits", row);
    logits.insert(logits.end(), values.begin(), values.end());
  }
  return logits;
}

ReferenceGradient Model::train(const Inputs &inputs) {
  ReferenceGradient result = gradient(inputs);
  running.run("update");
  return result;
}

Yardstick yardstick(std::vector<double> exact, const std::vector<double> &inFloat) {
  Yardstick result{.exact = std::move(exact), .error = 0, .magnitude = 0, .slack = {}};
  for (size_t i = 0; i < result.exact.size(); ++i) {
    result.error = std::max(result.error, std::fabs(inFloat.at(i) - result.exact[i]));
    result.magnitude = std::max(result.magnitude, std::fabs(result.exact[i]));
  }
  return result;
}

double ratio(const std::vector<double> &found, const Yardstick &yardstick) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  if (found.size() != yardstick.exact.size() || found.empty()) {
    return infinite;
  }
  double worst = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    double difference = std::fabs(found[i] - yardstick.exact[i]);
    double bound = yardstick.bound() + (yardstick.slack.empty() ? 0 : yardstick.slack[i]);
    double one = difference == 0 ? 0 : std::isnan(difference) ? infinite : difference / bound;
    worst = std::max(worst, one);
  }
  return worst;
}

void Comparison::expect(const std::string &what, const std::vector<double> &found,
                        const Yardstick &yardstick) {
  double one = ratio(found, yardstick);
  EXPECT_LE(one, 1) << name << ": " << what << ", error of float32 " << yardstick.error
                    << ", magnitude " << yardstick.magnitude;
  if (one > worst) {
    worst = one;
    worstTensor = what;
  }
}

Comparison::~Comparison() {
  std::cout << name << ": worst ratio to the bound " << worst << " (" << worstTensor << ")"
            << std::endl;
}

} // namespace sluice::testing
