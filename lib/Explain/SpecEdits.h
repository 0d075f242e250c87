// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Collects the edits that advice about a rejected spec may use: changes to the value of a key, and
// moves, additions and removals of stages (docs/causality.md). Each is an edit of the spec's text.
#pragma once

#include "sluice/Spec/SpecText.h"

namespace sluice {

/// Formats the location of a byte of the original text: "leaky.json:4:7".
using Locate = std::function<std::string(size_t)>;

enum class EditKind {
  Value,  ///< changes the value of an existing key
  Key,    ///< adds a key to an object, or removes it
  Move,   ///< moves a shift to another place
  Add,    ///< adds a shift
  Stream, ///< changes the stream that a stage reads
  Remove  ///< removes a stage
};

/// One edit. If the edit has a number to choose, rows read less for larger numbers.
struct SpecEdit {
  EditKind kind;
  size_t offset = 0; ///< offset of a byte of the edited text
  /// Range of numbers to choose from; equal for an edit without a choice.
  int64_t least = 0, most = 0;
  int64_t distance = 0; ///< number of stages that a move passes
  std::function<spec::TextEdits(int64_t number)> apply = {};
  std::function<std::string(int64_t number, const Locate &)> describe = {};

  /// Returns the tier of the edit: 1 for another stream, 2 for the removal of a stage, else 0.
  /// Edits of a higher tier are tried if no edit of a lower tier repairs a spec.
  int tier() const { return kind == EditKind::Remove ? 2 : kind == EditKind::Stream ? 1 : 0; }
};

/// Returns every edit of a text, in the order of its stages; `mostShift` limits the increase of a
/// shift, and the length of an added shift. `text` must outlive the edits.
std::vector<SpecEdit> collectEdits(const spec::SpecText &text, int64_t mostShift);

} // namespace sluice
