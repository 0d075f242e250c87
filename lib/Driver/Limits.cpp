// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Limits.h"
#include "sluice/Spec/Expansion.h"

using namespace sluice;
using namespace sluice::spec;

/// Positions of a batch: temporaries and the launches' items grow with them.
constexpr int64_t mostPositions = int64_t(1) << 28;

/// A stage that is only a map of positions: shift, or upsample by repetition; or, outside training,
/// nothing at all: dropout.
static bool isPositionMap(const Primitive &stage) {
  if (const auto *upsample = std::get_if<Upsample>(&stage.settings)) {
    return upsample->method == Upsampling::Repeat;
  }
  return stage.op() == Op::Shift || stage.op() == Op::Dropout;
}

/// The linear upsample that a linear shorten reads through position maps alone; -1: none. Such a
/// group's rows would be columns of rows at a stride that no access says.
static int64_t findUpsampleBehind(const std::vector<Primitive> &stages, const Primitive &shorten) {
  int64_t at = shorten.input;
  while (at >= 0 && isPositionMap(stages[at])) {
    at = stages[at].input;
  }
  const auto *upsample = at >= 0 ? std::get_if<Upsample>(&stages[at].settings) : nullptr;
  return upsample && upsample->method == Upsampling::Linear ? at : -1;
}

std::optional<Diagnostic> driver::findUnsupported(const Model &model) {
  if (model.batch > mostPositions / model.context) {
    auto place = model.keys.find("context");
    return Diagnostic{place == model.keys.end() ? model.location : place->second,
                      "expected batch times context to be at most " +
                          std::to_string(mostPositions) + " positions, found " +
                          std::to_string(model.batch) + " times " + std::to_string(model.context) +
                          "; make one of them smaller"};
  }
  std::vector<Primitive> stages = expand(model);
  for (const Primitive &stage : stages) {
    const auto *shorten = std::get_if<Shorten>(&stage.settings);
    if (!shorten || shorten->method != Shortening::Linear) {
      continue;
    }
    if (int64_t upsample = findUpsampleBehind(stages, stage); upsample >= 0) {
      return Diagnostic{stage.location,
                        "expected a layer or a norm between a linear upsample and the linear "
                        "shorten of its result, "
                        "found none (the upsample is at " +
                            toString(stages[upsample].location) +
                            "); put a norm between them, or make one of the two average or repeat"};
    }
  }
  return std::nullopt;
}
