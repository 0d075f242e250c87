// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Plan/BatchShapes.h"

#include "sluice/Support/Limits.h"
#include "sluice/Support/StrictJson.h"

#include <algorithm>

namespace sluice::runtime {

std::string entryOfShape(const std::string &entry, size_t shape) {
  return shape == 0 ? entry : entry + "." + std::to_string(shape);
}

BatchShape getBatchShape(const Plan &plan, size_t number) {
  if (number < plan.shapes.size()) {
    return plan.shapes[number];
  }
  BatchShape own{plan.model.batch, 1, plan.model.context, {}};
  for (const auto &[name, input] : plan.given) {
    if (input.on.empty()) {
      own.given[name] = input.capacity;
    }
  }
  return own;
}

int64_t countMostRows(const Plan &plan) {
  int64_t most = plan.model.batch;
  for (const BatchShape &shape : plan.shapes) {
    most = std::max(most, shape.rows);
  }
  return most;
}

void readShapes(const StrictJson &json, Plan &plan) {
  if (plan.given.empty() || !plan.factors.empty()) {
    json.failType("shapes only in a model with named inputs and one factor per level");
  }
  BatchShape own = getBatchShape(plan, 0);
  for (const StrictJson &each : json.array()) {
    bool isFirst = plan.shapes.empty();
    each.keys({"rows", "context", "inputs"}, {"entries"});
    BatchShape shape;
    shape.rows = each.at("rows").integer(1, mostSize);
    shape.context = each.at("context").integer(1, own.context);
    shape.parts = own.context / shape.context;
    bool fits = shape.parts * shape.context == own.context && each.has("entries") != isFirst;
    for (const auto &[name, capacity] : each.at("inputs").members()) {
      shape.given[name] = capacity.integer(1, mostSize);
      fits &= own.given.contains(name) && shape.given[name] * shape.parts == own.given[name];
    }
    fits &= shape.given.size() == own.given.size();
    fits &= isFirst
                ? shape.rows == own.rows && shape.parts == 1
                : shape.rows >= plan.shapes.back().rows && shape.parts > plan.shapes.back().parts;
    if (!fits) {
      each.failType("the capacities of the model, then parts of them with at least as many rows "
                    "and with entries");
    }
    if (!isFirst) {
      each.at("entries").keys({"gradient", "evaluate"}, {"count"});
    }
    plan.shapes.push_back(std::move(shape));
  }
}

/// Returns the capacity of the input ON whose rows the plan's input edges.ON.NAME connects; the end
/// for other inputs.
static auto findInputOfEdges(const BatchShape &shape, const std::string &place) {
  constexpr std::string_view prefix = "edges.";
  size_t dot = place.rfind('.');
  bool isEdges = place.starts_with(prefix) && dot >= prefix.size();
  return isEdges ? shape.given.find(place.substr(prefix.size(), dot - prefix.size()))
                 : shape.given.end();
}

void checkShapes(const StrictJson &json, const Plan &plan) {
  auto require = [&](const auto &places, const std::string &name, int64_t elements, Type type) {
    auto found = places.find(name);
    if (found != places.end() && found->second.type != type) {
      json.fail("\"" + name + "\" of type " + std::string(getTypeName(type)), "another type");
    }
    int64_t bytes = elements * getByteSize(type), arena = plan.memory.arenaBytes;
    if (found != places.end() && (bytes > arena || found->second.offset > arena - bytes)) {
      json.fail("\"" + name + "\" inside the arena with each shape of batches", "a larger shape");
    }
  };
  for (size_t i = 0; i < std::max<size_t>(1, plan.shapes.size()); ++i) {
    BatchShape shape = getBatchShape(plan, i);
    require(plan.scalars, "draw_rows", shape.rows, Type::i64);
    if (i == 0) {
      continue; // inputs and outputs were read with this shape
    }
    require(plan.inputs, "tokens", shape.rows * (shape.context + 1), Type::i32);
    require(plan.inputs, "tokens.padding", shape.rows * shape.context, Type::f32);
    require(plan.inputs, "tokens.count", shape.rows, Type::i64);
    for (const auto &[name, capacity] : shape.given) {
      require(plan.inputs, name + ".count", shape.rows, Type::i64);
    }
    for (const auto &[name, input] : plan.given) {
      int64_t capacity = shape.given.at(input.on.empty() ? name : input.on);
      require(plan.inputs, name, shape.rows * capacity, Type::i32);
    }
    for (const auto &[name, region] : plan.inputs) {
      auto on = findInputOfEdges(shape, name);
      if (on != shape.given.end() && region.shape.size() == 2) {
        int64_t entries = region.shape.back() - plan.given.at(on->first).capacity;
        require(plan.inputs, name, shape.rows * (on->second + entries), Type::i32);
      }
    }
    for (const SegmentFacts &segments : plan.segments) {
      require(plan.scalars, segments.counts, 2 * shape.rows, Type::i32);
      require(plan.scalars, segments.length, shape.rows, Type::i64);
    }
    for (const auto &[name, scalar] : plan.scalars) {
      if (name.starts_with("length.")) { // rows of each line on an axis
        require(plan.scalars, name, shape.rows, Type::i64);
      }
    }
    for (const auto &[name, region] : plan.outputs) {
      if (region.shape == std::vector{plan.model.batch, plan.model.context}) {
        require(plan.outputs, name, shape.rows * shape.context, Type::f32);
      }
    }
  }
}

} // namespace sluice::runtime
