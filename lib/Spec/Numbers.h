// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Named inputs of numbers, a row for each token.
#pragma once

#include "Fields.h"

namespace sluice::spec {

/// One input of the spec's list; nothing where it is one of tokens. Its keys are checked.
std::optional<Numbers> readNumbers(const Fields &fields, const std::string &name,
                                   const SourceLocation &place, int64_t vocabulary);
/// Refuses embeddings of numbers that losses alone may read, and settings that are of tokens.
void checkEmbedsNumbers(const Embedding &embedding, const Stage &stage, const Numbers &numbers);
/// Refuses a head or a loss whose target or weights are no input of that role.
void checkNumbersOfLoss(const Stage &stage, const Model &model);
/// Numbers that no stage reads are a slip.
void checkNumbersAreRead(const Model &model);

} // namespace sluice::spec
