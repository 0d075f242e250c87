// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Execute/Executor.h"

#include "LossDenominators.h"
#include "SegmentRoom.h"
#include "SharedUpdate.h"
#include "sluice/Runtime/Data/Numbers.h"
#include "sluice/Runtime/Device/CPU/CpuDevice.h"
#include "sluice/Runtime/Plan/BatchShapes.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Format.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <sched.h>

namespace sluice::runtime {

int availableThreads() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) {
    return 1;
  }
  return std::max(1, CPU_COUNT(&set));
}

Executor::Executor(std::shared_ptr<const Artifact> artifact, int threads)
    : Executor(makeCpuDevice(std::move(artifact), threads)) {}
Executor::Executor(std::unique_ptr<Device> device)
    : InputView(std::move(device)), scoredRows(std::make_unique<ScoredRows>()),
      weightSums(std::make_unique<WeightSums>()), countedRows(std::make_unique<CountedRows>()) {
  chooseFactor({});
  resetLines();
  if (plan().inputs.contains(lengthsName)) { // all rows, until lines are written
    std::ranges::fill(inputs().lengths, plan().model.context);
  }
}
Executor::~Executor() = default;

void Executor::prepare() {
  isQuantized = false;
  if (plan().entries.contains("prepare")) {
    run("prepare");
  }
}

/// Checks for an entry that multiplies by weights that the entry `quantize` stores.
static bool readsQuantized(const std::string &entry) {
  return entry == "evaluate" || entry == "predict" || entry == "prefill" || entry == "step";
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
    throw UserError(
        artifact().path() +
        ": expected a model that draws its factor, found one factor per level; leave --factor out");
  }
  if (std::ranges::find(plan().factors, *factor) == plan().factors.end()) {
    throw UserError(artifact().path() + ": expected one of the factors that it draws (" + list +
                    "), found " + std::to_string(*factor));
  }
  chosenFactor = *factor;
}

void Executor::chooseBatch(const std::optional<BatchSize> &size) {
  shapeNumber = size ? size->shape : 0;
  chosenShape = getBatchShape(plan(), shapeNumber);
  scalarI64("rows") = size ? size->rows : chosenShape.rows;
  scalarI64("length") = size ? size->length : chosenShape.context;
}

bool Executor::hasStep() const {
  return plan().generation && (plan().factors.empty() || chosenFactor == plan().factors.front());
}

const std::pair<const std::string, std::vector<Launch>> &
Executor::find(const std::string &entry) const {
  auto found = plan().entries.find(shapeNumber > 0 ? entryOfShape(entry, shapeNumber)
                                                   : entryOfFactor(entry, chosenFactor));
  // Entry that all factors or shapes share.
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

/// Runs the launches [first, last) of an entry, and begins the exchanges of an update among them.
static void runPart(Device &device, SharedUpdate *shared, const std::string &entry,
                    const std::vector<Launch> &launches, size_t first, size_t last) {
  if (shared && shared->exchanges()) {
    shared->run(entry, launches, first, last);
  } else {
    device.runPart(entry, launches, first, last);
  }
}

/// A batch that needs more room for segments than all earlier batches runs twice: launches depend
/// on the bucket, but the number of segments is known only after the batch was scanned. Up to that
/// point no launch has run over rows beyond the bucket, and only results were written, which the
/// second run overwrites.
void Executor::run(const std::string &entry) {
  if (readsQuantized(entry) && !isQuantized && plan().entries.contains("quantize")) {
    run("quantize");
    isQuantized = true;
  } else if (entry == "initialize" || entry == "update") {
    isQuantized = false;
  }
  bool countsUpdate = entry == "gradient" && plan().accumulate > 1; // done by `runUpdate`
  if ((entry == "gradient" || entry == "evaluate") && plan().inputs.contains(paddingName) &&
      !countsUpdate) {
    scoredRows->add(*this, false);
    scoredRows->store(*this, 1);
  }
  if (entry == "gradient" && !countsUpdate) {
    weightSums->add(*this, false);
  }
  bool isDone = false;
  while (!isDone) {
    const auto &[name, launches] = find(entry);
    bool isBounded = plan().isOfBucket(name);
    if (!plan().memoryBuckets.empty()) {
      scalarI64("room") = isBounded ? room() : 0;
    }
    if (!device->sharesMemory()) {
      sendEdits();
      sendInputs(entry);
    }
    if (isBounded) {
      isDone = !needsMore(name, launches);
    } else {
      runPart(*device, shared.get(), name, launches, 0, launches.size());
      isDone = true;
    }
    forgetOutputs();
  }
  bool hasBatch = entry == "gradient" || entry == "evaluate" || entry == "predict" ||
                  entry == "prefill" || entry == "step";
  // `runUpdate` checks the room of a batch whose exchanges should not wait for its launches.
  bool isLate = entry == "gradient" && shared && shared->exchanges() && !device->sharesMemory();
  if (hasBatch && !isLate) { // the bucket fits the axis with the most rows; others may have fewer
    requireRoom(*this, entry);
  }
}

/// Runs the entry `accumulate`, for at least parts of the sums of gradients.
static void accumulate(Device &device,
                       const std::pair<const std::string, std::vector<Launch>> &entry,
                       const ResultParts &sums) {
  const Plan &plan = device.plan();
  for (size_t i = 0; i < entry.second.size(); ++i) {
    const Launch &launch = entry.second[i];
    const std::vector<Operand> &operands =
        plan.kernels[static_cast<size_t>(launch.kernel)].operands;
    bool writesSums = !launch.guard && !operands.empty() && operands.back().written &&
                      operands.back().bytes == plan.gradientsBytes &&
                      launch.arguments[operands.size() - 1] == *plan.gradientSumsOffset;
    if (writesSums) {
      device.launch(launch, sums);
    } else {
      device.runPart(entry.first, entry.second, i, i + 1);
    }
  }
}

SharedUpdate &Executor::share(ProcessGroup &group, bool shardsState) {
  if (!shared) {
    std::optional<UpdateDivision> division;
    if (shardsState && !device->sharesMemory()) {
      throw UserError("expected a device with host memory for a sharded state of the optimizer, "
                      "found " +
                      device->describe() + "; leave --shard out");
    }
    if (shardsState) {
      division = UpdateDivision::derive(plan(), artifact().path());
    }
    shared = std::make_unique<SharedUpdate>(*this, *device, group, std::move(division));
  }
  return *shared;
}

/// Returns the largest absolute value of the gradients in the arena, or the first that is not
/// finite.
static float findLargestGradient(Executor &executor) {
  float largest = 0;
  for (const Tensor &tensor : executor.plan().tensors) {
    if (tensor.frozen) {
      continue;
    }
    for (float value : executor.gradient(tensor, Access::Read)) {
      if (!std::isfinite(value)) {
        return value;
      }
      largest = std::max(largest, std::abs(value));
    }
  }
  return largest;
}

/// Computes the gradients of an update again: `prepare` gives the inputs of a batch, and
/// `computeGradient` runs it. Returns for each process the first batch with a gradient that is not
/// finite, or the batch with the largest one.
static std::vector<UpdateBatch>
findLargestGradients(Executor &executor, const SharedUpdate &shared, ProcessGroup &group,
                     const std::function<void(int64_t batch)> &prepare,
                     const std::function<void(int64_t batch)> &computeGradient) {
  float loss = executor.scalarF32("loss"), most = 0; // the loss of the update
  int64_t found = group.rank();
  for (int64_t i = 0; i < executor.plan().accumulate; ++i) {
    prepare(i); // for all batches, as their data follow one another
    if (!shared.computes(i) || !std::isfinite(most)) {
      continue;
    }
    computeGradient(i);
    if (float value = findLargestGradient(executor); !(value <= most)) { // it may be a NaN
      most = value;
      found = i;
    }
  }
  executor.setScalarF32("loss", loss);
  std::string own = std::to_string(found) + format(" %a", static_cast<double>(most));
  std::vector<UpdateBatch> largest;
  for (const std::string &text : group.agree(Intent::Continue, own).texts) {
    char *rest = nullptr;
    int64_t batch = std::strtoll(text.c_str(), &rest, 10);
    largest.push_back({std::ssize(largest), batch, std::strtof(rest, nullptr)});
  }
  return largest;
}

namespace {

/// Lets the other processes reach their next agreement if an error ends an update.
struct RoundsLeft {
  SharedUpdate *shared; ///< null without a group

  explicit RoundsLeft(SharedUpdate *shared) : shared(shared) {}
  RoundsLeft(const RoundsLeft &) = delete;
  RoundsLeft &operator=(const RoundsLeft &) = delete;
  ~RoundsLeft() {
    if (shared) {
      shared->abandon();
    }
  }
};

} // namespace

UpdateReport Executor::runUpdate(int64_t step, const std::function<void(int64_t batch)> &fill,
                                 ProcessGroup *group) {
  if (group) {
    share(*group).beginUpdate();
  }
  RoundsLeft rest(shared.get());
  isQuantized = false;
  chooseBatch({});
  scalarI64("step") = step;
  int64_t batches = plan().accumulate;
  bool hasPadding = plan().inputs.contains(paddingName), hasCounted = !plan().counted.empty();
  bool counts = batches > 1 && (hasPadding || hasCounted || !getNumberNames(plan()).empty());
  auto fillInputs = [&](int64_t i) {
    std::span<int64_t> numbers = inputs().drawRows;
    std::iota(numbers.begin(), numbers.end(), i * plan().model.batch);
    fill(i); // may number lines by their place in the epoch
  };
  auto number = [&](int64_t batch) { scalarI64("first_row") = batch * plan().model.batch; };
  auto computeGradient = [&](int64_t i) { // of a batch of several
    scoredRows->store(*this, batches);
    if (hasCounted) {
      countedRows->store(*this);
    }
    number(i);
    run("gradient");
  };
  for (int64_t i = 0; counts && i < batches; ++i) {
    fillInputs(i);
    if (hasPadding) {
      scoredRows->add(*this, i > 0);
    }
    weightSums->add(*this, i > 0);
    if (hasCounted) {
      scalarI64("first_row") = i * plan().model.batch;
      run("count");
      countedRows->add(*this, i > 0);
    }
  }
  UpdateReport report;
  std::map<int64_t, UpdateBatch> notFinite; // by rank
  for (int64_t i = 0; i < batches; ++i) {
    fillInputs(i);
    if (batches == 1) {
      run("gradient");
      break;
    }
    if (!shared) {
      computeGradient(i);
      run("accumulate");
      continue;
    }
    if (shared->computes(i)) {
      shared->beginRound();
      computeGradient(i);
    }
    if (!shared->endsRound(i)) {
      continue;
    }
    shared->sum(i, [&](int64_t batch) {
      number(batch);
      if (!device->sharesMemory()) { // a GPU runs complete kernels
        run("accumulate");
        return;
      }
      if (float loss = scalarF32("loss"); !std::isfinite(loss)) {
        int64_t rank = batch % group->size();
        notFinite.try_emplace(rank, UpdateBatch{rank, batch, loss});
      }
      accumulate(*device, find("accumulate"), shared->getOwnSums());
      forgetOutputs();
    });
    if (!device->sharesMemory()) { // of the batch of this process
      requireRoom(*this, "gradient");
    }
  }
  for (const auto &[rank, batch] : notFinite) {
    report.notFinite.push_back(batch);
  }
  if (shared && shared->isDivided()) {
    shared->update(find("update"));
    forgetOutputs();
  } else {
    if (shared) {
      shared->gather();
    }
    run("update");
  }
  report.exchangeSeconds = shared ? shared->getExchangeSeconds() : std::nullopt;
  if (group && report.notFinite.empty() && scalarI32("finite") != 1) {
    report.largest = findLargestGradients(*this, *shared, *group, fillInputs, computeGradient);
  }
  return report;
}

std::vector<Executor::SegmentRows> Executor::segmentRows() {
  std::vector<SegmentRows> all;
  for (const SegmentFacts &segments : plan().segments) {
    all.push_back({segments.axis, scalarsI64(segments.length, static_cast<size_t>(shape().rows)),
                   readTotals(*this, segments, 1).front().rows});
  }
  return all;
}

bool Executor::needsMore(const std::string &entry, const std::vector<Launch> &launches) {
  size_t first = 0, before = bucket;
  for (const Plan::Count &count : plan().countsIn(launches)) {
    runPart(*device, shared.get(), entry, launches, first, count.launch + 1);
    first = count.launch + 1;
    int64_t needed = 0;
    for (const SegmentTotals &text : readTotals(*this, *count.segments, shape().rows)) {
      needed = std::max<int64_t>(needed, text.needed + 1); // plus one row for the open segment
    }
    while (room() > 0 && needed > room()) {
      ++bucket;
    }
    if (bucket > before) {
      return true;
    }
  }
  runPart(*device, shared.get(), entry, launches, first, launches.size());
  return false;
}

} // namespace sluice::runtime
