// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of attention's verifiers for its relative position terms.
#pragma once

#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::dispatch {

/// Verifies D-025: terms have one row per step of the distance, with the columns of all heads.
/// `others` operands follow them.
template <typename Op> llvm::LogicalResult verifyTerms(Op op, size_t others);

/// Returns true if each gradient of a term has the rows of the term, and a table's gradient these
/// rows once per batch row.
bool fitsTerms(AttentionBackwardOp op);

} // namespace sluice::dispatch
