// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sluice/Runtime/Data/SegmentedText.h"

#include <algorithm>
#include <utility>

namespace sluice::runtime {

void SegmentedText::add(std::string_view bytes, double probability) {
  bool isSet = isRouted ? probability >= 0.5 : probability > 0.5;
  if (tokens++ < mostShown) {
    if (isSet && begins && tokens > 1) {
      pieces.emplace_back();
    }
    pieces.back() += bytes;
    if (isSet && !begins) {
      pieces.emplace_back();
    }
  }
  length += begins ? 0 : 1;
  ++certainties[std::min(bins - 1, static_cast<size_t>(probability * bins))];
  ends += isSet ? 1 : 0;
  if (isSet && length > 0) {
    ++lengths[std::exchange(length, 0)];
  }
  length += begins ? 1 : 0;
}

void SegmentedText::finish() {
  if (begins && length > 0) {
    ++lengths[std::exchange(length, 0)];
  }
}

std::string SegmentedText::marked() const {
  std::string text;
  for (const std::string &piece : pieces) {
    text += (&piece == &pieces.front() ? "" : "|") + piece;
  }
  return text;
}

} // namespace sluice::runtime
