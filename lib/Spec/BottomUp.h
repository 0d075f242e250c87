// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The bottom-up model of Subramanian, Collobert, Ranzato and Boureau (2020), section 3.3, as
// primitive stages.
#ifndef SLUICE_LIB_SPEC_BOTTOMUP_H
#define SLUICE_LIB_SPEC_BOTTOMUP_H

#include "Stages.h"

namespace sluice::spec {

/// Appends the stages of `bottomUp`, which reads stream `input`; `emit(settings, prefix, input,
/// sources)` appends one. Returns the result.
template <typename Emit>
int64_t expandBottomUp(const BottomUp &bottomUp, const Stage &stage, int64_t input, Emit emit) {
  int64_t count = 0;
  auto next = [&] { return stage.prefix + ".inside." + std::to_string(count++); };
  auto stack = [&](int64_t layers, int64_t x) {
    for (int64_t i = 0; i < layers; ++i) {
      x = emit(bottomUp.layer, next(), x, {});
    }
    Norm norm = {bottomUp.layer.norm, bottomUp.layer.epsilon};
    return layers > 0 && bottomUp.layer.placement == Placement::Pre ? emit(norm, next(), x, {}) : x;
  };
  const auto &levels = bottomUp.hierarchy;
  Layer gathers = bottomUp.layer; // its queries are the stage's input, its keys the coarse scales
  gathers.rotaryBase.reset();
  gathers.lsh.reset();
  gathers.relative = Relative::None;
  std::vector<int64_t> scales;
  int64_t x = input;
  for (size_t i = 1; i < levels.size(); ++i) {
    int64_t from = bottomUp.repooled ? 1 : levels[i - 1].factor;
    x = emit(Shorten{levels[i].factor / from, bottomUp.shorten, bottomUp.shortenWindow}, next(),
             bottomUp.repooled ? input : x, {});
    x = stack(levels[i].layers, x);
    scales.push_back(x);
    HeadGroup group;
    group.mask = {MaskKind::Complete};
    group.location = stage.at("hierarchy");
    gathers.groups.push_back(std::move(group));
  }
  return stack(levels[0].layers, emit(gathers, next(), input, std::move(scales)));
}

} // namespace sluice::spec

#endif // SLUICE_LIB_SPEC_BOTTOMUP_H
