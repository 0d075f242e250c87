// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "sluice/Spec/Schema.h"

#include <array>

namespace sluice::spec {

const std::vector<KeyInfo> &keysOf(Section section) {
  // In the order of Section.
  constexpr std::array<std::string_view, 12> definitions = {
      "Spec_ModelOp",    "DefaultsSection", "Spec_PrecisionOp", "Spec_TrainingOp",
      "Spec_ScheduleOp", "Spec_FallOp",     "MaskSection",      "RotarySection",
      "RelativeSection", "SourceSection",   "ScaleSection",     "LshSection"};
  return getObject(definitions[static_cast<size_t>(section)]).keys;
}

const std::vector<KeyInfo> &keysOf(Op op) { return findStage(name(op))->keys; }

std::vector<Op> allOps() {
  std::vector<Op> ops;
  for (size_t i = 0; i < std::variant_size_v<Settings>; ++i) {
    ops.push_back(static_cast<Op>(i));
  }
  return ops;
}

std::string_view meaning(Op op) { return findStage(name(op))->sentence; }

} // namespace sluice::spec
