// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A training step of an artifact on the emulator, with each kernel a subject of trials.
#pragma once

#include "Trial.h"
#include "sluice/Oracle/Footprint.h"
#include "sluice/Runtime/Plan/Artifact.h"

#include <memory>

namespace sluice::mutation {

/// The scalars of a launch.
struct Occasion {
  std::string name;
  oracle::Extent extent;
  int64_t step = 1;
  bool ofLengths = false; ///< only for kernels whose rows may be invalid
  bool inPlace = false;   ///< results of row passes replace operands where they may
  bool negative = false; ///< of a head: logits of a row are far below 0, the value of absent tokens
};

/// Occasions for a model of `context` tokens and `batch` sequences: all rows, then varying subsets.
/// The first tests the ends of memory, the others masks; lengths end in every sixteenth of 64 rows.
/// Kernels that depend on the step number run at the schedule's beginning, middle and end.
std::vector<Occasion> listOccasions(const runtime::Plan &plan);

/// One training step of a full batch. Results of the earlier kernels are in memory when a kernel is
/// visited.
class MutationStep {
public:
  MutationStep(const runtime::Artifact &artifact, std::string target);
  ~MutationStep();

  /// Calls `visit` with every kernel's first launch on every occasion, and then runs it. Throws
  /// std::runtime_error if a kernel has a violation.
  void run(const std::function<void(const Occasion &, const Subject &)> &visit);

private:
  class Dispatch;
  /// A launch on an occasion.
  struct Visit {
    const Occasion &occasion;
    const runtime::PlanKernel &kernel;
    mlir::Operation *op;
    std::shared_ptr<const std::vector<int64_t>> arguments;
  };
  int64_t &scalar(const std::string &name);
  void setScalars(const Occasion &occasion);
  Dispatch &getDispatch(int64_t kernel);
  std::vector<Occasion> occasionsFor(const runtime::Launch &launch);
  Visit getVisit(const runtime::Launch &launch, const Occasion &occasion);
  Subject getSubject(const Visit &visit);
  void addBuffers(const Visit &visit, bool later, std::vector<emulator::Buffer> &buffers);
  void addOperand(const Visit &visit, size_t operand, std::vector<emulator::Buffer> &buffers);
  void addResult(const Visit &visit, size_t operand, unsigned result, bool later,
                 std::vector<emulator::Buffer> &buffers);
  void poison(const Visit &visit);
  void lowerLogits(const Visit &visit);
  std::pair<const uint8_t *, uint64_t> getCounters(const Visit &visit) const;
  std::string compareWithOracle(const Visit &visit,
                                const std::vector<std::vector<uint8_t>> &before);

  const runtime::Artifact &artifact;
  const runtime::Plan &plan;
  std::string target;
  std::vector<Occasion> occasions;
  std::unique_ptr<uint8_t, void (*)(void *)> arena;
  std::map<std::string, std::shared_ptr<emulator::Emulator>> emulators;
  std::map<int64_t, std::unique_ptr<Dispatch>> dispatches;
};

} // namespace sluice::mutation
