// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses the object "facts" of a plan.
#pragma once

#include "sluice/Runtime/Plan/SpecFacts.h"
#include "sluice/Support/StrictJson.h"

namespace sluice::runtime {

SpecFacts readSpecFacts(const StrictJson &json);

} // namespace sluice::runtime
