// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef SLUICE_LIB_SPEC_STREAMWIDTHS_H
#define SLUICE_LIB_SPEC_STREAMWIDTHS_H

#include "Stages.h"

namespace sluice::spec {

/// Widths of streams as they are read: what a stage's own settings mean depends on that of its
/// input. Names that nothing defines are found by the expansion.
class StreamWidths {
public:
  explicit StreamWidths(int64_t ofModel) : ofModel(ofModel), previous(ofModel) {}

  /// Of the stream that a stage, as it is written, reads.
  int64_t before(const JsonValue &stage) const {
    for (const JsonMember &member : stage.members) {
      if (member.key == "from" && member.value.kind == JsonKind::String) {
        auto found = named.find(member.value.text);
        return found == named.end() ? previous : found->second;
      }
    }
    return previous;
  }

  /// Notes what a stage that reads a stream of `width` makes.
  void add(const Stage &stage, int64_t width) {
    if (stage.op() == Op::Loss || stage.op() == Op::Boundaries) { // whose result nothing reads
      return;
    }
    previous = stage.op() == Op::Embedding ? ofModel : widthAfter(stage.settings, width);
    if (!stage.to.empty()) {
      named.try_emplace(stage.to, previous);
    }
  }

  int64_t last() const { return previous; }
  void name(const std::string &stream, int64_t width) { named.try_emplace(stream, width); }

private:
  int64_t ofModel, previous;
  std::map<std::string, int64_t, std::less<>> named;
};

} // namespace sluice::spec

#endif // SLUICE_LIB_SPEC_STREAMWIDTHS_H
