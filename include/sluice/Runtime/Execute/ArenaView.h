// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Typed views of a device's arena for the host.
#pragma once

#include "sluice/Runtime/Device/Device.h"

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Access of a caller to numbers in the arena. After Edit, the numbers are uploaded to the device
/// before the next entry runs.
enum class Access { Read, Edit };

/// The scalars, tensors, states and outputs of a plan. Spans point into the host's copy of the
/// arena (on the CPU, the arena itself). The contents of a returned span are current until the next
/// entry runs. Accessors of results wait for launches. Not thread-safe.
class ArenaView {
public:
  explicit ArenaView(std::unique_ptr<Device> device);
  ~ArenaView();
  ArenaView(const ArenaView &) = delete;
  ArenaView &operator=(const ArenaView &) = delete;

  const Artifact &artifact() const { return device->artifact(); }
  const Plan &plan() const { return device->plan(); }

  /// Returns the shape of batches that the entries `gradient` and `evaluate`, the inputs of a batch
  /// and the outputs have; initially the capacities of the model.
  const BatchShape &shape() const { return chosenShape; }

  /// Returns a scalar that the host writes (length, rows, step, seed). The next `run` reads its
  /// value at that time. Throws UserError if the plan has no scalar of this name and type.
  int64_t &scalarI64(const std::string &name);
  /// Return scalars that entries write. They throw as scalarI64 does.
  int32_t scalarI32(const std::string &name);
  float scalarF32(const std::string &name);
  /// Return `count` adjacent scalars from `name` on.
  std::vector<int32_t> scalarsI32(const std::string &name, size_t count);
  std::vector<int64_t> scalarsI64(const std::string &name, size_t count);
  /// Writes a scalar on the device.
  void setScalarF32(const std::string &name, float value);

  /// Returns the bytes of row `row` in `state`, in the layout of the arena.
  std::span<uint8_t> stateRow(const State &state, int64_t row, Access access);
  /// Copies rows [begin, end) of a sequence in `state` from row `from` to row `to` of generation,
  /// on the device; the whole state if it stores no more rows than that.
  void copyState(const State &state, int64_t from, int64_t to, int64_t begin = 0,
                 int64_t end = std::numeric_limits<int64_t>::max());
  /// Returns row `row` of an f32 output of shape [rows, width]: `width` elements.
  std::span<const float> outputRow(const std::string &name, int64_t row);

  std::span<float> tensor(const Tensor &tensor, Access access = Access::Edit);
  std::span<float> gradient(const Tensor &tensor, Access access = Access::Edit);
  /// Returns the optimizer state `name` of a tensor, which has the tensor's size.
  std::span<float> state(const Tensor &tensor, const std::string &name,
                         Access access = Access::Edit);

protected:
  /// Uploads the scalars and edited ranges that the host wrote since the last run.
  void sendEdits();
  /// Discards the downloaded outputs: a run replaces them.
  void forgetOutputs() { fetched.clear(); }

  const std::unique_ptr<Device> device;
  BatchShape chosenShape;

private:
  void fetch(const Scalar &scalar, void *into, size_t bytes);
  std::span<uint8_t> bytes(MemoryRange range, Access access);
  std::span<float> floats(int64_t offset, int64_t count, Access access);

  std::vector<MemoryRange> edited;     ///< ranges to upload before the next run
  std::map<std::string, int64_t> sent; ///< values of host scalars on the device
  std::set<std::string> fetched;       ///< outputs that were downloaded since the last run
};

} // namespace sluice::runtime
