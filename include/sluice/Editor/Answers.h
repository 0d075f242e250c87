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

/// An array of DocumentSymbol: the stages.
nlohmann::json buildSymbols(const Document &document);

} // namespace sluice::editor
