// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Device/RecordLaunches.h"

#include "HostLaunch.h"
#include "sluice/Runtime/Data/Edges.h"
#include "sluice/Runtime/Device/Emulator/EmulatorDevice.h"
#include "sluice/Runtime/Device/Recording.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Hash.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

namespace sluice::runtime {
namespace {

const std::array<const char *, 4> scalarNames = {"length", "rows", "step", "seed"};

/// True for the entries whose launches run over rings.
bool isStep(const std::string &entry) { return entry == "prefill" || entry == "step"; }

/// Returns the smallest f32 that is not below `value`.
float notBelow(double value) {
  auto rounded = static_cast<float>(value);
  return rounded < value ? std::nextafter(rounded, INFINITY) : rounded;
}

class Recorder {
public:
  Recorder(const std::shared_ptr<const Artifact> &artifact, const std::string &target)
      : device(makeEmulatorDevice(artifact, target,
                                  [this](const Expectation &told) { observe(told); })) {}

  Recording record(int64_t length, int64_t rows) {
    recording = {sha256Hex(device->artifact().elf()), device->describe(), {}};
    scalars() = {device->plan().model.context, device->plan().model.batch, 1, 11};
    write();
    runEntry("initialize");
    setWeights();
    setTokens();
    scalars() = {length, rows, 2, 11};
    write();
    for (const char *entry : {"prepare", "quantize", "count", "gradient", "accumulate", "update",
                              "evaluate", "predict"}) {
      runEntry(entry);
    }
    for (int64_t factor : device->plan().factors) { // the main factor has no entries of such names
      for (const char *entry : {"count", "gradient", "evaluate", "predict"}) {
        runEntry(entryOfFactor(entry, factor));
      }
    }
    generate();
    return std::move(recording);
  }

private:
  /// Generates with a prompt in one row and none in two others, for as many steps as are needed for
  /// the rows of every scale to be due.
  void generate() {
    const Plan &plan = device->plan();
    if (!plan.generation) {
      return;
    }
    const Region &take = plan.inputs.at("take");
    auto *numbers = reinterpret_cast<int64_t *>(device->host() + take.offset);
    int64_t all = take.shape.front(), some = std::min<int64_t>(all, 3), middle = some / 2;
    auto run = [&](const char *entry, int64_t first, int64_t last, int64_t number) {
      std::fill_n(numbers, all, 0);
      std::fill(numbers + first, numbers + last, number);
      runEntry(entry);
    };
    run("reset", 0, all, 1);
    int64_t steps = std::min(plan.generation->period, plan.model.context - 1);
    int64_t prompt = plan.model.context - steps;
    scalars() = {prompt, 1, 2, 11};
    write();
    shareLines();
    run("prefill", middle, middle + 1, prompt);
    for (int64_t i = 0; i < steps; ++i) {
      run("step", 0, some, 1);
    }
  }

  /// Assigns one line to every two rows of generation.
  void shareLines() {
    const Plan &plan = device->plan();
    auto lines = plan.inputs.find("take.line");
    for (int64_t row = 0; lines != plan.inputs.end() && row < plan.generation->rows; ++row) {
      auto *numbers = reinterpret_cast<int32_t *>(device->host() + lines->second.offset);
      numbers[row] = static_cast<int32_t>(row / 2);
    }
  }

  std::array<int64_t, 4> &scalars() { return values; }
  void write() {
    for (size_t i = 0; i < scalarNames.size(); ++i) {
      auto found = device->plan().scalars.find(scalarNames[i]);
      if (found != device->plan().scalars.end()) {
        std::memcpy(device->host() + found->second.offset, &values[i], sizeof values[i]);
      }
    }
  }

  /// Sets weights that avoid vanishing values: deviation 1/sqrt(columns) for matrices, 1/5 for
  /// others.
  void setWeights() {
    std::mt19937_64 generator(5);
    std::normal_distribution<float> normal;
    for (const Tensor &tensor : device->plan().tensors) {
      bool isGain = tensor.shape.size() == 1 && tensor.name.ends_with("weight");
      float deviation = tensor.decay && tensor.shape.size() > 1
                            ? 1 / std::sqrt(static_cast<float>(tensor.shape.back()))
                            : 0.2f;
      auto *numbers = reinterpret_cast<float *>(device->host() + tensor.offset);
      for (int64_t i = 0; i < tensor.elements(); ++i) {
        numbers[i] = (isGain ? 1.0f : 0.0f) + deviation * normal(generator);
      }
    }
  }

  void setTokens() {
    const Plan &plan = device->plan();
    for (const char *name : {"tokens", "prompt", "text"}) {
      if (plan.inputs.contains(name)) {
        setIds(plan.inputs.at(name), plan.model.vocabulary);
      }
    }
    for (const auto &[name, given] : plan.given) {
      for (const std::string &input : {name, "prompt." + name}) { // of a batch, and of one line
        if (plan.inputs.contains(input)) {
          setIds(plan.inputs.at(input), given.vocabulary);
        }
        if (plan.inputs.contains(input + ".count")) { // others have the counts of another input
          setCounts(input, given.capacity);
        }
      }
    }
    if (plan.inputs.contains("tokens.count")) {
      setCounts("tokens", plan.model.context);
    }
    for (const EdgeInput &edges : getEdgeInputs(plan)) {
      for (const char *prefix : {"", "prompt."}) {
        setEdges(edges, prefix + edgesInput(edges));
      }
    }
  }

  /// Every other row is short.
  void setCounts(const std::string &name, int64_t capacity) {
    const Region &region = device->plan().inputs.at(name + ".count");
    auto *counts = reinterpret_cast<int64_t *>(device->host() + region.offset);
    for (int64_t row = 0; row < region.shape.front(); ++row) {
      counts[row] = row % 2 == 0 ? capacity : capacity / 2;
    }
  }

  /// Sets a chain of the first half of the rows, and edges of row 0 to each of them. A line has
  /// fewer words than rows.
  void setEdges(const EdgeInput &input, const std::string &name) {
    auto found = device->plan().inputs.find(name);
    if (found == device->plan().inputs.end()) {
      return;
    }
    Edges edges;
    for (int64_t row = 1; row < input.rows / (input.connectsWords() ? 8 : 2); ++row) {
      edges.emplace_back(row - 1, row);
      edges.emplace_back(0, row);
    }
    std::ranges::sort(edges);
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    edges.resize(std::min(edges.size(), static_cast<size_t>(input.capacity)));
    const Region &region = found->second;
    auto size = static_cast<size_t>(input.rows + 2 * input.capacity);
    auto *lists = reinterpret_cast<int32_t *>(device->host() + region.offset);
    for (int64_t row = 0; row < region.shape.front(); ++row) {
      writeEdgeLists(edges, input.rows, {lists + static_cast<size_t>(row) * size, size});
    }
  }

  void setIds(const Region &input, int64_t vocabulary) {
    auto *tokens = reinterpret_cast<int32_t *>(device->host() + input.offset);
    int64_t count =
        std::accumulate(input.shape.begin(), input.shape.end(), int64_t{1}, std::multiplies<>());
    for (int64_t i = 0; i < count; ++i) {
      tokens[i] =
          static_cast<int32_t>(mix64(static_cast<uint64_t>(i)) % static_cast<uint64_t>(vocabulary));
    }
  }

  void runEntry(const std::string &entry) {
    auto found = device->plan().entries.find(entry);
    if (found == device->plan().entries.end()) {
      return;
    }
    for (size_t i = 0; i < found->second.size(); ++i) {
      const Launch &launch = found->second[i];
      if (!isAllowed(device->plan(), launch.guard, device->host())) {
        continue;
      }
      if (!recorded.insert(launch.kernel).second) {
        device->launch(launch);
        continue;
      }
      std::span<int64_t> lengths = lengthsOfTexts(device->plan(), launch, device->host());
      current = {entry, static_cast<int64_t>(i), values, {lengths.begin(), lengths.end()}, {}, {}};
      begin(launch);
      device->launch(launch);
      end(launch);
      recording.launches.push_back(std::move(current));
    }
  }

  /// Stores the operands before the launch.
  void begin(const Launch &launch) {
    forEachOperand(launch, [&](const Operand &operand, std::span<const uint8_t> bytes) {
      if (!operand.written) {
        current.operands.emplace_back(bytes.begin(), bytes.end());
      } else {
        RecordedResult &result = current.results.emplace_back();
        if (isStep(current.entry)) {
          result.before.assign(bytes.begin(), bytes.end());
        }
      }
    });
  }

  void end(const Launch &launch) {
    size_t result = 0;
    forEachOperand(launch, [&](const Operand &operand, std::span<const uint8_t> bytes) {
      if (operand.written) {
        current.results[result++].found.assign(bytes.begin(), bytes.end());
      }
    });
    current.results.resize(result);
  }

  const std::vector<Operand> &getOperandRecords(const Launch &launch) const {
    return device->plan().kernels[static_cast<size_t>(launch.kernel)].operands;
  }

  template <typename Action> void forEachOperand(const Launch &launch, const Action &action) {
    const std::vector<Operand> &operands = getOperandRecords(launch);
    for (size_t i = 0; i < operands.size(); ++i) {
      action(operands[i], std::span<const uint8_t>(device->host() + launch.arguments[i],
                                                   static_cast<size_t>(operands[i].bytes)));
    }
  }

  /// Stores an expectation as f32; the bound grows by the rounding error.
  void observe(const Expectation &told) {
    if (told.result >= current.results.size()) {
      return;
    }
    RecordedResult &result = current.results[told.result];
    result.type = told.type;
    result.rows = told.rows;
    result.stride = told.stride;
    bool isSum = told.row < 0;
    std::vector<float> &kept = isSum ? result.sums : result.values,
                       &bounds = isSum ? result.sumBounds : result.bounds;
    auto at = static_cast<size_t>((isSum ? 0 : told.row) * told.stride + told.column);
    if (kept.size() <= at) {
      kept.resize(at + 1);
      bounds.resize(at + 1, -1);
    }
    kept[at] = static_cast<float>(told.value);
    double lost = std::isfinite(told.value) && std::isfinite(kept[at])
                      ? std::abs(told.value - static_cast<double>(kept[at]))
                      : 0;
    bounds[at] = notBelow(told.bound + lost);
  }

  std::unique_ptr<Device> device;
  Recording recording;
  RecordedLaunch current;
  std::array<int64_t, 4> values{};
  std::set<int64_t> recorded; // indices of kernels
};

} // namespace

Recording recordLaunches(const std::shared_ptr<const Artifact> &artifact, const std::string &target,
                         int64_t length, int64_t rows) {
  const ModelFacts &model = artifact->plan().model;
  if (length < 1 || length > model.context || rows < 1 || rows > model.batch) {
    throw UserError(artifact->path() + ": expected a length from 1 to " +
                    std::to_string(model.context) + " and rows from 1 to " +
                    std::to_string(model.batch) + ", found " + std::to_string(length) + " and " +
                    std::to_string(rows) + "; give others");
  }
  return Recorder(artifact, target).record(length, rows);
}

} // namespace sluice::runtime
