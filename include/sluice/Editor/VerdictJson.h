// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A verdict on its way between two processes of one program: no format to keep.
#pragma once

#include "sluice/Explain/Verdict.h"

#include <nlohmann/json.hpp>

namespace sluice::editor {

nlohmann::json verdictToJson(const CausalVerdict &verdict);

/// Throws nlohmann's exceptions where `json` is not what verdictToJson makes.
CausalVerdict verdictFromJson(const nlohmann::json &json);

} // namespace sluice::editor
