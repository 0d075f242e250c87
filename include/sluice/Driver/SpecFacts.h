// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Facts of a spec for programs that only have the spec, such as the spec of a run. This header uses
// no MLIR.
#pragma once

#include "sluice/Runtime/Plan/Plan.h"
#include "sluice/Spec/Override.h"

namespace sluice::driver {

/// Facts of a spec as in the plan of its artifact.
struct SpecDescription {
  runtime::ModelFacts model;
  runtime::SpecFacts facts;
  int64_t accumulate = 1;                  ///< batches of an update
  int64_t batchTokens = 0;                 ///< most tokens of a batch of lines by length; else 0
  std::vector<runtime::BatchShape> shapes; ///< of these batches
  bool predicts = true;                    ///< has a head; else it ends in a contrast
  bool isCyclic = false;                   ///< each epoch shifts every text around its end
};

/// A trained tensor of a spec.
struct SpecWeight {
  std::string name;
  std::vector<int64_t> shape;
  /// Head size, if the rows are queries or keys that `rotary` rotates; else 0.
  int64_t rotatedHead = 0;
};

/// Returns the trained tensors of a spec in memory with `settings` applied, in the order of the
/// plan of its artifact; none if it is not valid.
std::optional<std::vector<SpecWeight>> listWeights(const std::string &text,
                                                   const std::vector<spec::SpecOverride> &settings);

/// Returns the error of a spec in memory with `settings` applied; none if it is valid.
std::optional<spec::Diagnostic> findSpecError(const std::string &text, const std::string &file,
                                              const std::vector<spec::SpecOverride> &settings);

/// Describes a spec in memory with `settings` applied; none if it is not valid.
std::optional<SpecDescription> describeSpecText(const std::string &text,
                                                const std::vector<spec::SpecOverride> &settings);

/// Reads the spec at `path` without compiling it; none if the file is not a valid spec. Throws
/// JobError if the file cannot be read because of a system failure.
std::optional<SpecDescription> describeSpec(const std::string &path);

} // namespace sluice::driver
