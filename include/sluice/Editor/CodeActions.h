// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code actions, in the protocol's JSON.
#pragma once

#include "sluice/Editor/Findings.h"

namespace sluice::editor {

/// An array of CodeAction: the advised edit of a spec that is not proved, where `range` shares a
/// line with its error or with the edit. `only` is the kinds that the editor wants; null: all.
nlohmann::json codeActionsAt(const Document &document, const std::string &uri,
                             const nlohmann::json &range, const nlohmann::json &only,
                             const Findings &findings);

} // namespace sluice::editor
