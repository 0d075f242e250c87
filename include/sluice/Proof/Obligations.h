// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The causality proof as data: a bound for every value, and the local obligations that make the
// bounds an induction. Obligations are decided independently of how bounds were found, so a wrong
// bound is rejected.
#pragma once

#include "sluice/Proof/Frontier.h"
#include "sluice/Proof/IntegerPoint.h"
#include "llvm/ADT/MapVector.h"

namespace sluice {

/// A claim for every length and every position p: p >= 0 of a stored value, any p of a lazy one,
/// which others may read through at positions before 0. Likewise only q >= 0 of a stored operand
/// counts: before 0 it is null. With u_v(p) = max(-1, candidates of v at p):
enum class ObligationKind {
  Token,  ///< `value` is the tokens themselves: p <= u_value(p)
  Read,   ///< (p, q) in `relation`: u_source(q) <= u_value(p)
  Steady, ///< `relation` depends on n: its pairs with 0 <= q < n are the same at length n + 1
  Exist,  ///< `value` is stored on a scale of factor f: f p <= u_value(p)
  NoLeak, ///< row p of `value` is scored against tokens from p + o on: u_value(p) < p + o
  PrefixInvariance ///< row p of `value` exists from p + 1 tokens on: u_value(p) <= p
};

struct Obligation {
  ObligationKind kind;
  /// The op that reads (Read), defines (Exist) or scores (NoLeak, PrefixInvariance); the function
  /// (Token).
  mlir::Operation *op;
  unsigned operand = 0;
  mlir::Value source;        ///< Read, Steady: the operand
  mlir::Value value;         ///< the value whose bound must hold
  mlir::IntegerSet relation; ///< Read, Steady: dims p, q, symbol n, the valid length of the source
  /// Token, Exist: the factor; NoLeak: the smallest o; Read: the source's factor if it is lazy and
  /// ends at n, so that f q <= u_value(p) too; else 0.
  int64_t bound = 0;
  /// Read: the terms of `relation` that depend on data. Exist of the ends of segments: e(p), so
  /// that f e(p) <= u_value(p).
  llvm::SmallVector<SegmentTerm, 2> terms;
};

/// Bounds and undecided obligations of one mode.
struct ModeProof {
  std::string mode; ///< "eval", "train", "generate"
  mlir::func::FuncOp function;
  /// Bounds of every sequence from which a prediction is computed, in order of definition.
  /// Sequences that no token of the target's axis reaches have no candidates.
  llvm::MapVector<mlir::Value, Frontier> bounds;
  std::vector<Obligation> obligations; ///< in order of their ops, followed by the conclusions
};

/// Collects the bounds and obligations of a function, for the axis of the tokens that its losses
/// score.
ModeProof collectProof(mlir::func::FuncOp function, llvm::StringRef mode);
ModeProof collectProof(mlir::func::FuncOp function, llvm::StringRef mode,
                       const llvm::DenseMap<mlir::Value, Frontier> &frontiers);

/// Returns the sequences and tensors from which a prediction is computed.
llvm::DenseSet<mlir::Value> collectLive(mlir::func::FuncOp function);

/// Result of deciding an obligation.
struct Decision {
  enum Kind { Holds, Fails, Vacuous, Undecided } kind = Holds;
  int64_t p = 0, q = 0, n = 0; ///< Fails: a point at which the obligation fails
};
/// Decides obligations. The first few hundred different questions of a model are decided by MLIR's
/// Presburger library, as integer-exact emptiness. Further questions, and questions with many
/// divisions, are decided as functions of one position over one period, at a cost that does not
/// grow with the nesting of a bound; where this is impossible, the library decides them. A Read
/// whose relation has no point is Vacuous: its emptiness would prove nothing. Equal questions are
/// decided once.
class ObligationDecider {
public:
  /// Returns true if no position's reads among the operand's first n positions change as n grows by
  /// one.
  bool isSteady(mlir::IntegerSet relation);
  Decision decide(const ModeProof &proof, const Obligation &obligation);
  /// Decide an obligation in one of the two ways, so that tests can compare them.
  Decision decideBySets(const ModeProof &proof, const Obligation &obligation);
  Decision decideByPeriod(const ModeProof &proof, const Obligation &obligation);

private:
  const IntegerPoint &findPoint(mlir::IntegerSet set);
  Decision::Kind decideVacuity(const Obligation &obligation);
  bool readsUpTo(const Obligation &obligation, mlir::AffineExpr latest);
  llvm::DenseMap<mlir::IntegerSet, IntegerPoint> known;
};

} // namespace sluice
