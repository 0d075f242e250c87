// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Execute/InputView.h"

#include "sluice/Runtime/Data/Edges.h"
#include "sluice/Runtime/Data/Labels.h"
#include "sluice/Runtime/Data/Numbers.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <iterator>

namespace sluice::runtime {

/// Prefixes of the named inputs of a prompt and of generated texts.
static const std::string promptPrefix = "prompt.", textPrefix = "text.";

const Region &InputView::input(const std::string &name, Type type,
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

std::span<int32_t> InputView::tokensIn(const std::string &name, int64_t rows) {
  int64_t row = plan().model.context + 1;
  return {reinterpret_cast<int32_t *>(device->host() + input(name, Type::i32, {rows, row}).offset),
          static_cast<size_t>(rows * row)};
}
std::span<int32_t> InputView::tokens() {
  return {tokensIn("tokens", plan().model.batch).data(),
          static_cast<size_t>(shape().rows * (shape().context + 1))};
}
std::span<int32_t> InputView::prompt() { return tokensIn("prompt", 1); }
std::span<int32_t> InputView::text() { return tokensIn("text", plan().generationRows()); }

std::span<int64_t> InputView::countsIn(const std::string &name, int64_t rows) {
  return {reinterpret_cast<int64_t *>(device->host() + input(name, Type::i64, {rows}).offset),
          static_cast<size_t>(rows)};
}
std::span<int64_t> InputView::take() { return countsIn("take", plan().generationRows()); }

BatchInputs InputView::inputs() {
  BatchInputs all{tokens(), {}, {}};
  int64_t batch = plan().model.batch, context = plan().model.context;
  all.context = shape().context;
  if (plan().inputs.contains(paddingName)) {
    const Region &region = input(paddingName, Type::f32, {batch, context});
    all.padding = {reinterpret_cast<float *>(device->host() + region.offset),
                   static_cast<size_t>(shape().rows * shape().context)};
  }
  if (auto draws = plan().scalars.find("draw_rows"); draws != plan().scalars.end()) {
    all.drawRows = {reinterpret_cast<int64_t *>(device->host() + draws->second.offset),
                    static_cast<size_t>(shape().rows)};
  }
  all.given = givenIn("", batch);
  if (plan().inputs.contains(lengthsName)) {
    all.lengths = {countsIn(lengthsName, batch).data(), static_cast<size_t>(shape().rows)};
  }
  all.edges = edgesIn("", batch);
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

BatchInputs InputView::promptInputs() {
  BatchInputs all{prompt(), givenIn(promptPrefix, 1), {}};
  all.edges = edgesIn(promptPrefix, 1);
  return all;
}

std::span<int64_t> InputView::textCounts(const std::string &name) {
  return givenCounts(textPrefix + name + ".count", plan().generationRows());
}

std::span<int64_t> InputView::givenCounts(const std::string &name, int64_t rows) {
  if (plan().inputs.contains(name)) {
    return countsIn(name, rows);
  }
  unreadCounts[name].resize(static_cast<size_t>(rows));
  return unreadCounts[name];
}

std::map<std::string, BatchInputs::Given> InputView::givenIn(const std::string &prefix,
                                                             int64_t rows) {
  std::map<std::string, BatchInputs::Given> all;
  for (const auto &[name, given] : plan().given) {
    const Region &region = input(prefix + name, Type::i32, {rows, given.capacity});
    bool isOfBatch = prefix.empty();
    int64_t ownRows = isOfBatch ? shape().rows : rows,
            capacity =
                isOfBatch ? shape().given.at(given.on.empty() ? name : given.on) : given.capacity;
    all[name] = {capacity,
                 {reinterpret_cast<int32_t *>(device->host() + region.offset),
                  static_cast<size_t>(ownRows * capacity)},
                 {}};
    if (given.on.empty()) {
      all[name].counts = {givenCounts(prefix + name + ".count", rows).data(),
                          static_cast<size_t>(ownRows)};
    }
  }
  return all;
}

std::map<std::string, BatchInputs::EdgeLists> InputView::edgesIn(const std::string &prefix,
                                                                 int64_t rows) {
  std::map<std::string, BatchInputs::EdgeLists> all;
  for (const EdgeInput &edges : getEdgeInputs(plan())) {
    int64_t entries = 2 * edges.capacity;
    const Region &region =
        input(prefix + edgesInput(edges), Type::i32, {rows, edges.rows + entries});
    bool isOfBatch = prefix.empty();
    int64_t ownRows = isOfBatch ? shape().rows : rows,
            positions = isOfBatch ? shape().given.at(edges.axis) : edges.rows;
    all[edges.name] = {positions,
                       entries,
                       {reinterpret_cast<int32_t *>(device->host() + region.offset),
                        static_cast<size_t>(ownRows * (positions + entries))}};
  }
  return all;
}

void InputView::sendInputs(const std::string &entry) {
  auto send = [&](const std::string &name, size_t bytes) {
    device->upload({plan().inputs.at(name).offset, static_cast<int64_t>(bytes)});
  };
  bool isTrained = entry == "gradient" || entry == "count",
       isScored = isTrained || entry == "evaluate";
  if (std::span<int64_t> draws = inputs().drawRows; isTrained && !draws.empty()) {
    device->upload(
        {plan().scalars.at("draw_rows").offset, static_cast<int64_t>(draws.size_bytes())});
  }
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
  auto sendCounts = [&](const std::string &name, std::span<int64_t> counts) {
    if (plan().inputs.contains(name)) {
      send(name, counts.size_bytes());
    }
  };
  auto sendGiven = [&](const std::string &prefix, int64_t rows) {
    for (const auto &[name, given] : givenIn(prefix, rows)) {
      send(prefix + name, given.tokens.size_bytes());
      if (!given.counts.empty()) {
        sendCounts(prefix + name + ".count", given.counts);
      }
    }
    for (const EdgeInput &edges : getEdgeInputs(plan())) {
      send(prefix + edgesInput(edges), edgesIn(prefix, rows).at(edges.name).lists.size_bytes());
    }
  };
  if (entry == "prefill") {
    send("prompt", prompt().size_bytes());
    sendGiven(promptPrefix, 1);
  } else if (entry == "step") {
    send("text", text().size_bytes());
    for (const auto &[name, given] : plan().given) {
      if (given.on.empty()) {
        sendCounts(textPrefix + name + ".count", textCounts(name));
      }
    }
  } else if (isScored || entry == "predict") {
    send("tokens", tokens().size_bytes());
    if (plan().inputs.contains(lengthsName)) {
      send(lengthsName, inputs().lengths.size_bytes());
    }
    sendGiven("", plan().model.batch);
  }
}

} // namespace sluice::runtime
