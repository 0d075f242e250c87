// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the parts of a plan about the model and the memory: all except kernels and entries.
#pragma once

#include "sluice/Runtime/Plan/Plan.h"
#include "sluice/Support/Limits.h"
#include "sluice/Support/StrictJson.h"

#include <algorithm>
#include <limits>

namespace sluice::runtime {

/// Reads the groups of weights of a training.
inline std::vector<GroupFacts> readGroups(const StrictJson &json) {
  std::vector<GroupFacts> groups;
  for (const StrictJson &each : json.array()) {
    each.keys({"match", "factor"}, {"learning_rate", "weight_decay"});
    auto readNumber = [&](const char *key) {
      return each.has(key) ? std::optional(each.at(key).number(0)) : std::nullopt;
    };
    groups.push_back({each.at("match").string(), each.at("factor").number(0),
                      readNumber("learning_rate"), readNumber("weight_decay")});
  }
  return groups;
}

/// `memory` is read first, since all ranges are checked against its size.
class PlanFactsReader {
protected:
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
      loss.keys({"name", "factor", "first", "rows", "mean"}, {"target"});
      plan.losses.push_back({loss.at("name").string(), loss.at("factor").number(0),
                             loss.at("first").integer(0, mostSize),
                             nameIn(plan.outputs, loss.at("rows"), "an output", Type::f32),
                             nameIn(plan.scalars, loss.at("mean"), "a scalar", Type::f32),
                             loss.has("target") ? loss.at("target").string() : ""});
    }
  }

  /// Reads the name of an element of `known` with the given type.
  template <typename T>
  static std::string nameIn(const std::map<std::string, T> &known, const StrictJson &json,
                            const std::string &what, Type type) {
    std::string name = json.string();
    auto found = known.find(name);
    if (found == known.end() || found->second.type != type) {
      json.fail("the name of " + what + " of type " + std::string(getTypeName(type)),
                showJson(name));
    }
    return name;
  }

  const SegmentFacts *findSegments(const std::string &axis) const {
    auto found = std::ranges::find(plan.segments, axis, &SegmentFacts::axis);
    return found == plan.segments.end() ? nullptr : &*found;
  }

  /// Reads the name of an axis on which each text has a length.
  std::string readAxis(const StrictJson &json) const {
    std::string axis = json.string();
    auto length = plan.scalars.find(plan.lengthName(axis));
    if (length == plan.scalars.end() || length->second.type != Type::i64) {
      json.fail("the axis of one of the plan's segments, or one with lengths", showJson(axis));
    }
    requireInside(json, length->second.offset, plan.model.batch * getByteSize(Type::i64));
    return axis;
  }

  void readSegments(const StrictJson &json) {
    for (const StrictJson &each : json.array()) {
      each.keys({"axis", "factor", "capacity", "counts", "length"}, {"parent", "share", "closed"});
      SegmentFacts made;
      made.axis = each.at("axis").string();
      if (findSegments(made.axis)) {
        each.at("axis").fail("each axis once", showJson(made.axis) + " again");
      }
      if (each.has("parent")) {
        made.parent = each.at("parent").string();
      }
      made.factor = each.at("factor").integer(1, mostSize);
      made.capacity = each.at("capacity").integer(1, mostSize);
      made.counts = nameIn(plan.scalars, each.at("counts"), "a scalar", Type::i32);
      requireInside(each.at("counts"), plan.scalars.at(made.counts).offset,
                    plan.model.batch * 2 * getByteSize(Type::i32));
      made.length = nameIn(plan.scalars, each.at("length"), "a scalar", Type::i64);
      requireInside(each.at("length"), plan.scalars.at(made.length).offset,
                    plan.model.batch * getByteSize(Type::i64));
      if (each.has("share")) {
        made.share = each.at("share").string();
        if (std::ranges::find(plan.losses, made.share, &LossFacts::name) == plan.losses.end()) {
          each.at("share").fail("the name of one of the losses", showJson(made.share));
        }
      }
      made.closed = each.has("closed") ? each.at("closed").string() : "";
      plan.segments.push_back(std::move(made));
    }
    for (const StrictJson &each : json.array()) {
      if (each.has("parent") && !findSegments(each.at("parent").string())) {
        each.at("parent").failType("the axis of one of the segments");
      }
    }
  }

  void readProof(const StrictJson &json) {
    json.keys({"verdict", "modes"}, {"certificate"});
    plan.verdict = json.at("verdict").matchChoice({"proved", "leak-allowed", "not-proved"});
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

  /// Reads an offset that is a multiple of `alignment` with `bytes` after it in the arena.
  int64_t range(const StrictJson &json, int64_t bytes, int64_t alignment = 64) const {
    int64_t offset = json.integer(0, mostArenaBytes);
    if (offset % alignment != 0) {
      json.failType("a multiple of " + std::to_string(alignment));
    }
    requireInside(json, offset, bytes);
    return offset;
  }

  void requireInside(const StrictJson &json, int64_t offset, int64_t bytes) const {
    if (bytes < 0 || bytes > plan.memory.arenaBytes || offset > plan.memory.arenaBytes - bytes) {
      json.fail(std::to_string(bytes) + " bytes inside the arena of " +
                    std::to_string(plan.memory.arenaBytes) + " bytes",
                "offset " + std::to_string(offset));
    }
  }

  Type type(const StrictJson &json) const {
    std::string name = json.matchChoice({"f32", "bf16", "i32", "i64"});
    return name == "f32"    ? Type::f32
           : name == "bf16" ? Type::bf16
           : name == "i32"  ? Type::i32
                            : Type::i64;
  }

  /// Reads dimensions. Their product must be at most the arena's size in elements, so that later
  /// products cannot overflow.
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
      result.offset = range(scalar.at("offset"), getByteSize(result.type));
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
      input.keys({"vocabulary"}, {"on"});
      std::string on = input.has("on") ? input.at("on").string() : "";
      auto tokens = plan.inputs.find(name),
           counts = plan.inputs.find((on.empty() ? name : on) + ".count");
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
                          input.at("vocabulary").integer(1, std::numeric_limits<int32_t>::max()),
                          on};
    }
    for (const auto &[name, input] : plan.given) {
      auto axis = input.on.empty() ? plan.given.end() : plan.given.find(input.on);
      bool isAxis = axis != plan.given.end() && axis->second.on.empty() &&
                    axis->second.capacity == input.capacity;
      if (!input.on.empty() && !isAxis) {
        json.at(name.c_str()).failType("tokens on the axis of another input");
      }
    }
    for (const InputFacts &facts : plan.facts ? plan.facts->inputs : std::vector<InputFacts>()) {
      if (auto found = plan.given.find(facts.name); found != plan.given.end()) {
        found->second.hasEnd = facts.hasEnd;
        found->second.derived = facts.derived;
        found->second.rule = facts.rule;
      }
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
    if (result.rowStride > mostArenaBytes / (rows * getByteSize(result.type))) {
      region.at("row_stride").failType("a stride that fits the arena");
    }
    int64_t elements = (rows - 1) * result.rowStride + width;
    result.offset = range(region.at("offset"), elements * getByteSize(result.type));
    return result;
  }

  State readState(const StrictJson &json, int64_t rows) const {
    json.keys({"offset", "type", "shape", "scale"}, {"row_stride", "counts", "by_line"});
    State state{readRegion(json), json.at("scale").integer(0, 1 << 30)};
    state.isByLine = json.has("by_line") && json.at("by_line").boolean();
    size_t dimensions = state.region.shape.size();
    if (dimensions == 0 || state.region.shape.front() != rows) {
      json.at("shape").failType("a shape of " + std::to_string(rows) + " rows");
    }
    if (!json.has("counts")) {
      return state;
    }
    if (dimensions == 1) {
      json.at("shape").failType("a shape with stored rows, as it has counts of them");
    }
    const StrictJson &counts = json.at("counts");
    counts.keys({"first", "rise", "rows"}, {"segments"});
    state.counts = {counts.at("first").integer(0, 1 << 30), counts.at("rise").integer(0, 1 << 30),
                    counts.at("rows").integers(0),
                    counts.has("segments") ? counts.at("segments").string() : ""};
    const SegmentFacts *segments = findSegments(state.counts->segments);
    if (counts.has("segments") && (!segments || segments->closed.empty())) {
      counts.at("segments").failType("an axis of segments of which a state counts the closed ones");
    }
    const std::vector<int64_t> &all = state.counts->rows;
    if (all.empty() || !std::ranges::is_sorted(all) || all.back() > (1 << 30)) {
      counts.at("rows").failType("rows after each step of a period, rising, at most 2^30");
    }
    return state;
  }

  void readTensor(const StrictJson &json) {
    json.keys({"name", "shape", "type", "offset", "gradient", "states", "decay"}, {"frozen"});
    Tensor tensor;
    tensor.name = json.at("name").string();
    for (const Tensor &other : plan.tensors) {
      if (other.name == tensor.name) {
        json.at("name").fail("each tensor once", "\"" + tensor.name + "\" again");
      }
    }
    json.at("type").matchChoice({"f32"});
    tensor.shape = shape(json.at("shape"));
    int64_t bytes = tensor.elements() * 4;
    // Weights that are parts of one stored matrix are adjacent without gaps.
    tensor.offset = range(json.at("offset"), bytes, sizeof(float));
    tensor.gradient = range(json.at("gradient"), bytes, sizeof(float));
    for (const auto &[name, state] : json.at("states").members()) {
      tensor.states[name] = range(state, bytes, sizeof(float));
    }
    tensor.decay = json.at("decay").boolean();
    tensor.frozen = json.has("frozen") && json.at("frozen").boolean();
    plan.tensors.push_back(std::move(tensor));
  }

  void readGradients(const StrictJson &json) {
    json.keys({"offset", "bytes", "buckets"}, {"sums"});
    plan.gradientsBytes = json.at("bytes").integer(0, mostArenaBytes);
    plan.gradientsOffset = range(json.at("offset"), plan.gradientsBytes);
    for (const StrictJson &bucket : json.at("buckets").array()) {
      constexpr int64_t alignment = 64;
      int64_t least = plan.buckets.empty() ? 0 : plan.buckets.back() + 1;
      int64_t most = plan.buckets.empty() ? 0 : plan.gradientsBytes - 1;
      plan.buckets.push_back(bucket.integer(least, most));
      if (plan.buckets.back() % alignment != 0) {
        bucket.failType("a multiple of " + std::to_string(alignment));
      }
    }
    if (plan.buckets.empty()) {
      json.at("buckets").fail("at least one bucket", "none");
    }
    if (json.has("sums")) {
      plan.gradientSumsOffset = range(json.at("sums"), plan.gradientsBytes);
    }
  }

  Plan plan;
};

} // namespace sluice::runtime
