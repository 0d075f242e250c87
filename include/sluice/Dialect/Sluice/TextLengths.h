// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Dialect/Sluice/Fusion.h"

namespace sluice {

/// Stores as `length.AXIS` the number of rows of each text that the host passes for the axis of
/// `type`: a given axis, or the tokens of lines.
void storeTextLengths(llvm::StringRef axis, SequenceType type, DispatchEmitter &emitter);

} // namespace sluice
