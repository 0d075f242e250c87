// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Valid specs that this compiler does not take, and what a plan must not exceed. A user hears of
// either before anything is compiled.
#pragma once

#include "sluice/Spec/Spec.h"
#include "sluice/Target/Artifact.h"

namespace sluice::driver {

/// One message, with its place, for a valid spec that cannot be compiled; none where it can.
std::optional<spec::Diagnostic> findUnsupported(const spec::Model &model);

/// One message, with the place in the spec, for a kernel that needs more than the runtime takes
/// (sluice/Runtime/Limits.h); empty where none does.
std::string findExcess(mlir::ModuleOp module, const KernelSet &kernels);

/// The same of the memory that all kernels share; there is no one place.
std::string findExcess(const MemoryPlan &memory);

} // namespace sluice::driver
