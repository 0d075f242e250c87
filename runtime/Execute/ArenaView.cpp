// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Execute/ArenaView.h"

#include "sluice/Runtime/Plan/BatchShapes.h"
#include "sluice/Support/Error.h"

#include <algorithm>
#include <cstring>

namespace sluice::runtime {

ArenaView::ArenaView(std::unique_ptr<Device> given)
    : device(std::move(given)), chosenShape(getBatchShape(device->plan(), 0)) {}
ArenaView::~ArenaView() = default;

/// Throws UserError if the plan has no scalar of this name and type.
static const Scalar &findScalar(const Artifact &artifact, const Plan &plan, const std::string &name,
                                Type type) {
  auto found = plan.scalars.find(name);
  if (found == plan.scalars.end() || found->second.type != type) {
    throw UserError(artifact.path() + ": expected the scalar \"" + name + "\" of type " +
                    std::string(getTypeName(type)) + ", found " +
                    (found == plan.scalars.end()
                         ? "none"
                         : "type " + std::string(getTypeName(found->second.type))) +
                    "; compile the spec again");
  }
  return found->second;
}

int64_t &ArenaView::scalarI64(const std::string &name) {
  uint8_t *at = device->host() + findScalar(artifact(), plan(), name, Type::i64).offset;
  sent.try_emplace(name, 0); // the arena is initialized with zeros
  return *reinterpret_cast<int64_t *>(at);
}

void ArenaView::fetch(const Scalar &scalar, void *into, size_t bytes) {
  device->download({scalar.offset, static_cast<int64_t>(bytes)});
  std::memcpy(into, device->host() + scalar.offset, bytes);
}

int32_t ArenaView::scalarI32(const std::string &name) {
  int32_t value;
  fetch(findScalar(artifact(), plan(), name, Type::i32), &value, sizeof value);
  return value;
}

float ArenaView::scalarF32(const std::string &name) {
  float value;
  fetch(findScalar(artifact(), plan(), name, Type::f32), &value, sizeof value);
  return value;
}

std::vector<int32_t> ArenaView::scalarsI32(const std::string &name, size_t count) {
  std::vector<int32_t> values(count);
  fetch(findScalar(artifact(), plan(), name, Type::i32), values.data(), count * sizeof(int32_t));
  return values;
}

std::vector<int64_t> ArenaView::scalarsI64(const std::string &name, size_t count) {
  std::vector<int64_t> values(count);
  fetch(findScalar(artifact(), plan(), name, Type::i64), values.data(), count * sizeof(int64_t));
  return values;
}

void ArenaView::setScalarF32(const std::string &name, float value) {
  int64_t offset = findScalar(artifact(), plan(), name, Type::f32).offset;
  std::memcpy(device->host() + offset, &value, sizeof value);
  if (!device->sharesMemory()) {
    device->upload({offset, sizeof value});
  }
}

void ArenaView::sendEdits() {
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
}

/// Checks for numbers per row of a batch that has not the capacities of the model.
static bool hasShape(const ArenaView &view, const Region &region) {
  const ModelFacts &model = view.plan().model;
  return view.shape().parts > 1 && region.shape == std::vector{model.batch, model.context};
}

/// Returns the rows of an output of rank 2.
static int64_t countRows(const ArenaView &view, const Region &region) {
  return hasShape(view, region) ? view.shape().rows : region.shape[0];
}

std::span<const float> ArenaView::outputRow(const std::string &name, int64_t row) {
  auto found = plan().outputs.find(name);
  if (found == plan().outputs.end() || found->second.type != Type::f32 ||
      found->second.shape.size() != 2 || row < 0 || row >= countRows(*this, found->second)) {
    throw UserError(artifact().path() + ": expected the output \"" + name + "\", f32 with a row " +
                    std::to_string(row) + ", found none like it; compile the spec again");
  }
  const Region &region = found->second;
  bool isSmaller = hasShape(*this, region);
  int64_t width = isSmaller ? shape().context : region.shape[1],
          stride = (isSmaller ? width : region.rowStride) * static_cast<int64_t>(sizeof(float));
  if (!device->sharesMemory() && fetched.insert(name).second) {
    int64_t last = (countRows(*this, region) - 1) * stride;
    device->download({region.offset, last + width * static_cast<int64_t>(sizeof(float))});
  }
  const auto *start =
      reinterpret_cast<const float *>(device->host() + region.offset + row * stride);
  return {start, static_cast<size_t>(width)};
}

std::span<uint8_t> ArenaView::bytes(MemoryRange range, Access access) {
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
std::span<float> ArenaView::floats(int64_t offset, int64_t count, Access access) {
  std::span<uint8_t> all = bytes({offset, count * static_cast<int64_t>(sizeof(float))}, access);
  return {reinterpret_cast<float *>(all.data()), static_cast<size_t>(count)};
}
std::span<uint8_t> ArenaView::stateRow(const State &state, int64_t row, Access access) {
  int64_t size = state.rowBytes();
  return bytes({state.region.offset + row * size, size}, access);
}
void ArenaView::copyState(const State &state, int64_t from, int64_t to, int64_t begin,
                          int64_t end) {
  if (!device->sharesMemory()) {
    sendEdits();
  }
  int64_t size = state.rowBytes(), source = state.region.offset + from * size;
  int64_t moved = (to - from) * size;
  int64_t slots = state.region.shape.size() < 2 ? 1 : state.region.shape[1], bytes = size / slots;
  if (end - begin >= slots) {
    device->copy({source, size}, source + moved);
    return;
  }
  while (begin < end) { // up to the last slot of the ring, then from the first one on
    int64_t slot = begin % slots, count = std::min(end - begin, slots - slot);
    device->copy({source + slot * bytes, count * bytes}, source + moved + slot * bytes);
    begin += count;
  }
}
std::span<float> ArenaView::tensor(const Tensor &tensor, Access access) {
  return floats(tensor.offset, tensor.elements(), access);
}
std::span<float> ArenaView::gradient(const Tensor &tensor, Access access) {
  return floats(tensor.gradient, tensor.elements(), access);
}
std::span<float> ArenaView::state(const Tensor &tensor, const std::string &name, Access access) {
  return floats(tensor.states.at(name), tensor.elements(), access);
}

} // namespace sluice::runtime
