// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Applies an advised edit to a copy of the spec, which is then expanded and proved. Changes the
// value of a key wherever the key applies.
#pragma once

#include "sluice/Conversion/ParseSpec.h"
#include "sluice/Dialect/Sluice/Origin.h"

#include "mlir/IR/Diagnostics.h"

namespace sluice {

/// Changes to a copy of a spec. Ignores diagnostics of ops during its lifetime.
class Revision {
public:
  /// The levels of `spec` must have one factor each.
  explicit Revision(const ParsedSpec &spec);

  /// Sets the shift key (or the `by`, or the shift of a head or loss) at `place`, or adds one to an
  /// hourglass that has none. Returns false if no stage has a shift at `place`.
  bool setShift(const spec::SourceLocation &place, int64_t by);
  /// Changes every window of the mask at `place` to begin at 0.
  void beginWindowsAtZero(const spec::SourceLocation &place);
  /// Adds a layer to the upsampling path of an hourglass that has none there, at the level of an op
  /// inside it. Returns false for an op outside every hourglass.
  bool addLayerOnTheWayUp(OriginAttr origin);
  /// Adds a causal layer after the stage at `path`, or before the head if the path is empty. With
  /// `tokens`, first adds the stream of the embedding.
  void addLayerAfter(llvm::StringRef path, bool tokens);

  /// Returns true if every mode is proved causal, with recomputed bounds.
  bool isProved();
  /// Returns true if the changed spec is proved and no row has a blind spot.
  bool seesAll();

private:
  bool isProved(bool withoutHoles);
  mlir::MLIRContext *getContext() { return spec.module->getContext(); }

  ParsedSpec spec;
  mlir::ScopedDiagnosticHandler ignored;
  bool isValid = true; ///< true if all changes could be applied
};

/// Returns true if the value of a key, or the stage itself without a key, is at `place`.
bool isAt(mlir::Operation *stage, llvm::StringRef key, const spec::SourceLocation &place);

/// Returns the path of the spec's stage from which an op was imported, independent of its enclosing
/// stages; empty if there is none.
llvm::StringRef findStage(spec::ModelOp model, OriginAttr origin);

} // namespace sluice
