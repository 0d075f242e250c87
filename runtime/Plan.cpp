// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Plan.h"

#include "ProductJson.h"
#include "sluice/Runtime/Limits.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace sluice::runtime {

int64_t sizeOf(Type type) { return type == Type::i64 ? 8 : type == Type::bf16 ? 2 : 4; }

std::string_view nameOf(Type type) {
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

int64_t State::rowBytes() const {
  int64_t elements = region.shape.size() < 2 ? 1 : region.rowStride;
  for (size_t i = 1; i + 1 < region.shape.size(); ++i) {
    elements *= region.shape[i];
  }
  return elements * sizeOf(region.type);
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

bool isGpuTarget(std::string_view target) { return target.starts_with("sm_"); }

std::vector<int64_t> Plan::sortedFactors() const {
  std::vector<int64_t> sorted = factors;
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

std::vector<std::string> Plan::gpuTargets() const {
  std::vector<std::string> names;
  std::copy_if(targets.begin(), targets.end(), std::back_inserter(names), isGpuTarget);
  return names;
}

namespace {

/// Reads one plan. Ranges are checked as they are read, so `memory` comes first.
class PlanReader {
public:
  explicit PlanReader(StrictJson root) : root(std::move(root)) {}

  Plan read() {
    root.keys({"format", "version", "model", "proof", "targets", "training", "memory", "constants",
               "scalars", "inputs", "outputs", "tensors", "gradients", "kernels", "entries",
               "buffers"},
              {"generation", "given", "losses", "factors", "buckets"});
    root.at("format").oneOf({"sluice-plan"});
    root.at("version").integer(2, 2);
    readModel(root.at("model"));
    readProof(root.at("proof"));
    plan.targets = root.at("targets").strings();
    root.at("training").keys({"steps"});
    plan.trainingSteps = root.at("training").at("steps").integer(0);
    if (root.has("losses")) {
      readLosses(root.at("losses"));
    }
    readMemory(root.at("memory"));
    readConstants(root.at("constants"));
    readScalars(root.at("scalars"));
    readRegions(root.at("inputs"), plan.inputs);
    readRegions(root.at("outputs"), plan.outputs);
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
    if (root.has("buckets")) {
      readBuckets(root.at("buckets"));
    }
    if (root.has("generation")) {
      plan.generation = readGeneration(root.at("generation"));
    }
    for (const StrictJson &buffer : root.at("buffers").array()) {
      readBuffer(buffer);
    }
    return std::move(plan);
  }

private:
  void readModel(const StrictJson &json) {
    json.keys({"name", "vocabulary", "context", "batch", "width", "seed", "spec", "parameters"},
              {"first", "group"});
    ModelFacts &model = plan.model;
    model.name = json.at("name").string();
    model.vocabulary = json.at("vocabulary").integer(2, mostSize);
    model.context = json.at("context").integer(1, mostSize);
    model.batch = json.at("batch").integer(1, mostSize);
    model.width = json.at("width").integer(1, mostSize);
    model.seed = json.at("seed").integer(0);
    model.spec = json.at("spec").string();
    model.parameters = json.at("parameters").integer(0);
    model.first = json.has("first") ? json.at("first").integer(0, model.context - 1) : 0;
    model.group = json.has("group") ? json.at("group").integer(1, mostSize) : 1;
  }

  void readLosses(const StrictJson &json) {
    for (const StrictJson &loss : json.array()) {
      loss.keys({"name", "factor", "first"});
      plan.losses.push_back({loss.at("name").string(), loss.at("factor").number(0),
                             loss.at("first").integer(0, mostSize)});
    }
  }

  void readProof(const StrictJson &json) {
    json.keys({"verdict", "modes"}, {"certificate"});
    plan.verdict = json.at("verdict").oneOf({"proved", "leak-allowed"});
    plan.modes = json.at("modes").strings();
    plan.certificate = json.has("certificate") ? json.at("certificate").string() : "";
  }

  void readMemory(const StrictJson &json) {
    json.keys({"arena_bytes", "peak_bytes", "constant_bytes", "by_scale"},
              {"by_use", "contents", "peak", "budget"});
    plan.memory.arenaBytes = json.at("arena_bytes").integer(0, mostArenaBytes);
    plan.memory.peakBytes = json.at("peak_bytes").integer(0);
    plan.memory.constantBytes = json.at("constant_bytes").integer(0);
    for (const auto &[scale, bytes] : json.at("by_scale").members()) {
      plan.memory.byScale[scale] = bytes.integer(0);
    }
    if (json.has("by_use")) {
      for (const auto &[use, bytes] : json.at("by_use").members()) {
        plan.memory.byUse[use] = bytes.integer(0);
      }
    }
    if (json.has("contents")) {
      for (const StrictJson &part : json.at("contents").array()) {
        part.keys({"scale", "kind", "bytes"});
        plan.memory.contents.push_back({part.at("scale").integer(0), part.at("kind").string(),
                                        part.at("bytes").integer(0, mostArenaBytes)});
      }
    }
    if (json.has("peak")) {
      const StrictJson peak = json.at("peak");
      peak.keys({"entry", "launch"}, {"place"});
      plan.memory.peak = {peak.at("entry").string(), peak.at("launch").integer(0),
                          peak.has("place") ? peak.at("place").string() : ""};
    }
    if (json.has("budget")) {
      const StrictJson budget = json.at("budget");
      budget.keys({"bytes", "full_bytes", "launches", "flops"});
      plan.memory.budget = {budget.at("bytes").integer(0), budget.at("full_bytes").integer(0),
                            budget.at("launches").integer(0), budget.at("flops").integer(0)};
    }
  }

  /// An offset that is a multiple of `alignment`, with `bytes` after it inside the arena.
  int64_t range(const StrictJson &json, int64_t bytes, int64_t alignment = 64) const {
    int64_t offset = json.integer(0, mostArenaBytes);
    if (offset % alignment != 0) {
      json.failType("a multiple of " + std::to_string(alignment));
    }
    if (bytes < 0 || bytes > plan.memory.arenaBytes || offset > plan.memory.arenaBytes - bytes) {
      json.fail(std::to_string(bytes) + " bytes inside the arena of " +
                    std::to_string(plan.memory.arenaBytes) + " bytes",
                "offset " + std::to_string(offset));
    }
    return offset;
  }

  Type type(const StrictJson &json) const {
    std::string name = json.oneOf({"f32", "bf16", "i32", "i64"});
    return name == "f32"    ? Type::f32
           : name == "bf16" ? Type::bf16
           : name == "i32"  ? Type::i32
                            : Type::i64;
  }

  /// Dimensions whose product fits the arena (in elements), so that later products cannot overflow.
  std::vector<int64_t> shape(const StrictJson &json) const {
    std::vector<int64_t> sizes = json.integers(1);
    int64_t count = 1;
    for (int64_t size : sizes) {
      if (size > plan.memory.arenaBytes / count) {
        json.failType("a shape that fits the arena");
      }
      count *= size;
    }
    return sizes;
  }

  void readConstants(const StrictJson &json) {
    json.keys({"offset", "bytes"});
    plan.constantsBytes = json.at("bytes").integer(0, mostConstantBytes);
    plan.constantsOffset = range(json.at("offset"), plan.constantsBytes);
  }

  void readScalars(const StrictJson &json) {
    for (const auto &[name, scalar] : json.members()) {
      scalar.keys({"offset", "type"});
      Scalar &result = plan.scalars[name];
      result.type = type(scalar.at("type"));
      result.offset = range(scalar.at("offset"), sizeOf(result.type));
    }
  }

  void readRegions(const StrictJson &json, std::map<std::string, Region> &regions) {
    for (const auto &[name, region] : json.members()) {
      region.keys({"offset", "type", "shape"}, {"row_stride"});
      regions[name] = readRegion(region);
    }
  }

  void readGiven(const StrictJson &json) {
    for (const auto &[name, input] : json.members()) {
      input.keys({"vocabulary"});
      auto tokens = plan.inputs.find(name), counts = plan.inputs.find(name + ".count");
      bool isTokens = tokens != plan.inputs.end() && tokens->second.type == Type::i32 &&
                      tokens->second.shape.size() == 2 &&
                      tokens->second.shape.front() == plan.model.batch &&
                      tokens->second.rowStride == tokens->second.shape.back();
      bool isCounted = counts != plan.inputs.end() && counts->second.type == Type::i64 &&
                       counts->second.shape == std::vector{plan.model.batch};
      if (!isTokens || !isCounted) {
        input.failType("an input of i32 [batch, capacity] and its counts, i64 [batch]");
      }
      plan.given[name] = {tokens->second.shape.back(),
                          input.at("vocabulary").integer(1, std::numeric_limits<int32_t>::max())};
    }
  }

  Region readRegion(const StrictJson &region) const {
    Region result;
    result.type = type(region.at("type"));
    result.shape = shape(region.at("shape"));
    int64_t width = result.shape.empty() ? 1 : result.shape.back();
    result.rowStride =
        region.has("row_stride") ? region.at("row_stride").integer(width, mostArenaBytes) : width;
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < result.shape.size(); ++i) {
      rows *= result.shape[i];
    }
    if (result.rowStride > mostArenaBytes / (rows * sizeOf(result.type))) {
      region.at("row_stride").failType("a stride that fits the arena");
    }
    int64_t elements = (rows - 1) * result.rowStride + width;
    result.offset = range(region.at("offset"), elements * sizeOf(result.type));
    return result;
  }

  void readTensor(const StrictJson &json) {
    json.keys({"name", "shape", "type", "offset", "gradient", "states", "decay"});
    Tensor tensor;
    tensor.name = json.at("name").string();
    for (const Tensor &other : plan.tensors) {
      if (other.name == tensor.name) {
        json.at("name").fail("each tensor once", "\"" + tensor.name + "\" again");
      }
    }
    json.at("type").oneOf({"f32"});
    tensor.shape = shape(json.at("shape"));
    int64_t bytes = tensor.elements() * 4;
    // Weights that are stored as parts of one matrix follow one another without gaps.
    tensor.offset = range(json.at("offset"), bytes, sizeof(float));
    tensor.gradient = range(json.at("gradient"), bytes, sizeof(float));
    for (const auto &[name, state] : json.at("states").members()) {
      tensor.states[name] = range(state, bytes, sizeof(float));
    }
    tensor.decay = json.at("decay").boolean();
    plan.tensors.push_back(std::move(tensor));
  }

  void readGradients(const StrictJson &json) {
    json.keys({"offset", "bytes", "buckets"});
    plan.gradientsBytes = json.at("bytes").integer(0, mostArenaBytes);
    plan.gradientsOffset = range(json.at("offset"), plan.gradientsBytes);
    for (const StrictJson &bucket : json.at("buckets").array()) {
      plan.buckets.push_back(bucket.integer(0, plan.gradientsBytes));
    }
  }

  void readKernel(const StrictJson &json) {
    json.keys({"name", "kind", "variants", "flops", "bytes"}, {"operands", "product"});
    Kernel kernel;
    kernel.name = json.at("name").string();
    kernel.kind = json.at("kind").oneOf({"matmul", "attention", "row", "stream"});
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
        json.fail("\"product\" beside the \"library\" of " + target, "none");
      }
    }
    kernel.flops = json.at("flops").integer(0, mostWork);
    kernel.bytes = json.at("bytes").integer(0, mostWork);
    plan.kernels.push_back(std::move(kernel));
  }

  Stage readStage(const StrictJson &json) const {
    json.keys({"symbol", "blocks", "threads", "shared_bytes"},
              {"registers", "spills", "stack_bytes", "static_shared_bytes"});
    Stage stage;
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

  Variant readVariant(const StrictJson &json) const {
    json.keys({"symbol", "items", "scratch_bytes"}, {"workspace_bytes", "counters"});
    Variant variant{json.at("symbol").string(), json.at("items").integer(0, mostItems),
                    json.at("scratch_bytes").integer(0, mostScratchBytes)};
    if (json.has("workspace_bytes")) {
      variant.workspaceBytes = json.at("workspace_bytes").integer(0, plan.memory.arenaBytes);
    }
    if (json.has("counters")) {
      variant.counters = json.at("counters").integer(0, plan.memory.arenaBytes / 4);
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
    json.keys({}, {"initialize", "prepare", "gradient", "update", "evaluate", "predict", "prefill",
                   "step", "reset"});
    readLaunches(json, "");
  }

  void readLaunches(const StrictJson &json, const std::string &ending) {
    for (const auto &[name, nodes] : json.members()) {
      std::vector<Launch> &launches = plan.entries[name + ending];
      for (const StrictJson &node : nodes.array()) {
        launches.push_back(readNode(node, static_cast<int64_t>(launches.size())));
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
      entries.keys({"gradient", "evaluate", "predict"});
      readLaunches(entries, "." + name);
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
          launches[i].keys({"arguments", "after"});
          readMemoryOf(launches[i], changed[i], static_cast<int64_t>(i));
        }
        plan.entries[name + "@" + std::to_string(bucket.rows)] = std::move(changed);
      }
      plan.memoryBuckets.push_back(bucket);
    }
    auto room = plan.scalars.find("room");
    if (room == plan.scalars.end() || room->second.type != Type::i64) {
      json.fail("the scalar \"room\", i64, beside it", "none");
    }
  }

  Generation readGeneration(const StrictJson &json) const {
    json.keys({"rows", "period", "states", "rates", "reads"});
    Generation generation;
    generation.rows = json.at("rows").integer(1, mostGenerationRows);
    generation.period = json.at("period").integer(1, 1 << 30);
    for (const auto &[name, state] : json.at("states").members()) {
      state.keys({"offset", "type", "shape", "scale"}, {"row_stride"});
      Region region = readRegion(state);
      if (region.shape.empty() || region.shape.front() != generation.rows) {
        state.at("shape").failType("a shape of " + std::to_string(generation.rows) + " rows");
      }
      generation.states[name] = {region, state.at("scale").integer(0, 1 << 30)};
    }
    for (const auto &[guard, rate] : json.at("rates").members()) {
      rate.keys({"runs", "period"});
      int64_t period = rate.at("period").integer(1, 1 << 30);
      generation.rates[guard] = {rate.at("runs").integer(0, period), period};
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
    json.object();
    if (!json.has("launch")) {
      std::string kind = json.has("call")         ? "a library call"
                         : json.has("collective") ? "a collective"
                                                  : "";
      json.fail("a launch, the only kind of node that the CPU runs",
                kind.empty() ? "a kind of node that this version does not know" : kind);
    }
    json.keys({"launch", "arguments"}, {"guard", "stream", "after", "phase"});
    Launch launch;
    launch.kernel = json.at("launch").integer(0, static_cast<int64_t>(plan.kernels.size()) - 1);
    readMemoryOf(json, launch, index);
    if (json.has("stream")) {
      launch.stream = json.at("stream").integer(0);
    }
    if (json.has("phase")) {
      launch.phase = json.at("phase").oneOf({"initialize", "forward", "backward", "update"});
    }
    if (json.has("guard")) {
      launch.guard = readGuard(json.at("guard"));
    }
    return launch;
  }

  /// Where the launch's memory is, and which launches that memory lets it overlap.
  void readMemoryOf(const StrictJson &json, Launch &launch, int64_t index) const {
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

  /// So do the workspace, the last argument, and the counters in front of it.
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
    const Kernel &kernel = plan.kernels[static_cast<size_t>(launch.kernel)];
    for (const auto &[target, variant] : kernel.variants) {
      check(variant);
    }
    for (const auto &[target, variant] : kernel.deviceVariants) {
      check(variant);
    }
  }

  /// Every operand that the plan gives the size of lies in the arena.
  void checkOperands(const StrictJson &json, const Launch &launch) const {
    const Kernel &kernel = plan.kernels[static_cast<size_t>(launch.kernel)];
    const std::vector<Operand> &operands = kernel.operands;
    if (operands.empty()) {
      return;
    }
    if (launch.arguments.size() < operands.size()) {
      json.fail("at least " + std::to_string(operands.size()) + " arguments",
                std::to_string(launch.arguments.size()));
    }
    std::vector<StrictJson> offsets = json.array();
    int64_t alignment = kernel.product ? 64 : sizeof(float); // which cuBLASLt is told of
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
  Plan plan;
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
