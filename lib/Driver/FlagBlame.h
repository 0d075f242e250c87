// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Explain/Verdict.h"
#include "sluice/Spec/Override.h"

namespace sluice::driver {

/// Names flags at the start of the message about a spec that is not proved: the flag that set the
/// value at the message's location, or all flags if the spec is proved without them. `changed` is
/// the spec with `settings` applied; `readOriginal` reads it without them.
void blameSettings(CausalVerdict &verdict, const std::string &changed,
                   const std::vector<spec::SpecOverride> &settings,
                   const std::function<std::optional<ParsedSpec>()> &readOriginal);

} // namespace sluice::driver
