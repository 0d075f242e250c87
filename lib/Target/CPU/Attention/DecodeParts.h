// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Results of decode-step attention, of one part of the keys and of all.
#pragma once

#include "Decode.h"

namespace sluice::cpu::attention {

/// Stores the sums of a query over this item's part of the keys to the workspace.
void storePartial(DecodeGenerator &d, const DecodeQuery &of);
/// Counts the arrival of the item. The last item that has keys merges the results of all.
void emitArrival(DecodeGenerator &d);
/// Stores the output and log-sum-exp of a query from its sums.
void storeResult(DecodeGenerator &d, const DecodeQuery &of);

} // namespace sluice::cpu::attention
