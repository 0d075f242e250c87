// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where a model's segments end in a text.
#pragma once

#include "Recompile.h"
#include "sluice/Runtime/Data.h"
#include "sluice/Runtime/SegmentedText.h"
#include "sluice/Spec/Expansion.h"

#include <functional>
#include <optional>

namespace sluice::cli {

/// The `boundaries` stages of a model, in their order.
std::vector<spec::Primitive> findBoundaries(const spec::Model &model);

/// What a boundaries stage cuts where that is not the tokens: "groups of 4", "the segments
/// "words""; empty: the tokens. Bits of these alone can be shown.
std::string describeCut(const spec::Primitive &boundaries);

/// The value of a boundaries stage that an executor must give every row of for `cutText`: logits of
/// its bits, their probabilities, or the bits (driver::CompileRequest::everyRow).
std::string bitsOf(const spec::Primitive &boundaries);

/// Cuts a text, in windows of the context that do not overlap; keeps the first `mostShown` tokens.
/// Throws JobError where numbers are not finite.
runtime::SegmentedText cutText(runtime::Executor &executor, const spec::Primitive &boundaries,
                               const runtime::ByteFile &text, int64_t mostShown,
                               const std::function<void(double)> &progress);

} // namespace sluice::cli
