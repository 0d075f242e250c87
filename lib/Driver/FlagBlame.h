// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Spec/Override.h"

namespace sluice::driver {

/// Puts flags before the message of a spec that is not proved: the one that wrote the value at its
/// place, or all where the spec without them is proved. `changed` is the spec with `settings` put
/// in; `readOriginal` reads it without them.
void blameSettings(CausalVerdict &verdict, const std::string &changed,
                   const std::vector<spec::SpecOverride> &settings,
                   const std::function<std::optional<ParsedSpec>()> &readOriginal);

} // namespace sluice::driver
