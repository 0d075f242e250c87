// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects the edits that advice about a rejected spec may use: the value of a key, and a stage
// that is moved, added or removed (docs/causality.md). Each is an edit of the spec's text.
#pragma once

#include "sluice/Spec/SpecText.h"

namespace sluice {

/// Formats the place of a byte of the original text: "leaky.json:4:7".
using Locate = std::function<std::string(size_t)>;

enum class EditKind {
  Value,  ///< of a key that is there
  Key,    ///< is added to an object, or removed
  Move,   ///< a shift to another place
  Add,    ///< a shift
  Stream, ///< another stream that a stage reads
  Remove  ///< a stage
};

/// One edit. If it has a number to choose, rows read less for larger numbers.
struct SpecEdit {
  EditKind kind;
  size_t offset = 0;           ///< a byte of the edited text
  int64_t least = 0, most = 0; ///< numbers to choose from; equal where there is one edit
  int64_t distance = 0;        ///< stages that a move passes
  std::function<spec::TextEdits(int64_t number)> apply = {};
  std::function<std::string(int64_t number, const Locate &)> describe = {};

  /// Edits of a higher tier are tried if no edit of a lower tier repairs a spec: 1 for another
  /// stream, 2 for a stage that is removed.
  int tier() const { return kind == EditKind::Remove ? 2 : kind == EditKind::Stream ? 1 : 0; }
};

/// Returns every edit of a text, in the order of its stages; `mostShift` bounds the increase of a
/// shift, and an added shift. `text` must outlive the edits.
std::vector<SpecEdit> collectEdits(const spec::SpecText &text, int64_t mostShift);

} // namespace sluice
