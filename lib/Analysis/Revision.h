// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A spec as it would be with an advice followed: changed, expanded and proved again. What a key
// sets is changed wherever it sets it.
#pragma once

#include "sluice/Analysis/Reach.h"
#include "sluice/Dialect/Sluice/Origin.h"
#include "sluice/Dialect/Spec/Spec.h"

#include "mlir/IR/OwningOpRef.h"

namespace sluice {

/// Changes to a copy of a spec.
class Revision {
public:
  explicit Revision(const spec::Model &model);

  /// Sets the shift key (or the `by`, or the shift of a head or loss) at `place`, or, where an
  /// hourglass has none, gives it one. Returns false where no stage shifts by what stands there.
  bool setShift(const spec::SourceLocation &place, int64_t by);
  /// Begins every window that the mask at `place` sets at 0.
  void beginWindowsAtZero(const spec::SourceLocation &place);
  /// Adds a layer on the way up of an hourglass that has none there, at the level of an op inside.
  /// Returns false for an op of no hourglass.
  bool addLayerOnTheWayUp(OriginAttr origin);
  /// Adds a causal layer after a stage, or before the head for -1. With `tokens` it adds the
  /// embedding's stream first.
  void addLayerBehind(int64_t stage, bool tokens);

  /// Whether every mode is proved causal, by bounds that are found and decided anew.
  bool isProved();
  /// The same, and no row has a blind spot.
  bool seesAll();

private:
  bool isProved(bool withoutHoles);
  spec::ModelOp getModel();

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< with the spec, at one factor
  bool isValid = true;                      ///< all changes could be made
};

/// Returns the index of the model's stage that an op came from, whatever contains it there; -1
/// where there is none.
int64_t findStage(const spec::Model &model, OriginAttr origin);

} // namespace sluice
