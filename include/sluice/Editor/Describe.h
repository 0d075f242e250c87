// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Texts of hovers, as Markdown.
#pragma once

#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Spec/Keys.h"

namespace sluice::editor {

/// "4 tokens a position, result [2, 16, 64] = [batch, ceil(context / 4), width]", what it expands
/// to, and its weights with their shapes. Empty where the model has no such stage.
std::string describeStage(const ParsedSpec &spec, size_t index);

/// Meaning, type, default and values of one key.
std::string describeKey(const spec::KeyInfo &key);

/// Sizes of a whole model.
std::string describeModel(const ParsedSpec &spec);

} // namespace sluice::editor
