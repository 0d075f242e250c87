// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Upper bounds of the tokens that each position of a sequence needs.
#pragma once

#include "sluice/Proof/Scales.h"
#include "llvm/ADT/DenseMap.h"

namespace sluice {

/// The bound maps[0](e_0(maps[1](e_1(... maps[k](p) ...)))), where e_i(m) is the position at which
/// segment m of cuts[i] ends. Each map is a non-decreasing expression of d0.
struct EndBound {
  llvm::SmallVector<mlir::AffineExpr, 2> maps;
  llvm::SmallVector<SegmentOp, 1> cuts; ///< one less than maps, outermost first

  bool operator==(const EndBound &other) const { return maps == other.maps && cuts == other.cuts; }
};

/// The tokens that position p of a value needs: none beyond max(-1, candidates(p), ends(p)),
/// neither to compute it nor for the existence of a position that it reads. Each candidate is
/// non-decreasing.
struct Frontier {
  llvm::SmallVector<mlir::AffineExpr, 2> candidates;
  mlir::Operation *unbounded = nullptr; ///< the op that has no bound; candidates are then invalid
  llvm::SmallVector<EndBound, 1> ends;  ///< further candidates, which depend on ends of segments

  bool needsNothing() const { return candidates.empty() && ends.empty() && !unbounded; }
};

/// Returns true if a relation ends a lazy source at n; see Obligation::bound.
bool endsLazySource(mlir::IntegerSet relation, mlir::Value source, const Scales &scales);

/// Computes the frontier of every sequence of a function.
llvm::DenseMap<mlir::Value, Frontier> computeFrontiers(mlir::func::FuncOp function);

} // namespace sluice
