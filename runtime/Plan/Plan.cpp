// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Plan/Plan.h"

#include "Collectives.h"
#include "PlanFacts.h"
#include "ProductJson.h"
#include "sluice/Runtime/Plan/BatchShapes.h"
#include "sluice/Runtime/Plan/SpecFacts.h"
#include "sluice/Support/Limits.h"
#include "sluice/Support/StrictJson.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace sluice::runtime {

int64_t getByteSize(Type type) { return type == Type::i64 ? 8 : type == Type::bf16 ? 2 : 4; }

std::string_view getTypeName(Type type) {
  switch (type) {
  case Type::f32:
    return "f32";
  case Type::bf16:
    return "bf16";
  case Type::i32:
    return "i32";
  case Type::i64:
    return "i64";
  }
  return "?";
}

int64_t Tensor::elements() const {
  int64_t count = 1;
  for (int64_t size : shape) {
    count *= size;
  }
  return count;
}

int64_t StateCounts::after(int64_t step) const {
  int64_t steps = step - first, period = std::ssize(rows);
  return steps < 0 ? 0 : rows[static_cast<size_t>(steps % period)] + rise * (steps / period);
}

int64_t State::rowBytes() const {
  int64_t elements = region.shape.size() < 2 ? 1 : region.rowStride;
  for (size_t i = 1; i + 1 < region.shape.size(); ++i) {
    elements *= region.shape[i];
  }
  return elements * getByteSize(region.type);
}

double Generation::stateReadsAt(int64_t first, int64_t last, int64_t context) const {
  double sum = 0;
  auto parts = static_cast<int64_t>(stateReads.size());
  for (int64_t position = first; parts > 0 && position < last; ++position) {
    auto part = static_cast<size_t>(std::min(position * parts / context, parts - 1));
    sum += static_cast<double>(stateReads[part]);
  }
  return last > first ? sum / static_cast<double>(last - first) : 0;
}

namespace {

/// Reads and validates one plan.
class PlanReader : private PlanFactsReader {
public:
  explicit PlanReader(StrictJson root) : root(std::move(root)) {}

  Plan read() {
    root.keys({"format", "version", "model", "proof", "targets", "training", "memory", "constants",
               "scalars", "inputs", "outputs", "tensors", "gradients", "kernels", "entries",
               "buffers"},
              {"generation", "given", "losses", "counted", "segments", "factors", "shapes",
               "buckets", "facts"});
    root.at("format").matchChoice({"sluice-plan"});
    root.at("version").integer(4, 4);
    readModel(root.at("model"));
    readProof(root.at("proof"));
    plan.targets = root.at("targets").strings();
    readTraining(root.at("training"));
    if (root.has("facts")) {
      plan.facts = readSpecFacts(root.at("facts"));
    }
    readMemory(root.at("memory"));
    readConstants(root.at("constants"));
    readScalars(root.at("scalars"));
    readRegions(root.at("inputs"), plan.inputs);
    readRegions(root.at("outputs"), plan.outputs);
    if (root.has("losses")) {
      readLosses(root.at("losses"));
    }
    if (root.has("counted")) {
      readCounted(root.at("counted"));
    }
    if (root.has("segments")) { // before the launches over rows of segments
      readSegments(root.at("segments"));
    }
    if (root.has("given")) {
      readGiven(root.at("given"));
    }
    for (const StrictJson &tensor : root.at("tensors").array()) {
      readTensor(tensor);
    }
    readGradients(root.at("gradients"));
    for (const StrictJson &kernel : root.at("kernels").array()) {
      readKernel(kernel);
    }
    readEntries(root.at("entries"));
    if (root.has("factors")) {
      readFactors(root.at("factors"));
    }
    if (root.has("shapes") != (plan.batchTokens > 0)) {
      root.fail("\"shapes\" with \"batch_tokens\", and only then",
                root.has("shapes") ? "shapes alone" : "none");
    }
    if (root.has("shapes")) {
      readShapes(root.at("shapes"), plan);
      for (size_t i = 1; i < plan.shapes.size(); ++i) {
        readLaunches(root.at("shapes").array()[i].at("entries"), entryOfShape("", i));
      }
    }
    if (root.has("buckets")) {
      readBuckets(root.at("buckets"));
    }
    checkCollectives(root, plan);
    if (root.has("generation")) {
      plan.generation = readGeneration(root.at("generation"));
    }
    for (const StrictJson &buffer : root.at("buffers").array()) {
      readBuffer(buffer);
    }
    checkShapes(root.at("scalars"), plan);
    return std::move(plan);
  }

private:
  void readTraining(const StrictJson &json) {
    json.keys({"steps"}, {"order", "accumulate", "batch_tokens", "targets", "groups"});
    if (json.has("targets")) {
      plan.trainsOnTokens = json.at("targets").matchChoice({"tokens", "distributions"}) == "tokens";
    }
    if (json.has("order")) {
      json.at("order").matchChoice({"cyclic"});
      plan.cyclic = true;
    }
    plan.trainingSteps = json.at("steps").integer(0);
    if (json.has("accumulate")) {
      plan.accumulate = json.at("accumulate").integer(1, mostAccumulated);
    }
    if (json.has("batch_tokens")) {
      plan.batchTokens = json.at("batch_tokens").integer(1, mostArenaBytes);
    }
    if (json.has("groups")) {
      plan.groups = readGroups(json.at("groups"));
    }
  }

  void readKernel(const StrictJson &json) {
    json.keys({"name", "kind", "variants", "flops", "bytes"}, {"operands", "product"});
    PlanKernel kernel;
    kernel.name = json.at("name").string();
    kernel.kind = json.at("kind").matchChoice({"matmul", "attention", "row", "stream"});
    for (const auto &[target, variant] : json.at("variants").members()) {
      if (isGpuTarget(target)) {
        kernel.deviceVariants[target] = readDeviceVariant(variant);
        continue;
      }
      kernel.variants[target] = readVariant(variant);
    }
    if (json.has("operands")) {
      for (const StrictJson &operand : json.at("operands").array()) {
        operand.keys({"bytes", "written"});
        kernel.operands.push_back(
            {operand.at("bytes").integer(0, mostArenaBytes), operand.at("written").boolean()});
      }
    }
    if (json.has("product")) {
      kernel.product = readProduct(json.at("product"), kernel.operands);
    }
    for (const auto &[target, variant] : kernel.deviceVariants) {
      if (variant.library && !kernel.product) {
        json.fail("\"product\" with the \"library\" of " + target, "none");
      }
    }
    kernel.flops = json.at("flops").integer(0, mostWork);
    kernel.bytes = json.at("bytes").integer(0, mostWork);
    plan.kernels.push_back(std::move(kernel));
  }

  DeviceStage readStage(const StrictJson &json) const {
    json.keys({"symbol", "blocks", "threads", "shared_bytes"},
              {"registers", "spills", "stack_bytes", "static_shared_bytes"});
    DeviceStage stage;
    stage.symbol = json.at("symbol").string();
    stage.blocks = json.at("blocks").integer(1, mostBlocks);
    stage.threads = json.at("threads").integer(1, mostThreads);
    stage.sharedBytes = json.at("shared_bytes").integer(0, mostSharedBytes);
    auto optional = [&](const char *key, int64_t otherwise) {
      return json.has(key) ? json.at(key).integer(0, 1 << 30) : otherwise;
    };
    stage.registers = optional("registers", -1);
    stage.spills = optional("spills", -1);
    stage.stackBytes = optional("stack_bytes", -1);
    stage.staticSharedBytes = optional("static_shared_bytes", 0);
    return stage;
  }

  void readCounted(const StrictJson &json) {
    for (const StrictJson &loss : json.array()) {
      loss.keys({"loss", "rows", "sum", "divisor"});
      plan.counted.push_back({loss.at("loss").string(),
                              nameIn(plan.outputs, loss.at("rows"), "an output", Type::f32),
                              nameIn(plan.scalars, loss.at("sum"), "a scalar", Type::f32),
                              nameIn(plan.scalars, loss.at("divisor"), "a scalar", Type::f32)});
    }
  }

  Variant readVariant(const StrictJson &json) const {
    json.keys({"symbol", "items", "scratch_bytes"}, {"workspace_bytes", "counters", "phases"});
    Variant variant{json.at("symbol").string(), json.at("items").integer(0, mostItems),
                    json.at("scratch_bytes").integer(0, mostScratchBytes)};
    if (json.has("workspace_bytes")) {
      variant.workspaceBytes = json.at("workspace_bytes").integer(0, plan.memory.arenaBytes);
    }
    if (json.has("counters")) {
      variant.counters = json.at("counters").integer(0, plan.memory.arenaBytes / 4);
    }
    if (json.has("phases")) {
      const StrictJson &phases = json.at("phases");
      variant.phases = phases.integer(1, std::max<int64_t>(1, variant.items));
      if (variant.items % variant.phases != 0) {
        phases.fail("a divisor of the " + std::to_string(variant.items) + " items",
                    std::to_string(variant.phases));
      }
    }
    return variant;
  }

  DeviceVariant readDeviceVariant(const StrictJson &json) const {
    json.keys({"module", "stages", "workspace_bytes"}, {"counters", "planned_bytes", "library"});
    DeviceVariant variant;
    variant.module = json.at("module").string();
    for (const StrictJson &stage : json.at("stages").array()) {
      variant.stages.push_back(readStage(stage));
    }
    variant.workspaceBytes = json.at("workspace_bytes").integer(0, plan.memory.arenaBytes);
    if (json.has("planned_bytes")) {
      variant.plannedBytes = json.at("planned_bytes").integer(0);
    }
    if (json.has("counters")) {
      variant.counters = json.at("counters").integer(0, plan.memory.arenaBytes / 4);
    }
    if (json.has("library")) {
      variant.library = readLibrary(json.at("library"));
    }
    return variant;
  }

  void readEntries(const StrictJson &json) {
    json.keys({}, {"initialize", "prepare", "quantize", "gradient", "count", "accumulate", "update",
                   "evaluate", "predict", "prefill", "step", "reset"});
    readLaunches(json, "");
    if (json.has("accumulate") != (plan.accumulate > 1)) {
      json.fail(plan.accumulate > 1 ? "the entry \"accumulate\", as an update has " +
                                          std::to_string(plan.accumulate) + " batches"
                                    : "no entry \"accumulate\", as an update has one batch",
                json.has("accumulate") ? "one" : "none");
    }
    auto first = plan.scalars.find("first_row");
    if (plan.accumulate > 1 && (first == plan.scalars.end() || first->second.type != Type::i64)) {
      json.fail("the scalar \"first_row\" of type i64 with the entry \"accumulate\"", "none");
    }
  }

  /// Reads launches into entries whose names end with `variant`.
  void readLaunches(const StrictJson &json, const std::string &variant) {
    for (const auto &[name, nodes] : json.members()) {
      std::vector<Launch> &launches = plan.entries[name + variant];
      for (const StrictJson &node : nodes.array()) {
        node.object();
        if (node.has("collective")) {
          plan.collectives[name + variant].push_back(
              readCollective(node, name, launches.size(), plan));
        } else {
          launches.push_back(readNode(node, static_cast<int64_t>(launches.size())));
        }
      }
    }
  }

  void readFactors(const StrictJson &json) {
    json.keys({"main", "entries"});
    plan.factors = {json.at("main").integer(1, mostSize)};
    for (const auto &[name, entries] : json.at("entries").members()) {
      int64_t factor = 0;
      auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), factor);
      if (error != std::errc() || end != name.data() + name.size() || factor < 1 ||
          factor == plan.factors.front()) {
        json.fail("entries of other factors than the main one", showJson(name));
      }
      entries.keys({"gradient", "evaluate"}, {"count", "predict"});
      if (entries.has("predict") != plan.entries.contains("predict")) {
        entries.fail("the entry \"predict\" of all factors or of none",
                     entries.has("predict") ? "one" : "none");
      }
      readLaunches(entries, entryOfFactor("", factor));
      plan.factors.push_back(factor);
    }
    std::sort(plan.factors.begin() + 1, plan.factors.end());
  }

  void readBuckets(const StrictJson &json) {
    for (const StrictJson &item : json.array()) {
      item.keys({"rows", "arena_bytes", "temporaries_bytes", "entries"});
      int64_t least = plan.memoryBuckets.empty() ? 1 : plan.memoryBuckets.back().rows + 1;
      Bucket bucket{item.at("rows").integer(least, mostSize),
                    item.at("arena_bytes").integer(0, plan.memory.arenaBytes),
                    item.at("temporaries_bytes").integer(0, plan.memory.arenaBytes)};
      for (const auto &[name, nodes] : item.at("entries").members()) {
        auto entry = plan.entries.find(name);
        std::vector<StrictJson> launches = nodes.array();
        if (entry == plan.entries.end() || entry->second.size() != launches.size()) {
          nodes.failType("as many launches as the plan's entry \"" + name + "\" has");
        }
        std::vector<Launch> changed = entry->second;
        for (size_t i = 0; i < changed.size(); ++i) {
          launches[i].keys({"arguments", "after"}, {"runs"});
          readLaunchMemory(launches[i], changed[i], static_cast<int64_t>(i));
          readRuns(launches[i], changed[i], bucket);
        }
        std::string bounded = entryOfBucket(name, bucket.rows);
        plan.entries[bounded] = std::move(changed);
        if (auto exchanged = plan.collectives.find(name); exchanged != plan.collectives.end()) {
          plan.collectives[bounded] = exchanged->second;
        }
      }
      plan.memoryBuckets.push_back(bucket);
    }
    auto room = plan.scalars.find("room");
    if (room == plan.scalars.end() || room->second.type != Type::i64) {
      json.fail("the scalar \"room\", i64, with it", "none");
    }
  }

  /// Reads the runs of a bucket's launch and checks that they are within the bucket's arena.
  void readRuns(const StrictJson &json, Launch &launch, const Bucket &bucket) const {
    const std::vector<Operand> &operands =
        plan.kernels[static_cast<size_t>(launch.kernel)].operands;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].bytes > bucket.arenaBytes - launch.arguments[i]) {
        json.at("arguments")
            .fail("operands in the " + std::to_string(bucket.arenaBytes) +
                      " bytes of the bucket's arena",
                  std::to_string(operands[i].bytes) + " bytes at " +
                      std::to_string(launch.arguments[i]));
      }
    }
    launch.runs.clear();
    for (const StrictJson &each :
         json.has("runs") ? json.at("runs").array() : std::vector<StrictJson>()) {
      std::vector<int64_t> numbers = each.integers(0);
      size_t least = launch.runs.empty() ? 0 : launch.runs.back().operand + 1;
      bool fits = numbers.size() == 4 && static_cast<size_t>(numbers[0]) >= least &&
                  static_cast<size_t>(numbers[0]) < operands.size() && numbers[1] > 0 &&
                  numbers[3] <= numbers[2] &&
                  numbers[2] <= operands[static_cast<size_t>(numbers[0])].bytes / numbers[1];
      if (!fits) {
        each.failType("[operand, runs, bytes from one to the next, bytes of one], rising operands, "
                      "runs within them");
      }
      launch.runs.push_back({static_cast<size_t>(numbers[0]), numbers[1], numbers[2], numbers[3]});
    }
  }

  Generation readGeneration(const StrictJson &json) const {
    json.keys({"rows", "period", "states", "rates", "reads"});
    Generation generation;
    generation.rows = json.at("rows").integer(1, mostGenerationRows);
    generation.period = json.at("period").integer(1, 1 << 30);
    for (const auto &[name, state] : json.at("states").members()) {
      generation.states[name] = readState(state, generation.rows);
    }
    for (const SegmentFacts &segments : plan.segments) {
      auto closed = generation.states.find(segments.closed);
      if (!segments.closed.empty() &&
          (closed == generation.states.end() || closed->second.region.type != Type::i32)) {
        json.at("states").fail("the state " + showJson(segments.closed) + " of the segments " +
                                   showJson(segments.axis) + ", i32 [rows]",
                               "none like it");
      }
    }
    for (const auto &[guard, rate] : json.at("rates").members()) {
      rate.keys({"runs", "period"}, {"segments"});
      int64_t period = rate.at("period").integer(1, 1 << 30);
      std::string segments = rate.has("segments") ? rate.at("segments").string() : "";
      generation.rates[guard] = {rate.at("runs").integer(0, period), period, segments};
    }
    json.at("reads").keys({"weights", "states"});
    generation.weightReads = json.at("reads").at("weights").integer(0, mostWork);
    for (const StrictJson &bytes : json.at("reads").at("states").array()) {
      generation.stateReads.push_back(bytes.integer(0, mostWork));
    }
    for (const char *entry : {"prefill", "step", "reset"}) {
      if (!plan.entries.contains(entry)) {
        json.fail(std::string("the entry \"") + entry + "\" beside it", "none");
      }
    }
    return generation;
  }

  Launch readNode(const StrictJson &json, int64_t index) const {
    if (!json.has("launch")) {
      json.fail("a launch or a collective", json.has("call")
                                                ? "a library call"
                                                : "a kind of node that this version does not know");
    }
    json.keys({"launch", "arguments"}, {"guard", "stream", "after", "phase", "axis", "stages"});
    Launch launch;
    launch.kernel = json.at("launch").integer(0, static_cast<int64_t>(plan.kernels.size()) - 1);
    readLaunchMemory(json, launch, index);
    if (json.has("stream")) {
      launch.stream = json.at("stream").integer(0);
    }
    if (json.has("phase")) {
      launch.phase = json.at("phase").matchChoice({"initialize", "forward", "backward", "update"});
    }
    if (json.has("axis")) {
      launch.axis = readAxis(json.at("axis"));
    }
    if (json.has("stages")) {
      launch.stages = json.at("stages").strings();
    }
    if (json.has("guard")) {
      launch.guard = readGuard(json.at("guard"));
    }
    return launch;
  }

  /// Reads the arguments of a launch and the launches that it must follow.
  void readLaunchMemory(const StrictJson &json, Launch &launch, int64_t index) const {
    launch.arguments = json.at("arguments").integers(std::numeric_limits<int64_t>::min());
    checkOperands(json.at("arguments"), launch);
    checkWorkspace(json.at("arguments"), launch);
    launch.after.clear();
    if (json.has("after")) {
      for (const StrictJson &earlier : json.at("after").array()) {
        launch.after.push_back(earlier.integer(0, index - 1));
      }
    }
  }

  /// Checks that the workspace (the last argument) and the counters before it are in the arena.
  void checkWorkspace(const StrictJson &json, const Launch &launch) const {
    auto check = [&](const auto &variant) {
      int64_t counterBytes = variant.counters * static_cast<int64_t>(sizeof(int32_t));
      if (counterBytes + variant.workspaceBytes == 0) {
        return;
      }
      int64_t last = plan.memory.arenaBytes - variant.workspaceBytes;
      if (launch.arguments.empty() || launch.arguments.back() < counterBytes ||
          launch.arguments.back() > last) {
        json.fail("a workspace (the last argument) from byte " + std::to_string(counterBytes) +
                      " to byte " + std::to_string(last) + " of the arena",
                  launch.arguments.empty() ? "no argument"
                                           : std::to_string(launch.arguments.back()));
      }
    };
    const PlanKernel &kernel = plan.kernels[static_cast<size_t>(launch.kernel)];
    for (const auto &[target, variant] : kernel.variants) {
      check(variant);
    }
    for (const auto &[target, variant] : kernel.deviceVariants) {
      check(variant);
    }
  }

  /// Checks that every operand of known size is in the arena.
  void checkOperands(const StrictJson &json, const Launch &launch) const {
    const PlanKernel &kernel = plan.kernels[static_cast<size_t>(launch.kernel)];
    const std::vector<Operand> &operands = kernel.operands;
    if (operands.empty()) {
      return;
    }
    if (launch.arguments.size() < operands.size()) {
      json.fail("at least " + std::to_string(operands.size()) + " arguments",
                std::to_string(launch.arguments.size()));
    }
    std::vector<StrictJson> offsets = json.array();
    int64_t alignment = kernel.product ? 64 : sizeof(float); // alignment that cuBLASLt is given
    for (size_t i = 0; i < operands.size(); ++i) {
      range(offsets[i], operands[i].bytes, alignment);
    }
  }

  Guard readGuard(const StrictJson &json) const {
    json.keys({"scalar", "equals"});
    Guard guard;
    guard.scalar = json.at("scalar").string();
    auto scalar = plan.scalars.find(guard.scalar);
    bool isInteger = scalar != plan.scalars.end() &&
                     (scalar->second.type == Type::i32 || scalar->second.type == Type::i64);
    if (!isInteger) {
      json.at("scalar").failType("the name of an integer scalar");
    }
    guard.equals = json.at("equals").integer(std::numeric_limits<int64_t>::min());
    return guard;
  }

  void readBuffer(const StrictJson &json) {
    json.keys({"name", "offset", "bytes", "device", "class"});
    Buffer buffer;
    buffer.name = json.at("name").string();
    buffer.kind = json.at("class").string();
    buffer.bytes = json.at("bytes").integer(0, mostArenaBytes);
    buffer.offset = range(json.at("offset"), buffer.bytes);
    json.at("device").integer(0, 0);
    plan.buffers.push_back(std::move(buffer));
  }

  StrictJson root;
};

} // namespace

Plan parsePlan(std::string_view text, const std::string &origin) {
  static const std::string remedy = "; compile the spec again with this version of sluice";
  nlohmann::json json = readJson(text, origin + ": plan", "JSON", remedy);
  return PlanReader(StrictJson(json, origin + ": plan", remedy)).read();
}

std::string findPlanMistake(std::string_view text) {
  try {
    parsePlan(text, "");
    return "";
  } catch (const UserError &error) {
    return error.what();
  }
}

} // namespace sluice::runtime
