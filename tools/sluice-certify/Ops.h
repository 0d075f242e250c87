// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of ops, and the relations that it allows for their operands.
#pragma once

#include "Graph.h"

namespace certify {

/// Returns the row of an op; throws Refusal for an unknown name.
const Op &findOp(const std::string &name);

/// Reads the grammar of docs/certificate.md; throws Refusal for anything else.
RowRelation parseRelation(const std::string &text);

/// Returns "4*p + 3".
std::string spellLinear(int64_t slope, int64_t constant);
/// Returns the relation of an operand whose pattern has one alone; of segments, `by` before.
std::string spellPattern(const ModelValue &value, size_t operand, int64_t by = 0);

/// Throws Refusal where a value's operands, scale or relations do not fit its op's row in the
/// table.
void checkOperands(const ModelGraph &graph, size_t value);
void checkRelation(const ModelGraph &graph, size_t value, size_t operand);

} // namespace certify
