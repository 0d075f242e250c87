// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A spec with an advice applied: changed, expanded and proved again. A key's value is changed
// wherever the key sets it.
#pragma once

#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Sluice/Origin.h"

#include "mlir/IR/Diagnostics.h"

namespace sluice {

/// Changes to a copy of a spec. Ignores errors that ops report of themselves while it exists.
class Revision {
public:
  /// `spec` has one factor per level.
  explicit Revision(const ParsedSpec &spec);

  /// Sets the shift key (or the `by`, or the shift of a head or loss) at `place`, or, where an
  /// hourglass has none, gives it one. Returns false where no stage shifts by what stands there.
  bool setShift(const spec::SourceLocation &place, int64_t by);
  /// Begins every window that the mask at `place` sets at 0.
  void beginWindowsAtZero(const spec::SourceLocation &place);
  /// Adds a layer on the way up of an hourglass that has none there, at the level of an op inside.
  /// Returns false for an op of no hourglass.
  bool addLayerOnTheWayUp(OriginAttr origin);
  /// Adds a causal layer after the stage at `path`, or before the head where that is empty. With
  /// `tokens` it adds the embedding's stream first.
  void addLayerAfter(llvm::StringRef path, bool tokens);

  /// Returns true if every mode is proved causal, by bounds that are found and decided anew.
  bool isProved();
  /// Returns true if the changed spec is proved and no row has a blind spot.
  bool seesAll();

private:
  bool isProved(bool withoutHoles);
  mlir::MLIRContext *getContext() { return spec.module->getContext(); }

  ParsedSpec spec;
  mlir::ScopedDiagnosticHandler ignored;
  bool isValid = true; ///< all changes could be made
};

/// Returns true where the value of a key, or the stage itself for no key, is at `place`.
bool isAt(mlir::Operation *stage, llvm::StringRef key, const spec::SourceLocation &place);

/// Returns the path of the spec's stage that an op came from, whatever contains it there; empty
/// where there is none.
llvm::StringRef findStage(spec::ModelOp model, OriginAttr origin);

} // namespace sluice
