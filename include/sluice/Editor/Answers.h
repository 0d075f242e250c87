// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hover, completion and symbols, in the protocol's JSON.
#pragma once

#include "sluice/Editor/Findings.h"

namespace sluice::editor {

/// A Hover, or null. `findings` are those of this text; null where they are not made yet.
nlohmann::json hoverAt(const Document &document, size_t offset, const std::string &file,
                       const Findings *findings);

/// An array of CompletionItem: keys that are not there yet, values, names of streams.
nlohmann::json completionsAt(const Document &document, size_t offset);

/// An array of CodeAction: the advised edit of a spec that is not proved, where `range` shares a
/// line with its error or with the edit. `only` is the kinds that the editor wants; null: all.
nlohmann::json codeActionsAt(const Document &document, const std::string &uri,
                             const nlohmann::json &range, const nlohmann::json &only,
                             const Findings &findings);

/// An array of DocumentSymbol: the stages.
nlohmann::json buildSymbols(const Document &document);

} // namespace sluice::editor
