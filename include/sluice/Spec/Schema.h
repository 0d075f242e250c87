// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What may be written in a spec, as data for editors: keys, their values and what they mean
// (docs/spec.md in short). The reader decides what is valid; test/unit/Spec/SchemaTest.cpp holds
// these tables against what it accepts.

#ifndef SLUICE_SPEC_SCHEMA_H
#define SLUICE_SPEC_SCHEMA_H

#include "sluice/Spec/Spec.h"

namespace sluice::spec {

/// One key of an object.
struct KeyInfo {
  std::string_view name;
  std::string_view type;
  std::string_view meaning;
  std::string_view otherwise; ///< what holds where the key is absent; "required" where nothing does
  std::vector<std::string_view> values; ///< that may be written as a string
};

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
