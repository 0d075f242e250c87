// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the entries of a plan on a device.
#pragma once

#include "sluice/Runtime/Data/Inputs.h"
#include "sluice/Runtime/Device/Device.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

/// Returns the number of processors that this process may use, at least 1.
int availableThreads();

/// Access of a caller to numbers in the arena. After Edit, the numbers are uploaded to the device
/// before the next entry runs.
enum class Access { Read, Edit };

/// Runs a plan on a device for a caller on the host. Spans point into the host's copy of the arena
/// (on the CPU, the arena itself). The contents of a returned span are current until the next
/// `run`. Not thread-safe.
class Executor {
public:
  /// Runs on the CPU. `threads` >= 1.
  Executor(std::shared_ptr<const Artifact> artifact, int threads);
  explicit Executor(std::unique_ptr<Device> device);
  ~Executor();
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  /// Checks for a scale whose rows are segments with data-dependent boundaries.
  bool hasSegments() const;
  const Artifact &artifact() const { return device->artifact(); }
  const Plan &plan() const { return device->plan(); }
  int threads() const { return device->threads(); }
  /// Returns the target of the code that runs: cpu-avx512, sm_90a.
  std::string target() const { return device->target(); }
  /// Returns a description of the device for people: "NVIDIA H200", "4 threads".
  std::string describeDevice() const { return device->describe(); }

  /// Selects the factor for the entries `gradient`, `evaluate` and `predict` of a model whose steps
  /// draw their factor. Without a value, selects the factor of generation. Throws UserError if the
  /// plan does not have this factor.
  void chooseFactor(std::optional<int64_t> factor);
  /// Returns the selected factor, initially the factor of generation; 0 if steps draw no factor.
  int64_t factor() const { return chosenFactor; }
  /// Checks for a decode step with the selected factor.
  bool hasStep() const;

  /// Returns the launches that `run` executes for an entry. Throws UserError if the entry does not
  /// exist.
  const std::vector<Launch> &getLaunches(const std::string &entry) const {
    return find(entry).second;
  }

  /// Runs the launches of an entry in order. Throws UserError if the artifact has no such entry,
  /// and JobError if a text has more segments than the model has rows for. On a GPU it may return
  /// before the launches finish; accessors of results wait.
  void run(const std::string &entry);
  /// Performs update `step` of the weights from full batches. For each batch i it calls `fill(i)`,
  /// which writes the inputs, and runs the entry `gradient`; gradients and losses are summed. Then
  /// it runs the entry `update`. If the padding of all batches must be counted first, `fill` is
  /// called one additional time per batch.
  void runUpdate(int64_t step, const std::function<void(int64_t batch)> &fill);
  /// Waits until all launches have finished.
  void synchronize() { device->synchronize(); }

  /// Updates the values that kernels derive from tensors (entry `prepare`). Call it after the host
  /// has written tensors. Does nothing if the plan has no such entry.
  void prepare();

  /// Returns a scalar that the host writes (length, rows, step, seed). The next `run` reads its
  /// value at that time. Throws UserError if the plan has no scalar of this name and type.
  int64_t &scalarI64(const std::string &name);
  /// Return scalars that entries write. They throw as scalarI64 does.
  int32_t scalarI32(const std::string &name);
  float scalarF32(const std::string &name);

  /// Rows of an axis of segments in the last run.
  struct SegmentRows {
    std::string axis;
    std::vector<int64_t> computed; ///< for each text of the batch
    int64_t most = 0;              ///< rows that memory has for each text
  };
  std::vector<SegmentRows> segmentRows();

  /// Returns the number of rows of segments in the bucket of the last batch: the smallest bucket
  /// that suffices for this batch and all earlier ones. 0: the model's full capacity.
  int64_t room() const {
    return bucket < plan().memoryBuckets.size() ? plan().memoryBuckets[bucket].rows : 0;
  }

  /// Returns `tokens` [batch, context + 1], row-major, for the host to write. The next `run` of an
  /// entry that reads tokens uses its values at that time. Throws UserError if the plan's input has
  /// another shape.
  std::span<int32_t> tokens();
  /// Returns `tokens` and the named inputs, for the host to write likewise.
  BatchInputs inputs();
  /// Returns `prompt` [context + 1], for the host to write before `prefill`. This and the next two
  /// functions throw UserError if the plan has no such input.
  std::span<int32_t> prompt();
  /// Returns the named inputs of `prompt`, one row.
  BatchInputs promptInputs();
  /// Returns the number of tokens of a named input for each row of generation. The host writes it
  /// before `step`.
  std::span<int64_t> textCounts(const std::string &name);
  /// Returns `text` [rows of generation, context + 1], row-major: the tokens that each row has
  /// read. The host appends the next token before `step`.
  std::span<int32_t> text();
  /// Returns `take` [rows of generation], for the host to write before `prefill` (the number of
  /// prompt tokens for the one row that reads the prompt; -1: its named inputs only), `step` (1:
  /// append the row's next token) and `reset` (1: clear the row). 0 leaves a row unchanged.
  std::span<int64_t> take();
  /// Returns the bytes of row `row` in `state`, in the layout of the arena.
  std::span<uint8_t> stateRow(const State &state, int64_t row, Access access);
  /// Returns row `row` of an f32 output of shape [rows, width]: `width` elements.
  std::span<const float> outputRow(const std::string &name, int64_t row);

  std::span<float> tensor(const Tensor &tensor, Access access = Access::Edit);
  std::span<float> gradient(const Tensor &tensor, Access access = Access::Edit);
  /// Returns the optimizer state `name` of a tensor, which has the tensor's size.
  std::span<float> state(const Tensor &tensor, const std::string &name,
                         Access access = Access::Edit);

  /// Starts to measure each launch, from zero. On the CPU this costs two clock reads per launch; on
  /// a GPU launches are serialized.
  void startTiming() { device->startTiming(); }
  void stopTiming() { device->stopTiming(); }
  /// Returns the time of each kernel, in the plan's order.
  const std::vector<KernelTime> &times() const { return device->times(); }

private:
  const std::pair<const std::string, std::vector<Launch>> &find(const std::string &entry) const;
  const Scalar &scalar(const std::string &name, Type type) const;
  template <typename T> T fetchScalar(const std::string &name, Type type);
  const Region &input(const std::string &name, Type type,
                      std::initializer_list<int64_t> shape) const;
  std::span<int32_t> tokensIn(const std::string &name, int64_t rows);
  std::map<std::string, BatchInputs::Given> givenIn(const std::string &prefix, int64_t rows);
  std::span<int64_t> countsIn(const std::string &name, int64_t rows);
  std::span<uint8_t> bytes(MemoryRange range, Access access);
  std::span<float> floats(int64_t offset, int64_t count, Access access);
  void sendInputs(const std::string &entry);
  /// Rows that the segments of a batch row need, and the rows that are available.
  struct Totals {
    int32_t needed, rows;
  };
  /// Returns the totals of the first `rows` rows of the batch.
  std::vector<Totals> computeTotals(const SegmentFacts &segments, int64_t rows);
  void countPadding(bool isMore);
  void addWeights(bool isMore);
  void requireRoom(const std::string &entry);
  /// Runs an entry over a bucket's memory until the segments of the batch are counted, and the
  /// remaining launches if the bucket suffices. Otherwise selects a larger bucket and returns true:
  /// the entry must run again.
  bool needsMore(const std::string &entry, const std::vector<Launch> &launches);

  std::unique_ptr<Device> device;
  int64_t chosenFactor = 0;
  size_t bucket = 0;               ///< index in the plan's buckets; their number: the full capacity
  std::vector<MemoryRange> edited; ///< ranges to upload before the next run
  std::map<std::string, double> weightSums; ///< sums over the batches of an update, by scalar
  std::map<std::string, int64_t> sent;      ///< values of host scalars on the device
  std::set<std::string> fetched;            ///< outputs that were downloaded since the last run
};

} // namespace sluice::runtime
