// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Explanations of modes that are not proved.
#pragma once

#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Proof/ProveModel.h"

namespace sluice {

/// Searches a mode that `violation` rejects for a leak, and sets the verdict's kind, location,
/// message and witness.
void explain(mlir::func::FuncOp function, const BoundViolation &violation, bool replay,
             CausalVerdict &verdict);

/// The end of messages about an exhausted budget.
inline constexpr const char *simplifyHint =
    "give factors and shifts common divisors and masks small constants, or allow more with "
    "--operations";

} // namespace sluice
