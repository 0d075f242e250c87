// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses a session's description: the JSON in its file's metadata.
#pragma once

#include "sluice/Runtime/Generate/Session.h"
#include "sluice/Support/StrictJson.h"

namespace sluice::runtime {

inline const std::string sessionRemedy =
    "; give a session that this version saved, or begin anew without it";

nlohmann::json describe(const SamplingOptions &options);

/// Throws UserError unless the JSON has the members of a session of this version.
void requireSession(const StrictJson &json);

/// Reads the text, its sampling options, and the window that the states have seen. Throws UserError
/// if they are impossible for `plan`. Does not check the owner of the states.
Session parseSession(const StrictJson &json, const Plan &plan, Predictor::GenerationWindow &window);

} // namespace sluice::runtime
