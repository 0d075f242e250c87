// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The stage that attends between a scale and its segments (Pagnoni et al. 2024, sections 3.2.2 and
// 3.3.1).
#include "Stages.h"

namespace sluice::spec {

/// The width of the finer stream, and so the usual head's, is known to the expansion.
Attend readAttend(const Fields &fields) {
  Attend made;
  fields.need("over", "the name of the stream that is read");
  made.over = fields.text("over");
  fields.need("segments", "the name of the segments of one of the two streams");
  made.segments = fields.text("segments");
  fields.need("heads", "the number of attention heads, here or in \"defaults\"");
  made.heads = fields.integer("heads", {});
  made.headSize = fields.integer("head_size", {}, 0);
  constexpr int64_t mostParts = 64;
  made.parts = fields.integer("parts", {1, mostParts}, 1);
  made.by = fields.integer("by", {0, largestSize}, 1);
  made.norm = readNorm(fields);
  made.bias = fields.boolean("bias", true);
  return made;
}

Attend settleAttend(const Stage &stage, const Primitive &input, const Primitive &over,
                    const std::string &described, const Primitive *cut) {
  auto attend = std::get<Attend>(stage.settings);
  if (!cut) {
    refuseAt(stage.at("segments"),
             "expected the name of segments that an earlier boundaries stage makes, found " +
                 quote(attend.segments) + "; give such a stage that name");
  }
  auto isOf = [&](const Primitive &stream, bool segments) {
    return segments ? stream.segments == attend.segments && stream.factor == 1
                    : stream.segments == cut->segments && stream.factor == cut->factor;
  };
  attend.asks = isOf(input, true);
  if ((!attend.asks && !isOf(input, false)) || !isOf(over, !attend.asks)) {
    refuseAt(stage.at("over"), "expected one stream of the segments " + quote(attend.segments) +
                                   " and one of the scale that " + toString(cut->location) +
                                   " cuts, found " + described +
                                   "; shorten or upsample one of them by these segments");
  }
  const auto &made = std::get<Boundaries>(cut->settings);
  if (attend.asks && made.hidden > 0 && !made.rule) {
    refuseAt(stage.at("segments"), "expected segments that a rule or a router makes, as attention "
                                   "has no derivative by the bits that a predictor draws, found " +
                                       quote(made.name) + "; give its boundaries a \"rule\"");
  }
  if (attend.asks && stage.keys.contains("by")) {
    refuseAt(stage.at("by"), "expected \"by\" only where rows of the scale that is cut read "
                             "segments, found it where segments read their own rows; leave it out");
  }
  int64_t width = (attend.asks ? over : input).width;
  if (attend.headSize == 0 && width % attend.heads != 0) {
    refuseAt(stage.at("heads"), "expected \"heads\" to divide the width of the stream that is cut, "
                                "found " +
                                    std::to_string(attend.heads) + " heads for width " +
                                    std::to_string(width) +
                                    "; change one of the two or give \"head_size\"");
  }
  attend.headSize = attend.headSize == 0 ? width / attend.heads : attend.headSize;
  return attend;
}

} // namespace sluice::spec
