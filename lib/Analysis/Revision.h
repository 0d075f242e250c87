// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A spec as it would be with an advice followed: changed, expanded and proved again. What a key
// sets is changed wherever it sets it.
#pragma once

#include "sluice/Analysis/Reach.h"
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
  /// One layer at least on the way up, at the level that a stage of an hourglass is of. Returns
  /// false where the stage is of no hourglass.
  bool addLayerOnTheWayUp(llvm::StringRef stage);
  /// A causal layer behind a stage, of which "stages.2.inside.0" says 2; -1: in front of the head.
  /// With `tokens` the embedding's stream is added first.
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

/// 2 of "stages.2.inside.0"; -1 where the name is of another form.
int64_t stageIndexOf(llvm::StringRef name);

} // namespace sluice
