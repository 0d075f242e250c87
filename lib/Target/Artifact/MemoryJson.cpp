// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory statistics of the plan.
#include "MemoryJson.h"

#include "mlir/IR/Location.h"

using namespace mlir;
using namespace sluice;
namespace json = llvm::json;

/// Returns the contents of the arena at peak usage, by scale and kind; the sum is the arena's size.
static json::Array contentsToJson(const MemoryPlan &memory) {
  json::Array contents;
  int64_t rest = memory.arenaBytes;
  auto add = [&](int64_t scale, StringRef kind, int64_t bytes) {
    if (bytes > 0) {
      contents.push_back(json::Object{{"scale", scale}, {"kind", kind}, {"bytes", bytes}});
      rest -= bytes;
    }
  };
  int64_t alive = 0;
  for (auto [which, bytes] : memory.peak.bytes) {
    add(which.first, toString(which.second), bytes);
    alive += bytes;
  }
  // Temporaries are packed by size and live range, which leaves gaps.
  add(0, "gaps", memory.temporariesBytes - alive);
  auto countBytes = [&](std::initializer_list<StringRef> names) {
    int64_t bytes = 0;
    for (const auto &[name, place] : memory.places) {
      bytes +=
          llvm::any_of(names, [&](StringRef start) { return StringRef(name).starts_with(start); })
              ? place.bytes
              : 0;
    }
    return bytes;
  };
  add(0, "weights", countBytes({"flat:parameters"}));
  add(0, "weight gradients", countBytes({"flat:gradients", "flat:gradient_sums"}));
  add(0, "moments", countBytes({"flat:adam."}));
  add(0, "weight copies", countBytes({"flat:compute", "quantized:", "scale:"}));
  add(0, "constants", memory.constantsBytes);
  add(0, "inputs and outputs", countBytes({"input:", "output:"}));
  add(0, "generation states", countBytes({"state:"}));
  add(0, "workspace", memory.workspaceBytes + memory.counterBytes);
  add(0, "alignment and scalars", rest);
  return contents;
}

json::Object sluice::memoryToJson(const MemoryPlan &memory) {
  json::Object byScale, byUse;
  for (auto [factor, bytes] : memory.bytesByFactor) {
    byScale[std::to_string(factor)] = bytes;
  }
  for (const auto &[use, bytes] : memory.bytesByUse) {
    byUse[use] = bytes;
  }
  json::Object peak{{"entry", memory.peak.entry},
                    {"launch", static_cast<int64_t>(memory.peak.launch)}};
  auto place =
      memory.peak.place ? (*memory.peak.place)->findInstanceOf<FileLineColLoc>() : FileLineColLoc();
  if (place) {
    peak["place"] = (place.getFilename().getValue() + ":" + Twine(place.getLine()) + ":" +
                     Twine(place.getColumn()))
                        .str();
  }
  json::Object object{{"arena_bytes", memory.arenaBytes},
                      {"peak_bytes", memory.arenaBytes},
                      {"constant_bytes", memory.constantsBytes},
                      {"by_scale", std::move(byScale)},
                      {"by_use", std::move(byUse)},
                      {"contents", contentsToJson(memory)},
                      {"peak", std::move(peak)}};
  if (const std::optional<MemoryBudget> &budget = memory.budget) {
    object["budget"] = json::Object{{"bytes", budget->bytes},
                                    {"full_bytes", budget->fullBytes},
                                    {"launches", budget->launches},
                                    {"flops", static_cast<int64_t>(budget->operations)}};
  }
  return object;
}

json::Object sluice::gradientsToJson(const MemoryPlan &memory, ArrayRef<int64_t> buckets) {
  const MemoryPlace &gradients = memory.places.at("flat:gradients");
  json::Object object{
      {"offset", gradients.offset}, {"bytes", gradients.bytes}, {"buckets", json::Array(buckets)}};
  if (auto sums = memory.places.find("flat:gradient_sums"); sums != memory.places.end()) {
    object["sums"] = sums->second.offset;
  }
  return object;
}
