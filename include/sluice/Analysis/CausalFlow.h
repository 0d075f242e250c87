// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The causality check: a bound on what every position reads, composed over the causal-flow
// interface.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Analysis/Verdict.h"
#include "sluice/Analysis/WorkBudget.h"
#include "sluice/Conversion/ImportSpec.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "llvm/ADT/MapVector.h"

namespace sluice {

/// Checks @evaluate and, where there is one, @train. With `replay`, a witness is run on the float64
/// reference where the model is small enough. Takes at most the operations of the current
/// WorkBudget, of one of its own outside of every scope.
CausalVerdict checkCausality(mlir::ModuleOp module, bool replay = true);

/// The same with each factor that steps draw: the verdict of the first one that is not proved, else
/// of all together.
CausalVerdict checkCausality(const std::vector<ImportedVariant> &variants, bool replay = true);

/// Whether the bounds of one function show it causal. A witness is not looked for.
bool isCausal(mlir::func::FuncOp function);

/// Scales of a function's sequences, looked up once.
class Scales {
public:
  explicit Scales(mlir::func::FuncOp function);
  /// 0: one position.
  int64_t factorOf(mlir::Value value) const { return scaleOf(value).factor; }
  mlir::FlatSymbolRefAttr axisOf(mlir::Value value) const { return scaleOf(value).axis; }
  /// The axis whose tokens the function's losses score, and its segments; without a loss, that of
  /// its first argument. Other axes (an encoder's) have lengths of their own and no constraint.
  bool isOnTargetAxis(mlir::Value value) const { return scaleOf(value).tokens == target; }
  /// Whether position p exists from f p + 1 tokens of the target on, f the scale's factor: the
  /// value is stored, and on the target's axis.
  bool existsByTokens(mlir::Value value) const;
  /// On an axis of segments, whose every row is computed at every length.
  bool isSegmented(mlir::Value value) const { return axisOf(value) != scaleOf(value).tokens; }

private:
  struct Scale {
    mlir::FlatSymbolRefAttr axis;
    int64_t factor = 1;
    mlir::FlatSymbolRefAttr
        tokens; ///< the axis itself, or the one whose segments' segments these are
  };
  const Scale &scaleOf(mlir::Value value) const;

  llvm::DenseMap<mlir::StringAttr, Scale> known;
  mlir::FlatSymbolRefAttr target;
};

//===----------------------------------------------------------------------===//
// Quasi-affine functions of one variable
//===----------------------------------------------------------------------===//

/// Whether e(p) <= 0 for all p >= 0, e an expression of d0 with floordiv, ceildiv and mod by
/// positive constants.
struct SignAnswer {
  enum Kind { Always, Fails, Unknown } kind = Unknown;
  int64_t at = 0; ///< where it first fails; where it fails at all if that is beyond 2^22
};
/// Exact. Unknown where the expression is of another form or its numbers are near 2^60. Without
/// `wantFirst`, `at` may be any point where it fails, which is quicker found.
SignAnswer isNeverPositive(mlir::AffineExpr expression, bool wantFirst = true);

/// floor((a p + b) / c) that is nowhere below a quasi-affine expression of d0 and rises with it;
/// nothing where its numbers are too large.
std::optional<mlir::AffineExpr> linearBound(mlir::AffineExpr expression);

//===----------------------------------------------------------------------===//
// Frontiers
//===----------------------------------------------------------------------===//

/// maps[0](e_0(maps[1](e_1(... maps[k](p) ...)))), where e_i(m) is the position at which segment m
/// of cuts[i] ends. Each map is an expression of d0, non-decreasing.
struct EndBound {
  llvm::SmallVector<mlir::AffineExpr, 2> maps;
  llvm::SmallVector<SegmentOp, 1> cuts; ///< one less than maps, outermost first

  bool operator==(const EndBound &other) const { return maps == other.maps && cuts == other.cuts; }
};

/// Position p of a value needs no token beyond max(-1, candidates(p), ends(p)), neither to read it
/// nor for a position that it reads to exist. Each candidate is non-decreasing.
struct Frontier {
  llvm::SmallVector<mlir::AffineExpr, 2> candidates;
  mlir::Operation *unbounded =
      nullptr; ///< the op that no bound was found for; candidates then say nothing
  llvm::SmallVector<EndBound, 1> ends; ///< more candidates, through ends of segments

  bool needsNothing() const { return candidates.empty() && ends.empty() && !unbounded; }
};

/// Whether a relation ends a lazy source at n; see Obligation::bound.
bool endsLazySource(mlir::IntegerSet relation, mlir::Value source, const Scales &scales);

/// A term as the segmentation that decides it: of counts that a shift moves, its argument is moved.
struct CutTerm {
  SegmentTerm::Kind kind;
  SegmentOp cut;
  mlir::AffineExpr at; ///< of d0 = p
};
/// None where it is of no counts or ends that sluice.segment makes.
std::optional<CutTerm> resolveTerm(const SegmentTerm &term);

/// Adds what position p needs of an operand whose latest position is a term and a constant.
/// Returns false where no bound was found.
bool addThroughTerms(const PositionReads &reads, const Frontier &source, Frontier &result);
/// Adds what position `at`(p) of `source` needs.
void addEndBounds(const Frontier &source, mlir::AffineExpr at, Frontier &result);
/// Whether a scale of the module depends on data.
bool hasSegments(mlir::ModuleOp module);

/// Frontier of every sequence of a function.
llvm::DenseMap<mlir::Value, Frontier> computeFrontiers(mlir::func::FuncOp function);

//===----------------------------------------------------------------------===//
// Paths at one length
//===----------------------------------------------------------------------===//

/// A lazy value as a map of what is stored: position p reads `root` at floor((p - shift) / factor).
/// Chains of shifts and upsamplings are one such map, however long.
struct LazyMap {
  mlir::Value root;
  int64_t shift = 0, factor = 1;
  int64_t at(int64_t p) const;
};

/// What the ops of a function read, solved once for all lengths.
class ReadPlan {
public:
  explicit ReadPlan(mlir::func::FuncOp function);

  /// One operand of an op: its relation and that solved for q.
  struct Read {
    mlir::Value operand;
    mlir::IntegerSet relation;
    MaskBounds bounds;
    bool mentionsLength;
    bool endsLazy; ///< endsLazySource
  };
  llvm::ArrayRef<Read> readsOf(mlir::Operation *op) const { return reads.find(op)->second; }
  /// Null where the value is stored, or is no such map.
  const LazyMap *mapOf(mlir::Value value) const;
  int64_t lengthOf(mlir::Value value, int64_t length) const;

  mlir::func::FuncOp function;
  Scales scales;
  std::vector<mlir::Operation *> ops; ///< that make sequences, in order

private:
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<Read, 2>> reads;
  llvm::DenseMap<mlir::Value, LazyMap> maps;
};

/// What a position reads at one length, found by walking the relations themselves. Shares nothing
/// with the frontiers.
class ReadWalk {
public:
  /// The latest token that a position reaches, or the first token of a position that it reads.
  struct Reach {
    int64_t token = -1;
    mlir::Value
        operand; ///< read next on the way; null at the token, or at the position of that token
    int64_t position = 0;
  };

  /// With `missing`, a position counts as a read of the token that makes it exist, or, past the
  /// end, would; else it is null there.
  /// Every read that is looked at costs one of `budget`; below zero, what is not looked at is null.
  ReadWalk(const ReadPlan &plan, int64_t length, bool missing, int64_t *budget = nullptr);
  Reach at(mlir::Value value, int64_t position) const;
  int64_t getLength(mlir::Value value) const { return plan.lengthOf(value, length); }
  /// The reads from position `position` of `value` back to its latest token.
  std::vector<std::pair<mlir::Value, int64_t>> pathFrom(mlir::Value value, int64_t position) const;

private:
  Reach compute(mlir::Operation *op, int64_t position) const;
  int64_t latestUpTo(mlir::Value value, int64_t last) const;

  const ReadPlan &plan;
  int64_t length;
  bool missing;
  int64_t *budget;
  llvm::DenseMap<mlir::Value, std::vector<Reach>> stored;
  /// By position: the first one up to there that reaches the latest token.
  llvm::DenseMap<mlir::Value, std::vector<int64_t>> latest;
};

/// The losses of a function.
llvm::SmallVector<CrossEntropyOp> lossesOf(mlir::func::FuncOp function);
/// The loss that is returned first, whose prediction is sampled; the others only train. The
/// function has one.
CrossEntropyOp mainLossOf(mlir::func::FuncOp function);

/// Row p of what a loss scores may need tokens up to p + this: never its target p + offset, and
/// never one past itself, which need not stand in the sequence yet.
int64_t latestAllowed(CrossEntropyOp loss);

/// Whether what generation appends after row t, token t + 1, is what row t was scored against.
struct Alignment {
  enum Kind {
    Aligned,
    OtherTarget,    ///< a loss of the sampled prediction scores token t + `offset` instead
    OtherPrediction ///< no loss scores the prediction that is sampled
  } kind;
  mlir::Operation *op; ///< the loss, or the op of @predict at fault
  int64_t offset;
};
/// Row t of @evaluate and the last row of @predict at length t + 1 must be the same computation:
/// the proof about the one then holds for the other.
Alignment checkAlignment(mlir::func::FuncOp evaluate, mlir::func::FuncOp predict);

struct FoundLeak {
  CrossEntropyOp loss;
  CausalWitness witness;
  std::vector<std::pair<mlir::Value, int64_t>> path; ///< from the row back to the token
};
/// The first leak at one length: a scored row, from `firstRow` on, that reads its target or a later
/// token of the sequence, or, with `missing`, also a position that does not exist yet.
std::optional<FoundLeak> findLeakAt(mlir::func::FuncOp function, int64_t length, bool missing,
                                    int64_t firstRow = 0, int64_t *budget = nullptr);
std::optional<FoundLeak> findLeakAt(const ReadPlan &plan, int64_t length, bool missing,
                                    int64_t firstRow = 0, int64_t *budget = nullptr);

/// Boundary bits of every cut of a function, in order: where they are 1.
using Boundaries = std::vector<std::vector<int64_t>>;
/// The same at the first short lengths, of a function with segments: every read is walked, for all
/// bits. `boundaries` are those that show it. The longest length that was walked is returned in
/// `longest`. Leaks that are not accepted are passed over.
std::optional<FoundLeak> findSegmentLeak(mlir::func::FuncOp function, Boundaries &boundaries,
                                         int64_t &longest,
                                         llvm::function_ref<bool(FoundLeak &)> accepts = {});
/// Of a leak through segments, the op whose row first holds a token that comes after it.
mlir::Operation *opOfLateRead(const Scales &scales, const FoundLeak &leak);

/// What a search for a leak looked at.
struct LeakSearch {
  int64_t every = 0;   ///< at lengths up to this every read of every row was walked
  int64_t growing = 0; ///< the same, and of positions that come with later tokens
  int64_t latest = 0;  ///< at some lengths up to this the latest reads of some rows
  /// "of sequences up to 57 tokens every read was followed; of ones up to ..."
  std::string describe() const;
};
/// The leak of the smallest length up to `longest`, if possible within the sequence. `row` is one
/// to look at first. Gives up, with nothing found, where the search would take more than seconds.
std::optional<FoundLeak> findLeak(const ReadPlan &plan, int64_t longest, int64_t row,
                                  LeakSearch &search);

/// Of a row that reads later tokens, shows that it reads its own target where it does: the witness
/// then names that token, and the path leads there.
void preferTarget(const ReadPlan &plan, FoundLeak &leak);

/// Runs `leak` on the reference twice, token changed or appended, and sets replay and change.
/// Leaves them where the module's context or the work is too large. Where the numbers stay the
/// same, `leak` becomes one of a somewhat greater length that changes them, if there is one.
void replayLeak(const ReadPlan &plan, FoundLeak &leak);
/// The same on the runs of a witness under given boundaries. Where no row changes, another leak
/// under other boundaries is looked for, whose row does.
void replaySegments(FoundLeak &leak, Boundaries &boundaries);

} // namespace sluice
