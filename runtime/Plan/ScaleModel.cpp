// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Plan/ScaleModel.h"

#include "sluice/Runtime/Plan/Ledger.h"
#include "sluice/Support/Error.h"
#include "sluice/Support/Format.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

namespace sluice::runtime {
namespace {

/// Returns the bytes of the arena that are proportional to the rows of a batch.
int64_t countTemporaryBytes(const Plan &plan) {
  constexpr std::array kinds = {"kept", "recomputed", "gradients", "transient", "gaps"};
  int64_t bytes = 0;
  for (const MemoryPart &part : plan.memory.contents) {
    bytes += std::ranges::find(kinds, part.kind) == kinds.end() ? 0 : part.bytes;
  }
  return bytes;
}

/// The line seconds = fixed + perRow rows through measured steps.
struct FittedSteps {
  double fixed = 0, perRow = 0;
};

/// Returns the line with the least squares.
FittedSteps fitSteps(const std::vector<MeasuredStep> &steps) {
  double count = 0, rows = 0, seconds = 0, squares = 0, products = 0;
  for (const MeasuredStep &step : steps) {
    auto own = static_cast<double>(step.rows);
    count += 1;
    rows += own;
    seconds += step.seconds;
    squares += own * own;
    products += own * step.seconds;
  }
  double perRow = (count * products - rows * seconds) / (count * squares - rows * rows);
  return {(seconds - perRow * rows) / count, perRow};
}

/// Returns the stream of the stage that a weight belongs to; null if there is none.
const StreamFacts *findStream(const SpecFacts &facts, const std::string &tensor) {
  const StreamFacts *found = nullptr;
  for (const StreamFacts &stream : facts.streams) {
    bool isLonger = !found || stream.stage.size() > found->stage.size();
    found = isLonger && tensor.starts_with(stream.stage + ".") ? &stream : found;
  }
  return found;
}

/// Returns the rows of a stream in one text, at most.
int64_t countRowsOfText(const Plan &plan, const StreamFacts &stream) {
  if (stream.rows == StreamFacts::RowAxis::segments) {
    auto segments = std::ranges::find(plan.segments, stream.of, &SegmentFacts::axis);
    return segments == plan.segments.end() ? plan.model.context : segments->capacity;
  }
  auto input = plan.given.find(stream.of);
  int64_t tokens = input == plan.given.end() ? plan.model.context : input->second.capacity;
  return (tokens + stream.factor - 1) / stream.factor;
}

} // namespace

ScaleModel::ScaleModel(const Plan &plan, const ScaleMachine &machine, const ScaleOptions &options)
    : plan(plan), machine(machine), isWeak(options.isWeak), overlaps(options.overlaps),
      stepRows(options.rows > 0 ? options.rows : plan.model.batch * plan.accumulate) {
  countCosts();
  divideGradients(options.buckets);
  if (!options.steps.empty()) {
    calibrate(options.steps);
  }
}

/// Returns the processor that launches run on. Without its speed only ratios of times have a
/// meaning.
static Chip makeChip(const ScaleMachine &machine) {
  double flops = machine.flops > 0 ? machine.flops : 1;
  double bytes = machine.memory > 0 ? machine.memory : std::numeric_limits<double>::infinity();
  return {"", flops, flops, bytes, 0};
}

void ScaleModel::countCosts() {
  Chip chip = makeChip(machine);
  auto batch = static_cast<double>(plan.model.batch);
  for (const StepLaunch &each : listLaunchesOfStep(plan)) {
    double seconds = rooflineSeconds(*each.kernel, chip);
    if (!each.isOfBatch) {
      cost.update += seconds;
    } else if (each.phase != StepPhase::update) { // the sums of several batches are below
      (each.phase == StepPhase::forward ? cost.forward : cost.backward) += seconds / batch;
    }
  }
  // A gradient and its sum are read, and the sum is written.
  cost.sum = 3 * static_cast<double>(plan.gradientsBytes) / chip.bytes;
  if (!(cost.forward > 0) || !(cost.backward > 0)) {
    throw UserError(plan.model.name +
                    ": expected an artifact with the operations of a training step (entry "
                    "gradient), found none; compile a spec that trains");
  }
}

void ScaleModel::calibrate(const std::vector<MeasuredStep> &steps) {
  double perRow = cost.forward + cost.backward, products = 0, squares = 0;
  bool hasSeveral = false; // with different rows
  for (const MeasuredStep &step : steps) {
    double counted = perRow * static_cast<double>(step.rows) + cost.update +
                     sumBatches(countBatches(step.rows), 1);
    products += counted * step.seconds;
    squares += counted * counted;
    hasSeveral |= step.rows != steps.front().rows;
  }
  double factor = products / squares; // of all parts, by least squares
  cost.update *= factor;
  cost.sum *= factor;
  cost.efficiency = machine.flops > 0 ? 1 / factor : 0;
  FittedSteps line = hasSeveral ? fitSteps(steps) : FittedSteps{0, perRow * factor};
  if (!(line.perRow > 0)) {
    throw UserError("expected steps of more rows to take longer, found --step with times that do "
                    "not rise; measure again, on a machine without other work");
  }
  if (line.fixed > cost.update) { // otherwise the line has no room for the update
    cost.other = line.fixed - cost.update;
    factor = line.perRow / perRow;
  }
  cost.forward *= factor;
  cost.backward *= factor;
}

void ScaleModel::divideGradients(int64_t count) {
  std::vector<int64_t> starts = plan.buckets;
  if (count > 0) {
    starts.clear();
    for (int64_t i = 0; i < count; ++i) { // gradients are f32 for every precision
      starts.push_back(plan.gradientsBytes / 4 * i / count * 4);
    }
  }
  if (starts.empty()) {
    starts.push_back(0);
  }
  starts.push_back(plan.gradientsBytes);
  Chip chip = makeChip(machine);
  double backward = cost.backward * static_cast<double>(plan.model.batch);
  for (size_t i = 0; i + 1 < starts.size(); ++i) {
    int64_t begin = plan.gradientsOffset + starts[i], end = plan.gradientsOffset + starts[i + 1];
    double elapsed = 0, ready = 1;
    for (const StepLaunch &each : listLaunchesOfStep(plan)) {
      if (!each.isOfBatch || each.phase != StepPhase::backward) {
        continue;
      }
      elapsed += rooflineSeconds(*each.kernel, chip);
      const std::vector<Operand> &operands = each.kernel->operands;
      for (size_t j = 0; j < operands.size(); ++j) {
        int64_t offset = each.launch->arguments[j];
        if (operands[j].written && offset < end && offset + operands[j].bytes > begin) {
          ready = elapsed / backward;
        }
      }
    }
    parts.push_back({end - begin, std::min(1.0, ready)});
  }
  std::ranges::sort(parts, {}, &ScaleBucket::ready);
}

double ScaleModel::exchange(double bytes, int64_t processes) const {
  auto others = static_cast<double>(processes - 1);
  return others * (machine.latency + bytes / static_cast<double>(processes) / machine.bandwidth);
}

int64_t ScaleModel::countBatches(int64_t rows) const {
  return (rows + plan.model.batch - 1) / plan.model.batch;
}

double ScaleModel::sumBatches(int64_t rounds, int64_t processes) const {
  return rounds * processes == 1 ? 0 : static_cast<double>(rounds) * cost.sum;
}

double ScaleModel::expose(const std::vector<double> &seconds, double backward) const {
  if (!overlaps) {
    return std::accumulate(seconds.begin(), seconds.end(), 0.0);
  }
  double end = 0; // of the last collective: they share the network, one after the other
  for (size_t i = 0; i < seconds.size(); ++i) {
    end = std::max(end, parts[i].ready * backward) + seconds[i];
  }
  return std::max(0.0, end - backward);
}

ScalePoint ScaleModel::predict(int64_t processes) const {
  if (!isWeak && stepRows % processes != 0) {
    throw UserError(format("expected --processes that divide the %lld rows of a step, found %lld; "
                           "give a divisor, other --rows, or --scaling weak",
                           static_cast<long long>(stepRows), static_cast<long long>(processes)));
  }
  ScalePoint point;
  point.processes = processes;
  point.rows = isWeak ? stepRows : stepRows / processes;
  auto all = static_cast<double>(processes), rows = static_cast<double>(point.rows);
  point.backward = rows * cost.backward;
  // Each process computes one batch of a round; a divided step has smaller batches.
  int64_t batches = countBatches(stepRows);
  int64_t rounds = isWeak ? batches : batches / std::gcd(batches, processes);
  point.compute = rows * cost.forward + point.backward + cost.other + sumBatches(rounds, processes);
  point.update = cost.update;
  std::vector<double> halves; // exchanges of the buckets
  for (const ScaleBucket &bucket : parts) {
    halves.push_back(exchange(static_cast<double>(bucket.bytes), processes));
  }
  auto repeats = static_cast<double>(rounds);
  double half = std::accumulate(halves.begin(), halves.end(), 0.0);
  double gathering = exchange(static_cast<double>(plan.gradientsBytes), processes);
  double backward = point.backward / repeats;
  double rest = expose(halves, backward);
  double meeting = exchange(0, processes);
  point.allReduce = repeats * half + gathering;
  point.sentBytes = (repeats + 1) * (all - 1) / all * static_cast<double>(plan.gradientsBytes);
  point.exposed = repeats * rest + gathering;
  point.agreement = (repeats + 1) * meeting;
  point.step = point.compute + point.update + point.exposed + point.agreement;
  // Weights are gathered in place of the sums, and before them the squares of all gradients for
  // their norm: a 1024th of the bytes, so that the latency counts.
  point.shardedStep =
      point.compute + point.update / all + point.exposed + point.agreement + meeting;
  point.tokensPerSecond = all * rows * static_cast<double>(plan.model.context) / point.step;
  double alone = static_cast<double>(stepRows) * (cost.forward + cost.backward) + cost.other +
                 cost.update + sumBatches(batches, 1);
  point.efficiency = isWeak ? alone / point.step : alone / (all * point.step);
  auto batch = static_cast<double>(plan.model.batch);
  auto used = plan.memory.byUse.find("training");
  point.memoryBytes =
      static_cast<double>(used == plan.memory.byUse.end() ? plan.memory.arenaBytes : used->second) -
      static_cast<double>(countTemporaryBytes(plan)) * (1 - std::min(rows, batch) / batch);
  if (processes > 1) { // received parts of the gradients, and sums of them
    point.memoryBytes += static_cast<double>((plan.accumulate > 1 ? 1 : 2) * plan.gradientsBytes);
  }
  // A process touches the state of its own weights alone, and the sums of their gradients.
  point.savedBytes = static_cast<double>(stateBytes() + plan.gradientsBytes) * (1 - 1 / all);
  return point;
}

int64_t ScaleModel::stateBytes() const {
  int64_t bytes = 0;
  for (const Tensor &tensor : plan.tensors) {
    bytes +=
        static_cast<int64_t>(tensor.states.size()) * tensor.elements() * getByteSize(Type::f32);
  }
  return bytes;
}

std::vector<ScaleBlocks> ScaleModel::listBlocks() const {
  std::vector<ScaleBlocks> all;
  if (!plan.facts) {
    return all;
  }
  const SpecFacts &facts = *plan.facts;
  int64_t residual = getByteSize(facts.residual == "bf16" ? Type::bf16 : Type::f32),
          factors = getByteSize(facts.compute == "bf16" ? Type::bf16 : Type::f32);
  auto findTensor = [&](const std::string &name) {
    auto found = std::ranges::find(plan.tensors, name, &Tensor::name);
    return found == plan.tensors.end() ? nullptr : &*found;
  };
  for (const Tensor &tensor : plan.tensors) {
    constexpr std::string_view attention = ".attention.output.weight",
                               feedForward = ".feed_forward.out.weight";
    bool isAttention = tensor.name.ends_with(attention);
    const StreamFacts *stream = findStream(facts, tensor.name);
    if ((!isAttention && !tensor.name.ends_with(feedForward)) || !stream) {
      continue;
    }
    ScaleBlocks block{stream->of.empty() ? "tokens" : stream->of, stream->factor,
                      countRowsOfText(plan, *stream), tensor.shape.front()};
    block.tensorBytes = block.rows * block.width * residual;
    if (isAttention) {
      std::string stage = tensor.name.substr(0, tensor.name.size() - attention.size());
      const Tensor *keys = findTensor(stage + ".attention.key.weight"),
                   *values = findTensor(stage + ".attention.value.weight");
      block.sequenceBytes = block.rows * factors *
                            ((keys ? keys->shape.front() : block.width) +
                             (values ? values->shape.front() : block.width));
    }
    auto same = std::ranges::find_if(all, [&](const ScaleBlocks &each) {
      bool differs = isAttention && each.attention > 0 && each.sequenceBytes != block.sequenceBytes;
      return each.axis == block.axis && each.factor == block.factor && each.width == block.width &&
             !differs;
    });
    ScaleBlocks &group = same == all.end() ? all.emplace_back(block) : *same;
    group.sequenceBytes = std::max(group.sequenceBytes, block.sequenceBytes);
    ++(isAttention ? group.attention : group.feedForward);
  }
  return all;
}

ScaleTraffic ScaleModel::predictTensorParallel(int64_t processes) const {
  ScaleTraffic traffic;
  auto all = static_cast<double>(processes);
  for (const ScaleBlocks &each : listBlocks()) {
    // Two all-reduces of each block, forward of its result and backward of its input's gradient.
    auto reductions = static_cast<double>(2 * (each.attention + each.feedForward));
    auto bytes = static_cast<double>(stepRows * each.tensorBytes);
    traffic.seconds += reductions * 2 * exchange(bytes, processes);
    traffic.sentBytes += reductions * 2 * (all - 1) / all * bytes;
  }
  return traffic;
}

ScaleTraffic ScaleModel::predictSequenceParallel(int64_t processes) const {
  ScaleTraffic traffic;
  auto all = static_cast<double>(processes);
  for (const ScaleBlocks &each : listBlocks()) {
    auto attentions = static_cast<double>(each.attention);
    auto bytes = static_cast<double>(stepRows * each.sequenceBytes);
    // Keys and values are gathered, and their gradients are summed where the rows are.
    traffic.seconds += attentions * 2 * exchange(bytes, processes);
    traffic.sentBytes += attentions * 2 * (all - 1) / all * bytes;
  }
  return traffic;
}

} // namespace sluice::runtime
