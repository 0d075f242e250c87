// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the entries of a plan on a device.
#pragma once

#include "sluice/Runtime/Device.h"
#include "sluice/Runtime/Inputs.h"

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

/// Processors that this process may use, at least 1.
int availableThreads();

/// What a caller does with numbers of the arena: Edit means that the device takes them back before
/// the next entry runs.
enum class Access { Read, Edit };

/// A plan on a device, seen from the host. Spans show the host's copy of the arena (on the CPU, the
/// arena itself): what a call returns is current, and stays so until the next `run`. An executor is
/// used by one thread at a time.
class Executor {
public:
  /// On the CPU; `threads` >= 1.
  Executor(std::shared_ptr<const Artifact> artifact, int threads);
  explicit Executor(std::unique_ptr<Device> device);
  ~Executor();
  Executor(const Executor &) = delete;
  Executor &operator=(const Executor &) = delete;

  /// Whether some scale's rows are segments that data decides.
  bool hasSegments() const;
  const Artifact &artifact() const { return device->artifact(); }
  const Plan &plan() const { return device->plan(); }
  int threads() const { return device->threads(); }
  /// Whose code runs: cpu-avx512, sm_90a.
  std::string target() const { return device->target(); }
  /// For people: "NVIDIA H200", "4 threads".
  std::string describeDevice() const { return device->describe(); }

  /// Of a model whose steps draw their factor: entries `gradient`, `evaluate` and `predict` are
  /// those of this one from now on; of none, of that of generation. Throws UserError where it is
  /// none of the plan's.
  void chooseFactor(std::optional<int64_t> factor);
  /// The one chosen, at first that of generation; 0 where steps draw none.
  int64_t factor() const { return chosenFactor; }
  /// Whether there is a step that generates with the factor that is chosen.
  bool hasStep() const;

  /// The launches that `run` runs of an entry. Throws UserError where there are none.
  const std::vector<Launch> &launchesOf(const std::string &entry) const {
    return find(entry).second;
  }

  /// Runs an entry's launches in order. Throws UserError where the artifact has no such entry, and
  /// JobError where a text has more segments than the model has rows for. On a GPU it may return
  /// before they are done: what reads results waits.
  void run(const std::string &entry);
  /// Update `step` of the weights, of whole batches: for each `fill(i)`, which writes its inputs,
  /// and entry `gradient`; their gradients and losses are summed; then entry `update`. Where the
  /// padding of all batches is to be counted, `fill` is called once more for each, before.
  void runUpdate(int64_t step, const std::function<void(int64_t batch)> &fill);
  /// Waits until all that was run is done.
  void synchronize() { device->synchronize(); }

  /// To be called after the host has written tensors: brings what kernels keep of them up to date
  /// (entry `prepare`). Does nothing where the plan has no such entry.
  void prepare();

  /// A scalar that the host writes (length, rows, step, seed): the next `run` sees what it holds by
  /// then. Throws UserError where the plan has none of this name and type.
  int64_t &scalarI64(const std::string &name);
  /// Scalars that entries write. They throw as above.
  int32_t scalarI32(const std::string &name);
  float scalarF32(const std::string &name);

  /// Rows of an axis of segments, as the last run had them.
  struct SegmentRows {
    std::string axis;
    std::vector<int64_t> computed; ///< of each text of the batch
    int64_t most = 0;              ///< of a text, that memory has
  };
  std::vector<SegmentRows> segmentRows();

  /// Rows of segments that the memory of the last run of a batch has room for, the least that its
  /// texts and those of all runs before needed; 0: as many as the model has.
  int64_t room() const {
    return bucket < plan().memoryBuckets.size() ? plan().memoryBuckets[bucket].rows : 0;
  }

  /// `tokens` [batch, context + 1], row-major, for the host to write: the next `run` of an entry
  /// that reads tokens sees what they hold by then. Throws UserError where the plan's input has
  /// another shape.
  std::span<int32_t> tokens();
  /// `tokens`, and the named inputs beside them, for the host to write likewise.
  BatchInputs inputs();
  /// `prompt` [context + 1], for the host to write before `prefill`. This and the next two throw
  /// UserError where the plan has no such input.
  std::span<int32_t> prompt();
  /// The named inputs that belong to `prompt`, one row.
  BatchInputs promptInputs();
  /// By row of generation, how many tokens of a named input belong to its text: for the host to
  /// write before `step`.
  std::span<int64_t> textCounts(const std::string &name);
  /// `text` [rows of generation, context + 1], row-major: what each row has read. The host writes
  /// the next token before `step`.
  std::span<int32_t> text();
  /// `take` [rows of generation], for the host to write before `prefill` (tokens of the prompt, for
  /// the one row that reads it; -1: its named inputs alone), `step` (1: append the row's next
  /// token) and `reset` (1: clear the row); 0 leaves a row alone.
  std::span<int64_t> take();
  /// What generation keeps of row `row` in `state`, as it lies in the arena.
  std::span<uint8_t> stateRow(const State &state, int64_t row, Access access);
  /// Row `row` of an f32 output of shape [rows, width]: `width` elements.
  std::span<const float> outputRow(const std::string &name, int64_t row);

  std::span<float> tensor(const Tensor &tensor, Access access = Access::Edit);
  std::span<float> gradient(const Tensor &tensor, Access access = Access::Edit);
  /// Optimizer state `name` of a tensor, as long as the tensor.
  std::span<float> state(const Tensor &tensor, const std::string &name,
                         Access access = Access::Edit);

  /// Measures each launch from now on, starting from zero: two clock reads a launch on the CPU; on
  /// a GPU launches then go one by one.
  void startTiming() { device->startTiming(); }
  void stopTiming() { device->stopTiming(); }
  /// Time by kernel, in the plan's order.
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
  std::span<uint8_t> bytes(Range range, Access access);
  std::span<float> floats(int64_t offset, int64_t count, Access access);
  void sendInputs(const std::string &entry);
  /// Of a row: rows that its segments need, and rows that there are.
  struct Totals {
    int32_t needed, rows;
  };
  /// Of the first `rows` rows.
  std::vector<Totals> totalsOf(const SegmentFacts &segments, int64_t rows);
  void countPadding(bool isMore);
  void addWeights(bool isMore);
  void requireRoom(const std::string &entry);
  /// Runs an entry over a bucket's memory up to where the segments of a batch are counted, and the
  /// rest where there is room for them. Else gives more room, and says so: the entry is to be run
  /// again.
  bool needsMore(const std::string &entry, const std::vector<Launch> &launches);

  std::unique_ptr<Device> device;
  int64_t chosenFactor = 0;
  size_t bucket = 0;         ///< of the plan's, or their number: all rows that there are
  std::vector<Range> edited; ///< ranges to give back at the next run
  std::map<std::string, double> weightSums; ///< of an update, by scalar
  std::map<std::string, int64_t> sent;      ///< host scalars as the device has them
  std::set<std::string> fetched;            ///< outputs fetched since the last run
};

} // namespace sluice::runtime
