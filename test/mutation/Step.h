// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A training step of an artifact on the emulator, kernel by kernel, each a subject of trials.
#pragma once

#include "Trial.h"
#include "sluice/Replay/Footprint.h"
#include "sluice/Runtime/Artifact.h"

#include <memory>

namespace sluice::mutation {

/// The scalars of a step.
struct Occasion {
  std::string name;
  replay::Extent extent;
  int64_t step = 1;
};

/// Of a model of `context` tokens and `batch` sequences: all rows; some of some sequences; few rows
/// of all; one row. The ends of memory matter to the first, masks to the others; what depends on
/// the number of the step meets the beginning, middle and end of the schedule.
std::vector<Occasion> occasionsOf(const runtime::Plan &plan);

/// One training step. What the kernels of the step before it left is in memory when one is visited.
class Step {
public:
  Step(const runtime::Artifact &artifact, std::string target, const Occasion &occasion);
  ~Step();

  /// Calls `visit` with every kernel's first launch, and then runs it. Throws std::runtime_error
  /// where a kernel breaks a rule.
  void run(const std::function<void(const Subject &)> &visit);

private:
  class Dispatch;
  int64_t &scalar(const std::string &name);
  emulator::Emulator &emulatorOf(const Subject &subject, const std::string &stage);
  Dispatch &dispatchOf(int64_t kernel);
  Subject subjectOf(const runtime::Launch &launch);
  void addBuffers(const runtime::Launch &launch, bool only, bool later,
                  std::vector<emulator::Buffer> &buffers);
  void addResult(const runtime::Launch &launch, size_t operand, unsigned result, bool only,
                 bool later, std::vector<emulator::Buffer> &buffers);
  void poison(const runtime::Launch &launch);
  std::string judge(const runtime::Launch &launch, const std::vector<std::vector<uint8_t>> &before);

  const runtime::Artifact &artifact;
  const runtime::Plan &plan;
  std::string target;
  Occasion occasion;
  std::unique_ptr<uint8_t, void (*)(void *)> arena;
  std::map<std::string, std::unique_ptr<emulator::Emulator>> emulators;
  std::map<int64_t, std::unique_ptr<Dispatch>> dispatches;
};

} // namespace sluice::mutation
