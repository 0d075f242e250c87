// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds where a model's segments end in a text.
#pragma once

#include "Recompile.h"
#include "sluice/Runtime/Data/Data.h"
#include "sluice/Runtime/Data/SegmentedText.h"
#include "sluice/Runtime/Plan/SpecFacts.h"

#include <functional>
#include <optional>

namespace sluice::cli {

/// Describes the rows that a boundaries stage cuts if they are not the tokens: "groups of 4", "the
/// segments "words""; empty for the tokens. Only bits of tokens can be printed.
std::string describeCut(const runtime::BoundaryFacts &boundaries);

/// Cuts a text, in non-overlapping windows of the context; retains the first `mostShown` tokens.
/// The executor returns every row of the value of `boundaries` (driver::CompileRequest::everyRow).
/// Throws JobError if numbers are not finite.
runtime::SegmentedText cutText(runtime::Executor &executor,
                               const runtime::BoundaryFacts &boundaries,
                               const runtime::ByteFile &text, int64_t mostShown,
                               const std::function<void(double)> &progress);

} // namespace sluice::cli
