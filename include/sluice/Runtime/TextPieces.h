// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Characters of texts that are not in memory whole.
#pragma once

#include "sluice/Runtime/Text.h"

#include <functional>

namespace sluice {

/// Gives bytes of a text from one on: at least 4 of them, or all up to its end. They are valid
/// until the next call.
using TextReader = std::function<std::string_view(size_t start)>;

/// The same as countCharacters of Text.h for a text that is read piece by piece, of at least `to`
/// bytes.
CharacterCount countCharacters(const TextReader &text, size_t from, size_t to);

} // namespace sluice
