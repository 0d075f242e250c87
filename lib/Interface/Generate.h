// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments of the functions that continue texts.
#pragma once

#include "Lines.h"
#include "sluice/Runtime/Generate/Generator.h"

#include <initializer_list>
#include <span>
#include <utility>

namespace sluice::interface {

/// Throws UserError with the name of an option below 0.
void requireNotNegative(std::initializer_list<std::pair<const char *, int64_t>> options);

/// Returns the number of ids that may be written; `ids` 0: the vocabulary. Throws UserError for
/// more.
int64_t chooseIds(LoadedModel &state, int64_t ids);

/// Returns the caller's prompt. Throws UserError if it is empty.
std::span<const int32_t> readPrompt(const int32_t *prompt, int64_t count);

/// Returns a text for the inputs of line `line`, of lines without text: a line end and the prompt,
/// with the room that the context leaves. Throws UserError for another line or a long prompt.
runtime::Text makeLineText(LoadedModel &state, const sluice_lines &lines, int64_t line,
                           std::span<const int32_t> prompt);

} // namespace sluice::interface
