// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The batches of an evaluation and their results, of one process or of several.
#pragma once

#include "sluice/Runtime/Execute/Evaluator.h"

namespace sluice::runtime {

/// Windows of one file that are computed together.
struct WindowBatch {
  size_t file = 0;
  std::span<const Window> windows;
};

/// The batches of an evaluation, file by file.
struct BatchList {
  std::vector<int64_t> sizes;               ///< tokens of each file that are read
  std::vector<std::vector<Window>> windows; ///< of each file
  std::vector<WindowBatch> batches;
};

/// Cuts the files into batches of at most `rows` windows. Windows of different lengths share a
/// batch only with `mayFill`.
BatchList listBatches(const std::vector<ByteFile> &files, const EvaluationOptions &options,
                      size_t rows, int64_t unscored, bool mayFill);

/// The numbers that the entry `evaluate` computes for a batch of windows: for each output that an
/// evaluation reads, and each window, as many as the window has tokens.
class BatchNumbers {
public:
  /// Their number depends on the plan and the windows alone, so all processes know it.
  BatchNumbers(const Plan &plan, std::span<const Window> windows);

  /// Copies the results of the batch that the executor ran last.
  void read(Executor &executor);
  /// Returns the numbers of window `row`.
  std::span<const float> row(const std::string &output, size_t row) const;
  std::span<uint8_t> bytes();

private:
  std::vector<std::string> outputs;
  std::vector<size_t> starts; ///< of each window in an output's numbers, and their end
  std::vector<float> numbers; ///< output by output
};

/// Returns the number of batches in a round: one for each process.
size_t countShares(const ProcessGroup *group);

/// Computes a round of at most countShares(group) batches: process r calls `run(r)`, which runs
/// batch r, and receives the numbers of all. Throws PeerError if a process failed.
void computeRound(Executor &executor, std::span<BatchNumbers> round, ProcessGroup *group,
                  const std::function<void(size_t)> &run);

} // namespace sluice::runtime
