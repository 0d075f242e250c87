// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mistakes of a spec, as the protocol's diagnostics.
#pragma once

#include "sluice/Editor/Document.h"
#include "sluice/Explain/Verdict.h"

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace sluice {
struct ParsedSpec;
}

namespace sluice::editor {

/// Thrown by a check that was stopped.
struct NotChecked {
  std::string why;
};

/// Proves or refuses a valid spec; may take seconds. It may stop once `cancelled` is set, as its
/// verdict is of no use then.
using Check = std::function<CausalVerdict(const ParsedSpec &, const std::atomic<bool> &cancelled)>;

/// One text, read and checked. A text has an error, a verdict, or a reason why it was not checked.
/// Its IR is not stored: a server that runs for days has many texts.
struct Findings {
  std::optional<spec::SourceLocation> model; ///< place of a valid model
  std::optional<spec::Diagnostic> error;
  std::optional<CausalVerdict> verdict;
  std::string unchecked;
};

/// `file` names the text in places. Throws nothing: what `check` throws becomes an error.
Findings examine(const std::string &text, const std::string &file, const Check &check,
                 const std::atomic<bool> &cancelled);

/// The range at a place of the reader: a token, a word of a string, a stage on one line, or the
/// bracket that opens a longer one. Never empty unless the text is.
Range rangeAt(const Document &document, const spec::SourceLocation &place);

/// An array of the protocol's Diagnostic.
nlohmann::json buildDiagnostics(const Findings &findings, const Document &document,
                                const std::string &uri);

nlohmann::json toJson(const Range &range);

} // namespace sluice::editor
