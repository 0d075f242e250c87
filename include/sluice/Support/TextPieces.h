// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts characters of texts that are not completely in memory.
#pragma once

#include "sluice/Support/Text.h"

#include <functional>

namespace sluice {

/// Returns the bytes of a text from `start` on: at least 4, or all up to the end of the text. They
/// are valid until the next call.
using TextReader = std::function<std::string_view(size_t start)>;

/// Counts characters as countCharacters of Text.h does, in a text of at least `to` bytes that is
/// read piece by piece.
CharacterCount countCharacters(const TextReader &text, size_t from, size_t to);

} // namespace sluice
