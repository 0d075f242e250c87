// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Predicts the time of a training step on several processes from the plan of one.
// docs/scaling.md has the formulas.
#pragma once

#include "sluice/Runtime/Plan/Plan.h"

#include <string>
#include <vector>

namespace sluice::runtime {

/// A process and its network; all but the latency are per second.
struct ScaleMachine {
  double flops = 0;     ///< operations of a process; 0: unknown
  double memory = 0;    ///< bytes that launches of a process move; 0: no limit
  double bandwidth = 0; ///< bytes that a process sends while it receives as many
  double latency = 0;   ///< seconds of a message without contents
};

/// A measured training step of one process.
struct MeasuredStep {
  int64_t rows = 0;
  double seconds = 0;
};

struct ScaleOptions {
  /// Rows of a step: of all processes together, or of each one if `isWeak`. 0: the plan's.
  int64_t rows = 0;
  bool isWeak = false;
  bool overlaps = false; ///< each bucket is exchanged during the rest of the backward pass
  int64_t buckets = 0;   ///< equal parts of the gradients; 0: the plan's buckets
  std::vector<MeasuredStep> steps;
};

/// Seconds of one process without communication.
struct ScaleCosts {
  double forward = 0, backward = 0; ///< of a row
  double update = 0;                ///< of the optimizer, whose work sharding divides
  double sum = 0;                   ///< of adding the gradients of a batch to their sums
  double other = 0;                 ///< measured, in addition to the above
  double efficiency = 0;            ///< counted by measured seconds; 0: not measured
};

/// A range of the gradients that one collective reduces.
struct ScaleBucket {
  int64_t bytes = 0;
  double ready = 1; ///< share of the backward pass after which its gradients are complete
};

/// The prediction for a number of processes; times in seconds.
struct ScalePoint {
  int64_t processes = 1;
  int64_t rows = 0;           ///< of each process
  double compute = 0;         ///< forward and backward pass, sums of batches, other work
  double backward = 0;        ///< part of `compute`
  double update = 0;          ///< of the optimizer, unsharded
  double allReduce = 0;       ///< all buckets one after the other
  double exposed = 0;         ///< part of `allReduce` after the backward pass
  double agreement = 0;       ///< exchanges of the processes' states
  double step = 0;            ///< complete
  double shardedStep = 0;     ///< complete, with a sharded state of the optimizer
  double sentBytes = 0;       ///< of each process
  double memoryBytes = 0;     ///< of a process in training
  double savedBytes = 0;      ///< that sharding saves of these
  double tokensPerSecond = 0; ///< of all processes
  double efficiency = 1;      ///< tokens a second and process, compared with one process
};

/// Blocks of layers with one shape, and the bytes that collectives on them reduce or gather.
struct ScaleBlocks {
  std::string axis;                        ///< "tokens", or the name of an input or of segments
  int64_t factor = 1, rows = 0, width = 0; ///< tokens of a row; rows of a text; columns
  int64_t attention = 0, feedForward = 0;  ///< numbers of blocks
  int64_t tensorBytes = 0;   ///< of a text and block: its result, reduced in each pass
  int64_t sequenceBytes = 0; ///< of a text and attention: keys and values, gathered forward
};

/// Seconds and bytes that a process spends on collectives inside the passes of a step.
struct ScaleTraffic {
  double seconds = 0, sentBytes = 0;
};

/// Predicts steps of a plan. The plan must outlive the model.
class ScaleModel {
public:
  /// Throws UserError if the plan has no operations of a training step, or the measured steps do
  /// not take longer with more rows.
  ScaleModel(const Plan &plan, const ScaleMachine &machine, const ScaleOptions &options);

  /// Throws UserError if the processes do not divide the rows.
  ScalePoint predict(int64_t processes) const;

  int64_t rows() const { return stepRows; }
  const ScaleCosts &costs() const { return cost; }
  const std::vector<ScaleBucket> &buckets() const { return parts; }
  /// Returns the bytes of the optimizer's state.
  int64_t stateBytes() const;

  /// Returns the blocks of all layers; empty if the plan has no facts of a spec.
  std::vector<ScaleBlocks> listBlocks() const;
  /// Returns the collectives of tensor parallelism for a step of rows() rows.
  ScaleTraffic predictTensorParallel(int64_t processes) const;
  /// Returns the collectives of sequence parallelism for a step of rows() rows.
  ScaleTraffic predictSequenceParallel(int64_t processes) const;

private:
  void countCosts();
  void calibrate(const std::vector<MeasuredStep> &steps);
  void divideGradients(int64_t count);
  /// Batches of the plan's size that so many rows take.
  int64_t countBatches(int64_t rows) const;
  /// Seconds in which a process adds up its part of the gradients of the batches of all processes.
  double sumBatches(int64_t rounds, int64_t processes) const;
  /// Seconds of one half of an all-reduce: every process sends a part of `bytes` to each other one.
  double exchange(double bytes, int64_t processes) const;
  /// Seconds after a backward pass until all buckets are done, each of which takes `seconds`.
  double expose(const std::vector<double> &seconds, double backward) const;

  const Plan &plan;
  const ScaleMachine machine;
  const bool isWeak, overlaps;
  int64_t stepRows = 0;
  ScaleCosts cost;
  std::vector<ScaleBucket> parts; // in the order in which they are complete
};

} // namespace sluice::runtime
