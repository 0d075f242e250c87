// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Valid specs that this compiler does not take.
#pragma once

#include "sluice/Spec/Spec.h"

namespace sluice::driver {

/// One message, with its place, for a valid spec that cannot be compiled; none where it can.
std::optional<spec::Diagnostic> findUnsupported(const spec::Model &model);

} // namespace sluice::driver
