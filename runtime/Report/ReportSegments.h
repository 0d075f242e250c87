// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of a report about segments.
#pragma once

#include "sluice/Runtime/Report/Report.h"

#include <sstream>

namespace sluice::runtime {

/// Writes a text with its boundaries, and a histogram of the lengths of segments; nothing if
/// `shown` is empty.
void writeSegments(std::ostringstream &out, const ShownSegments &shown);

} // namespace sluice::runtime
