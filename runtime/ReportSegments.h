// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A report's part about segments.
#pragma once

#include "sluice/Runtime/Report.h"

#include <sstream>

namespace sluice::runtime {

/// A text with its boundaries, and how many segments have which length; nothing where `shown` is
/// empty.
void writeSegments(std::ostringstream &out, const ShownSegments &shown);

} // namespace sluice::runtime
