// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Filters messages that MLIR's language server cannot parse: it parses JSON and IR with recursion,
// which a deep message would end, and answers a number beyond double's range as `inf`.
#pragma once

#include "sluice/Editor/Rpc.h"

#include <optional>
#include <string>
#include <string_view>

namespace sluice::editor {

/// The message for the editor in place of `incoming`, which MLIR's server must not have: the answer
/// to a request that cannot be read, or a diagnostic about IR that nests too deep to be parsed.
/// Nothing where it may have it.
std::optional<nlohmann::json> refuseIrMessage(const Incoming &incoming);

/// The message about IR that nests too deep to be parsed; nothing where it may be parsed.
std::optional<std::string> refuseDeepText(std::string_view text);

} // namespace sluice::editor
