// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Execute/Executor.h"

#include "sluice/Runtime/Data/Sources.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <sched.h>

namespace sluice::runtime {

static const std::string paddingName = "tokens.padding";
/// Prefixes of the named inputs of a prompt and of generated texts.
static const std::string promptPrefix = "prompt.", textPrefix = "text.";

int availableThreads() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) {
    return 1;
  }
  return std::max(1, CPU_COUNT(&set));
}

Executor::Executor(std::shared_ptr<const Artifact> artifact, int threads)
    : Executor(makeCpuDevice(std::move(artifact), threads)) {}
Executor::Executor(std::unique_ptr<Device> device) : device(std::move(device)) { chooseFactor({}); }
Executor::~Executor() = default;

void Executor::prepare() {
  if (plan().entries.contains("prepare")) {
    run("prepare");
  }
}

void Executor::chooseFactor(std::optional<int64_t> factor) {
  if (!factor) {
    chosenFactor = plan().factors.empty() ? 0 : plan().factors.front();
    return;
  }
  std::string list;
  for (int64_t known : plan().sortedFactors()) {
    list += (list.empty() ? "" : ", ") + std::to_string(known);
  }
  if (list.empty()) {
    throw UserError(artifact().path() + ": expected a model that draws its factor, found one "
                                        "factor a level; leave --factor out");
  }
  if (std::ranges::find(plan().factors, *factor) == plan().factors.end()) {
    throw UserError(artifact().path() + ": expected one of the factors that it draws (" + list +
                    "), found " + std::to_string(*factor));
  }
  chosenFactor = *factor;
}

bool Executor::hasStep() const {
  return plan().generation && (plan().factors.empty() || chosenFactor == plan().factors.front());
}

const std::pair<const std::string, std::vector<Launch>> &
Executor::find(const std::string &entry) const {
  auto found = plan().entries.find(entryOfFactor(entry, chosenFactor));
  // Entry that all factors share.
  found = found == plan().entries.end() ? plan().entries.find(entry) : found;
  if (room() > 0 && found != plan().entries.end()) {
    auto smaller = plan().entries.find(entryOfBucket(found->first, room()));
    found = smaller == plan().entries.end() ? found : smaller;
  }
  if (found == plan().entries.end()) {
    throw UserError(artifact().path() + ": expected the entry \"" + entry +
                    "\", found none; compile the spec again");
  }
  return *found;
}

/// A batch that needs more room for segments than all earlier batches runs twice: launches depend
/// on the bucket, but the number of segments is known only after the batch was scanned. Up to that
/// point no launch has run over rows beyond the bucket, and only results were written, which the
/// second run overwrites.
void Executor::run(const std::string &entry) {
  bool countsUpdate = entry == "gradient" && plan().accumulate > 1; // done by `runUpdate`
  if ((entry == "gradient" || entry == "evaluate") && plan().inputs.contains(paddingName) &&
      !countsUpdate) {
    countPadding(false);
  }
  if (entry == "gradient" && !countsUpdate) {
    addWeights(false);
  }
  bool isDone = false;
  while (!isDone) {
    const auto &[name, launches] = find(entry);
    bool isBounded = plan().isOfBucket(name);
    if (!plan().memoryBuckets.empty()) {
      scalarI64("room") = isBounded ? room() : 0;
    }
    if (!device->sharesMemory()) {
      sendInputs(entry);
    }
    if (isBounded) {
      isDone = !needsMore(name, launches);
    } else {
      device->run(name, launches);
      isDone = true;
    }
    fetched.clear();
  }
  bool hasBatch = entry == "gradient" || entry == "evaluate" || entry == "predict" ||
                  entry == "prefill" || entry == "step";
  if (hasBatch) { // the bucket fits the axis with the most rows; other axes may have fewer
    requireRoom(entry);
  }
}

void Executor::runUpdate(int64_t step, const std::function<void(int64_t batch)> &fill) {
  scalarI64("length") = plan().model.context;
  scalarI64("rows") = plan().model.batch;
  scalarI64("step") = step;
  int64_t batches = plan().accumulate;
  bool hasPadding = plan().inputs.contains(paddingName);
  bool counts = batches > 1 && (hasPadding || !getNumberNames(plan()).empty());
  for (int64_t i = 0; counts && i < batches; ++i) {
    fill(i);
    if (hasPadding) {
      countPadding(i > 0);
    }
    addWeights(i > 0);
  }
  for (int64_t i = 0; i < batches; ++i) {
    fill(i);
    if (batches == 1) {
      run("gradient");
      break;
    }
    scalarI64("first_row") = i * plan().model.batch;
    run("gradient");
    run("accumulate");
  }
  run("update");
}

bool Executor::hasSegments() const { return !plan().segments.empty(); }

std::vector<Executor::Totals> Executor::computeTotals(const SegmentFacts &segments, int64_t rows) {
  const Scalar &scalar = this->scalar(segments.counts, Type::i32);
  std::vector<Totals> totals(static_cast<size_t>(rows));
  auto size = static_cast<int64_t>(totals.size() * sizeof(Totals));
  device->download({scalar.offset, size});
  std::memcpy(totals.data(), device->host() + scalar.offset, static_cast<size_t>(size));
  return totals;
}

template <typename T> T Executor::fetchScalar(const std::string &name, Type type) {
  int64_t offset = scalar(name, type).offset;
  device->download({offset, sizeof(T)});
  T value;
  std::memcpy(&value, device->host() + offset, sizeof value);
  return value;
}

std::vector<Executor::SegmentRows> Executor::segmentRows() {
  std::vector<SegmentRows> all;
  for (const SegmentFacts &segments : plan().segments) {
    SegmentRows rows{segments.axis, std::vector<int64_t>(static_cast<size_t>(plan().model.batch)),
                     computeTotals(segments, 1).front().rows};
    auto size = static_cast<int64_t>(rows.computed.size() * sizeof(int64_t));
    int64_t offset = scalar(segments.length, Type::i64).offset;
    device->download({offset, size});
    std::memcpy(rows.computed.data(), device->host() + offset, static_cast<size_t>(size));
    all.push_back(std::move(rows));
  }
  return all;
}

bool Executor::needsMore(const std::string &entry, const std::vector<Launch> &launches) {
  size_t first = 0, before = bucket;
  for (const Plan::Count &count : plan().countsIn(launches)) {
    device->runPart(entry, launches, first, count.launch + 1);
    first = count.launch + 1;
    int64_t needed = 0;
    for (const Totals &text : computeTotals(*count.segments, plan().model.batch)) {
      needed = std::max<int64_t>(needed, text.needed + 1); // plus one row for the open segment
    }
    while (room() > 0 && needed > room()) {
      ++bucket;
    }
    if (bucket > before) {
      return true;
    }
  }
  device->runPart(entry, launches, first, launches.size());
  return false;
}

/// Throws RoomError if a text has more segments than its axis has rows: boundaries are never
/// dropped.
void Executor::requireRoom(const std::string &entry) {
  for (const SegmentFacts &segments : plan().segments) {
    int64_t rows = entry == "step"      ? plan().generation->rows
                   : entry == "prefill" ? 1
                                        : plan().model.batch;
    std::vector<Totals> totals = computeTotals(segments, rows);
    for (size_t row = 0; row < totals.size(); ++row) {
      if (totals[row].needed > totals[row].rows) {
        std::string step =
            entry == "gradient" ? "step " + std::to_string(scalarI64("step")) + ": " : "";
        auto number = static_cast<int64_t>(row);
        if (entry == "prefill") { // the row that reads the prompt
          number = std::ranges::max_element(take()) - take().begin();
        }
        throw RoomError(number, step + "row " + std::to_string(number) + " of the batch",
                        std::to_string(totals[row].needed) + " rows for the segments of \"" +
                            segments.axis + "\", expected at most " +
                            std::to_string(totals[row].rows) +
                            "; give them a greater capacity in the spec, and compile it again");
      }
    }
  }
}

/// Computes the scalars padding and padding.F: the number of padded rows among the valid ones, for
/// all rows or for rows from F on. With `isMore`, adds to the previous values.
void Executor::countPadding(bool isMore) {
  constexpr std::string_view prefix = "padding";
  std::span<const float> marks = inputs().padding;
  int64_t rows = scalarI64("rows"), length = scalarI64("length"), context = plan().model.context;
  for (const auto &[name, place] : plan().scalars) {
    if (!name.starts_with(prefix)) {
      continue;
    }
    int64_t count = 0, first = name == prefix ? 0 : std::stoll(name.substr(prefix.size() + 1));
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t p = first; p < length; ++p) {
        count += marks[static_cast<size_t>(row * context + p)] != 0;
      }
    }
    scalarI64(name) = count + (isMore ? scalarI64(name) : 0);
  }
}

/// Computes the scalars weights.NAME.F: the sum of a weight's numbers over rows from F on, or 1 if
/// the sum is 0, since no row counts then. With `isMore`, adds to the previous values.
void Executor::addWeights(bool isMore) {
  constexpr std::string_view prefix = "weights.";
  int64_t rows = scalarI64("rows"), length = scalarI64("length");
  for (const auto &[name, place] : plan().scalars) {
    if (!name.starts_with(prefix) || place.type != Type::f32) {
      continue;
    }
    size_t dot = name.rfind('.');
    int64_t first = std::stoll(name.substr(dot + 1));
    const BatchInputs all = inputs();
    const auto &numbers = all.numbers.at(name.substr(prefix.size(), dot - prefix.size()));
    double &sum = weightSums[name];
    sum = isMore ? sum : 0;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t p = first; p < length; ++p) {
        sum += numbers.rows[static_cast<size_t>(row * numbers.context + p)];
      }
    }
    float told = sum > 0 ? static_cast<float>(sum) : 1.0F;
    std::memcpy(device->host() + place.offset, &told, sizeof told);
    if (!device->sharesMemory()) {
      device->upload({place.offset, sizeof told});
    }
  }
}

/// Uploads the data that the host wrote since the last run.
void Executor::sendInputs(const std::string &entry) {
  for (const MemoryRange &range : edited) {
    device->upload(range);
  }
  edited.clear();
  for (auto &[name, value] : sent) {
    const Scalar &scalar = plan().scalars.at(name);
    int64_t now = 0;
    std::memcpy(&now, device->host() + scalar.offset, sizeof now);
    if (now != value) {
      device->upload({scalar.offset, sizeof now});
      value = now;
    }
  }
  auto send = [&](const std::string &name, size_t bytes) {
    device->upload({plan().inputs.at(name).offset, static_cast<int64_t>(bytes)});
  };
  bool isScored = entry == "gradient" || entry == "evaluate";
  if (isScored && plan().inputs.contains(paddingName)) {
    send(paddingName, inputs().padding.size_bytes());
  }
  for (const std::string &name : isScored ? getLabelNames(plan()) : std::vector<std::string>()) {
    send(labelsInput(name), inputs().labels.at(name).rows.size_bytes());
  }
  for (const std::string &name : isScored ? getNumberNames(plan()) : std::vector<std::string>()) {
    send(numbersInput(name), inputs().numbers.at(name).rows.size_bytes());
  }
  if (entry == "prefill" || entry == "step" || entry == "reset") {
    send("take", take().size_bytes());
  }
  auto sendGiven = [&](const std::string &prefix, int64_t rows) {
    for (const auto &[name, given] : givenIn(prefix, rows)) {
      send(prefix + name, given.tokens.size_bytes());
      send(prefix + name + ".count", given.counts.size_bytes());
    }
  };
  if (entry == "prefill") {
    send("prompt", prompt().size_bytes());
    sendGiven(promptPrefix, 1);
  } else if (entry == "step") {
    send("text", text().size_bytes());
    for (const auto &[name, given] : plan().given) {
      send(textPrefix + name + ".count", textCounts(name).size_bytes());
    }
  } else if (isScored || entry == "predict") {
    send("tokens", tokens().size_bytes());
    sendGiven("", plan().model.batch);
  }
}

const Scalar &Executor::scalar(const std::string &name, Type type) const {
  auto found = plan().scalars.find(name);
  if (found == plan().scalars.end() || found->second.type != type) {
    throw UserError(artifact().path() + ": expected the scalar \"" + name + "\" of type " +
                    std::string(getTypeName(type)) + ", found " +
                    (found == plan().scalars.end()
                         ? "none"
                         : "type " + std::string(getTypeName(found->second.type))) +
                    "; compile the spec again");
  }
  return found->second;
}

int64_t &Executor::scalarI64(const std::string &name) {
  uint8_t *at = device->host() + scalar(name, Type::i64).offset;
  sent.try_emplace(name, 0); // the arena is initialized with zeros
  return *reinterpret_cast<int64_t *>(at);
}

int32_t Executor::scalarI32(const std::string &name) {
  return fetchScalar<int32_t>(name, Type::i32);
}
float Executor::scalarF32(const std::string &name) { return fetchScalar<float>(name, Type::f32); }

const Region &Executor::input(const std::string &name, Type type,
                              std::initializer_list<int64_t> shape) const {
  auto found = plan().inputs.find(name);
  if (found != plan().inputs.end() && found->second.type == type &&
      std::ranges::equal(found->second.shape, shape) &&
      found->second.rowStride == *std::prev(shape.end())) {
    return found->second;
  }
  std::string sizes;
  for (int64_t size : shape) {
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  }
  throw UserError(artifact().path() + ": expected the input \"" + name + "\", " +
                  std::string(getTypeName(type)) + " [" + sizes +
                  "], found none like it; compile the spec again");
}

std::span<int32_t> Executor::tokensIn(const std::string &name, int64_t rows) {
  int64_t row = plan().model.context + 1;
  return {reinterpret_cast<int32_t *>(device->host() + input(name, Type::i32, {rows, row}).offset),
          static_cast<size_t>(rows * row)};
}
std::span<int32_t> Executor::tokens() { return tokensIn("tokens", plan().model.batch); }
std::span<int32_t> Executor::prompt() { return tokensIn("prompt", 1); }
std::span<int32_t> Executor::text() { return tokensIn("text", plan().generationRows()); }

std::span<int64_t> Executor::countsIn(const std::string &name, int64_t rows) {
  return {reinterpret_cast<int64_t *>(device->host() + input(name, Type::i64, {rows}).offset),
          static_cast<size_t>(rows)};
}
std::span<int64_t> Executor::take() { return countsIn("take", plan().generationRows()); }

BatchInputs Executor::inputs() {
  BatchInputs all{tokens(), {}, {}};
  int64_t batch = plan().model.batch, context = plan().model.context;
  if (plan().inputs.contains(paddingName)) {
    const Region &region = input(paddingName, Type::f32, {batch, context});
    all.padding = {reinterpret_cast<float *>(device->host() + region.offset),
                   static_cast<size_t>(batch * context)};
  }
  all.given = givenIn("", batch);
  for (const std::string &name : getLabelNames(plan())) {
    const Region &region = input(labelsInput(name), Type::f32, {batch, context});
    all.labels[name] = {context,
                        {reinterpret_cast<float *>(device->host() + region.offset),
                         static_cast<size_t>(batch * context)}};
  }
  for (const std::string &name : getNumberNames(plan())) {
    const Region &region = plan().inputs.at(numbersInput(name));
    bool isRow = region.shape == std::vector{batch * context, plan().model.vocabulary};
    int64_t stride = isRow ? region.rowStride : 1;
    all.numbers[name] = {context,
                         stride,
                         {reinterpret_cast<float *>(device->host() + region.offset),
                          static_cast<size_t>(batch * context * stride)}};
  }
  return all;
}

BatchInputs Executor::promptInputs() { return {prompt(), givenIn(promptPrefix, 1), {}}; }

std::span<int64_t> Executor::textCounts(const std::string &name) {
  return countsIn(textPrefix + name + ".count", plan().generationRows());
}

std::map<std::string, BatchInputs::Given> Executor::givenIn(const std::string &prefix,
                                                            int64_t rows) {
  std::map<std::string, BatchInputs::Given> all;
  for (const auto &[name, given] : plan().given) {
    const Region &region = input(prefix + name, Type::i32, {rows, given.capacity});
    all[name] = {given.capacity,
                 {reinterpret_cast<int32_t *>(device->host() + region.offset),
                  static_cast<size_t>(rows * given.capacity)},
                 countsIn(prefix + name + ".count", rows)};
  }
  return all;
}

std::span<const float> Executor::outputRow(const std::string &name, int64_t row) {
  auto found = plan().outputs.find(name);
  if (found == plan().outputs.end() || found->second.type != Type::f32 ||
      found->second.shape.size() != 2 || row < 0 || row >= found->second.shape[0]) {
    throw UserError(artifact().path() + ": expected the output \"" + name + "\", f32 with a row " +
                    std::to_string(row) + ", found none like it; compile the spec again");
  }
  const Region &region = found->second;
  int64_t width = region.shape[1], stride = region.rowStride * static_cast<int64_t>(sizeof(float));
  if (!device->sharesMemory() && fetched.insert(name).second) {
    int64_t last = (region.shape[0] - 1) * stride;
    device->download({region.offset, last + width * static_cast<int64_t>(sizeof(float))});
  }
  const auto *start =
      reinterpret_cast<const float *>(device->host() + region.offset + row * stride);
  return {start, static_cast<size_t>(width)};
}

std::span<uint8_t> Executor::bytes(MemoryRange range, Access access) {
  if (!device->sharesMemory()) {
    auto sameStart = [&](const MemoryRange &other) { return other.offset == range.offset; };
    // Otherwise the download would overwrite the edit.
    if (std::none_of(edited.begin(), edited.end(), sameStart)) {
      device->download(range);
      if (access == Access::Edit) {
        edited.push_back(range);
      }
    }
  }
  return {device->host() + range.offset, static_cast<size_t>(range.bytes)};
}
std::span<float> Executor::floats(int64_t offset, int64_t count, Access access) {
  std::span<uint8_t> all = bytes({offset, count * static_cast<int64_t>(sizeof(float))}, access);
  return {reinterpret_cast<float *>(all.data()), static_cast<size_t>(count)};
}
std::span<uint8_t> Executor::stateRow(const State &state, int64_t row, Access access) {
  int64_t size = state.rowBytes();
  return bytes({state.region.offset + row * size, size}, access);
}
std::span<float> Executor::tensor(const Tensor &tensor, Access access) {
  return floats(tensor.offset, tensor.elements(), access);
}
std::span<float> Executor::gradient(const Tensor &tensor, Access access) {
  return floats(tensor.gradient, tensor.elements(), access);
}
std::span<float> Executor::state(const Tensor &tensor, const std::string &name, Access access) {
  return floats(tensor.states.at(name), tensor.elements(), access);
}

} // namespace sluice::runtime
