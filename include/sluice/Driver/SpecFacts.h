// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The facts of a spec for programs that have the spec alone, such as a run's. No MLIR in this
// header.
#pragma once

#include "sluice/Runtime/Plan/Plan.h"
#include "sluice/Spec/Override.h"

namespace sluice::driver {

/// A spec as the plan of its artifact would have it.
struct SpecDescription {
  runtime::ModelFacts model;
  runtime::SpecFacts facts;
};

/// Returns the error of a spec in memory with `settings` applied; none where it is valid.
std::optional<spec::Diagnostic> findSpecError(const std::string &text, const std::string &file,
                                              const std::vector<spec::SpecOverride> &settings);

/// Reads the spec at `path`, without compiling it; none where the file is no valid spec. Throws
/// JobError where the machine cannot read.
std::optional<SpecDescription> describeSpec(const std::string &path);

} // namespace sluice::driver
