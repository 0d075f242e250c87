// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys, their values and their meaning for editors, from the declarations of the spec dialect.
// test/unit/Spec/SchemaTest.cpp holds them against what the reader accepts.

#ifndef SLUICE_SPEC_SCHEMA_H
#define SLUICE_SPEC_SCHEMA_H

#include "sluice/Dialect/Spec/Keys.h"
#include "sluice/Spec/Spec.h"

namespace sluice::spec {

/// The objects of a spec that are not stages.
enum class Section : uint8_t {
  Spec,
  Defaults,
  Precision,
  Training,
  Schedule,
  Fall,
  Mask,
  Rotary,
  Relative,
  Source,
  Scale,
  Lsh
};

const std::vector<KeyInfo> &keysOf(Section section);
/// The keys of a stage, `op` first, layer settings last.
const std::vector<KeyInfo> &keysOf(Op op);

/// Every op that a stage may name, in the order of Op.
std::vector<Op> allOps();
/// What a stage of this op computes, in one sentence.
std::string_view meaning(Op op);

} // namespace sluice::spec

#endif // SLUICE_SPEC_SCHEMA_H
