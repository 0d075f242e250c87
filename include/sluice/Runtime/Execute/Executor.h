// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the entries of a plan on a device.
#pragma once

#include "sluice/Runtime/Data/Data.h"
#include "sluice/Runtime/Execute/InputView.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::runtime {

class ProcessGroup;
class ScoredRows;
class SharedUpdate;
class WeightSums;
class CountedRows;

/// Returns the number of processors that this process may use, at least 1.
int availableThreads();

/// A batch of an update by several processes.
struct UpdateBatch {
  int64_t rank = 0, batch = 0;
  float value = 0; ///< its loss, or the largest absolute value of its gradients
};

/// Results of an update by several processes; empty with one process.
struct UpdateReport {
  /// The first batch of each rank with a loss that is not finite, by rank; empty on GPUs.
  std::vector<UpdateBatch> notFinite;
  /// If the update changed nothing, as a number is not finite, and `notFinite` is empty: for each
  /// rank its first batch with a gradient that is not finite or, if there is none, its batch with
  /// the largest gradient. These gradients were computed once more.
  std::vector<UpdateBatch> largest;
  /// From the end of the last backward pass to the first launch of `update`, the maximum over the
  /// processes, of the update before: they learn it in the next one. None in the first update, and
  /// on GPUs.
  std::optional<double> exchangeSeconds;
};

/// Runs a plan on a device for a caller on the host. Not thread-safe.
class Executor : public InputView {
public:
  /// Runs on the CPU. `threads` >= 1.
  Executor(std::shared_ptr<const Artifact> artifact, int threads);
  explicit Executor(std::unique_ptr<Device> device);
  ~Executor();

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

  /// Sets the shape, rows and length of the next batch; without a value, a full batch of the model.
  void chooseBatch(const std::optional<BatchSize> &size);

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
  /// which writes the inputs, and may choose the batch's size before, and runs the entry
  /// `gradient`; gradients and losses are summed. Then it runs the entry `update`. If the scored
  /// rows of all batches must be counted first, `fill` is called one additional time per batch. In
  /// a `group` of P processes, each computes every P-th batch, and `fill` fills all; throws
  /// PeerError and, if a signal ends the update before the weights change, UpdateBroken.
  UpdateReport runUpdate(int64_t step, const std::function<void(int64_t batch)> &fill,
                         ProcessGroup *group = nullptr);
  /// Joins the devices of a group for its updates, which `runUpdate` does otherwise. With
  /// `shardsState` each process stores the optimizer's state of its own part of the weights alone.
  /// Throws UserError if the device or the plan does not allow it.
  SharedUpdate &share(ProcessGroup &group, bool shardsState = false);
  /// Waits until all launches have finished.
  void synchronize() { device->synchronize(); }

  /// Updates the values that kernels derive from tensors (entry `prepare`). Call it after the host
  /// has written tensors. Does nothing if the plan has no such entry.
  void prepare();

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

  /// Starts to measure each launch, from zero. On the CPU this costs two clock reads per launch; on
  /// a GPU launches are serialized.
  void startTiming() { device->startTiming(); }
  void stopTiming() { device->stopTiming(); }
  /// Returns the time of each kernel, in the plan's order.
  const std::vector<KernelTime> &times() const { return device->times(); }

private:
  const std::pair<const std::string, std::vector<Launch>> &find(const std::string &entry) const;
  /// Runs an entry over a bucket's memory until the segments of the batch are counted, and the
  /// remaining launches if the bucket suffices. Otherwise selects a larger bucket and returns true:
  /// the entry must run again.
  bool needsMore(const std::string &entry, const std::vector<Launch> &launches);

  int64_t chosenFactor = 0;
  size_t shapeNumber = 0;
  bool isQuantized = false; ///< the entry `quantize` has run since tensors changed
  size_t bucket = 0;        ///< index in the plan's buckets; their number: the full capacity
  std::unique_ptr<ScoredRows> scoredRows;
  std::unique_ptr<WeightSums> weightSums;
  std::unique_ptr<CountedRows> countedRows;
  std::unique_ptr<SharedUpdate> shared; ///< null without a group
};

} // namespace sluice::runtime
