// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A session's description: the JSON in its file's metadata.
#pragma once

#include "StrictJson.h"
#include "sluice/Runtime/Session.h"

namespace sluice::runtime {

inline const std::string sessionRemedy =
    "; give a session that this version saved, or begin anew without it";

nlohmann::json describe(const SamplingOptions &options);

/// Throws UserError unless the JSON has the members of a session, in this version.
void requireSession(const StrictJson &json);

/// Reads the text, how it is sampled, and the window that states have seen. Throws UserError where
/// these cannot be of `plan`; whose states they are is not looked at.
Session parseSession(const StrictJson &json, const Plan &plan, Predictor::Window &window);

} // namespace sluice::runtime
