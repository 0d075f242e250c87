// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The decode step of LSH attention.
#pragma once

#include "HashedSlots.h"

namespace sluice::hashed {

/// Emits the dispatches of a decode step.
LogicalResult emitHashedStep(HashedAttentionOp op, DispatchEmitter &emitter);

} // namespace sluice::hashed
