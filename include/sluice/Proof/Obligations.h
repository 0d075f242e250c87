// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The causality proof as data: a bound for every value, and the local obligations that make
// the claims an induction. Deciding them is apart from finding the bounds, so a wrong bound is
// refused and never believed.
#pragma once

#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/IntegerPoint.h"
#include "llvm/ADT/MapVector.h"

namespace sluice {

/// One thing to be shown for every length and every position p: p >= 0 of a stored value, any p of
/// a lazy one (which others may read through at positions before 0). Likewise only q >= 0 of a
/// stored operand counts: before 0 it is null. With u_v(p) = max(-1, candidates of v at p):
enum class ObligationKind {
  Token,  ///< `value` is the tokens themselves: p <= u_value(p)
  Read,   ///< (p, q) in `relation`: u_source(q) <= u_value(p)
  Steady, ///< `relation` mentions n: its pairs with 0 <= q < n are the same at length n + 1
  Exist,  ///< `value` is stored on a scale of factor f: f p <= u_value(p)
  NoLeak, ///< row p of `value` is scored against tokens from p + o on: u_value(p) < p + o
  PrefixInvariance ///< row p of `value` exists from p + 1 tokens on: u_value(p) <= p
};

struct Obligation {
  ObligationKind kind;
  mlir::Operation *op; ///< that reads (Read), defines (Exist) or scores (NoLeak, PrefixInvariance);
                       ///< the function (Token)
  unsigned operand = 0;
  mlir::Value source;        ///< Read, Steady: the operand
  mlir::Value value;         ///< whose bound must hold
  mlir::IntegerSet relation; ///< Read, Steady: dims p, q, symbol n, the valid length of the source
  int64_t bound = 0; ///< Token, Exist: the factor; NoLeak: the least o; Read: the source's factor
                     ///< where it is lazy and ends at n, so that f q <= u_value(p) too; else 0
  /// Read: what data decides in `relation`. Exist of the ends of segments: e(p), so that
  /// f e(p) <= u_value(p).
  llvm::SmallVector<SegmentTerm, 2> terms;
};

/// Bounds and obligations of one mode, not yet decided.
struct ModeProof {
  std::string mode; ///< "eval", "train", "generate"
  mlir::func::FuncOp function;
  /// Every sequence that a prediction is computed from, in order of definition. Those that no token
  /// of the target's axis reaches have no candidates.
  llvm::MapVector<mlir::Value, Frontier> bounds;
  std::vector<Obligation> obligations; ///< in order of their ops; conclusions last
};

/// States bounds and obligations of a function about the axis of the tokens that its losses score.
ModeProof collectProof(mlir::func::FuncOp function, llvm::StringRef mode);
ModeProof collectProof(mlir::func::FuncOp function, llvm::StringRef mode,
                       const llvm::DenseMap<mlir::Value, Frontier> &frontiers);

/// Sequences, and tensors, that a prediction is computed from.
llvm::DenseSet<mlir::Value> collectLive(mlir::func::FuncOp function);

/// How an obligation was decided.
struct Decision {
  enum Kind { Holds, Fails, Vacuous, Undecided } kind = Holds;
  int64_t p = 0, q = 0, n = 0; ///< Fails: where
};
/// Decides obligations. A model's first some hundred different questions are asked of MLIR's
/// Presburger library, by integer-exact emptiness only. Further ones, and those with many
/// divisions, are decided as functions of one position over one period, which does not grow with
/// what a bound nests; where that cannot be, the library is asked. A Read whose relation has no
/// point at all is Vacuous: its emptiness would prove nothing. Equal questions are asked once.
class ObligationDecider {
public:
  /// Returns true if no position's reads among the operand's first n positions change as n grows by
  /// one.
  bool isSteady(mlir::IntegerSet relation);
  Decision decide(const ModeProof &proof, const Obligation &obligation);
  /// The two ways, one by one: for tests, which compare them.
  Decision decideBySets(const ModeProof &proof, const Obligation &obligation);
  Decision decideByPeriod(const ModeProof &proof, const Obligation &obligation);
  /// Obligations with ends of segments, by cases on their order (Segments.h).
  Decision decideBySegments(const ModeProof &proof, const Obligation &obligation);

private:
  const IntegerPoint &findPoint(mlir::IntegerSet set);
  Decision::Kind decideVacuity(const Obligation &obligation);
  bool readsUpTo(const Obligation &obligation, mlir::AffineExpr latest);
  llvm::DenseMap<mlir::IntegerSet, IntegerPoint> known;
};

} // namespace sluice
