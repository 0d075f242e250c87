// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Boundaries as inputs: the boundaries that the rules of a model can produce, and the runs for a
// witness.
#pragma once

#include "sluice/Explain/LeakSearch.h"
#include "sluice/Explain/Verdict.h"
#include <limits>

namespace sluice {

/// Sources of the bits of a function's cuts, in order: predictors, or rules of a spec.
class BoundaryRules {
public:
  enum Kind { Predicted, ByPosition, ByToken };
  struct BoundarySource {
    Kind kind = Predicted;
    int64_t factor = 1;                    ///< factor of the scale that is segmented
    llvm::DenseSet<int64_t> members;       ///< rows of the rule's table that are 1
    llvm::SmallVector<SegmentOp> selected; ///< the bit belongs to the token that ends a segment
    bool hasFirst = false;                 ///< the first row has a bit, for any rule or predictor
    bool isNeverFirst = false;             ///< the rule gives the first row no bit
    int64_t capacity = std::numeric_limits<int64_t>::max(); ///< maximum number of segments
    bool isChange = false; ///< the bit marks a member whose preceding token is not a member
    llvm::DenseSet<int64_t> documentEnds; ///< tokens that force a bit, for any rule or predictor
    /// Path from a bit to the token that forces it: for each step, the segmentation whose ends are
    /// read, or null for a step back by one row.
    llvm::SmallVector<SegmentOp> toDocument;
  };
  explicit BoundaryRules(mlir::func::FuncOp function);

  /// Returns the number of places for bits of a segmentation in `length` tokens: the rows of its
  /// scale or, for segments of segments, the segments that `boundaries` of earlier segmentations
  /// close.
  int64_t countPlaces(const Boundaries &boundaries, size_t cut, int64_t length) const;
  /// Returns the boundaries of a segmentation that depend only on positions.
  std::optional<std::vector<int64_t>> findRegular(size_t cut, int64_t places) const;
  /// Returns tokens for which rules by token produce the boundaries of the first segmentations;
  /// none if no such tokens exist.
  std::optional<std::vector<int32_t>> findTokens(const Boundaries &boundaries,
                                                 int64_t length) const;
  /// Returns true if the bits of a cut begin segments: the first row has one.
  bool begins(size_t cut) const {
    const BoundarySource &source = sources[cut];
    return source.hasFirst || (source.kind == ByPosition && source.members.contains(0));
  }
  bool begins(SegmentOp cut) const {
    return begins(static_cast<size_t>(llvm::find(cuts, cut) - cuts.begin()));
  }
  /// Returns the boundaries of a text. `marks` has, for each token, the number of levels of
  /// predicted segments that end there. Returns none if there is a predictor but no mark, or if the
  /// lengths differ.
  std::optional<Boundaries> replayBoundaries(llvm::ArrayRef<int32_t> tokens,
                                             llvm::ArrayRef<int64_t> marks) const;
  /// Returns the runs that demonstrate a leak: first the witness, then the runs that are compared
  /// with it, with the token changed, under the same boundaries or with a boundary that follows
  /// from the token. Returns none if no tokens produce the boundaries.
  std::vector<SegmentRun> findRuns(const FoundLeak &leak, const Boundaries &boundaries) const;

private:
  bool endsDocument(const Boundaries &boundaries, size_t cut, int64_t place,
                    llvm::ArrayRef<int32_t> tokens) const;
  /// For each token, the segmentations by rule and whether each needs a bit there.
  using Wishes = std::vector<std::vector<std::pair<size_t, bool>>>;
  Wishes computeWishes(const Boundaries &boundaries, int64_t length) const;
  /// Returns true if a run of the program can have the boundaries of one cut, or of all cuts.
  bool canBe(const std::vector<int64_t> &boundaries, size_t cut, int64_t places) const;
  bool canAllBe(const Boundaries &boundaries, int64_t length) const;
  std::optional<int32_t> findToken(const Wishes &wishes, int64_t t, bool turned,
                                   std::optional<int32_t> but) const;
  /// Rows of zeros and ones for predicted cuts, at least one more than the context and the length.
  ForcedBits findBits(const Boundaries &boundaries, int64_t length) const;
  Boundaries turnedAt(Boundaries boundaries, size_t cut, int64_t position, int64_t length) const;
  std::optional<size_t> findCut(mlir::Value bits) const;
  /// The tokens of row p of a segmentation: its first and last token, the token that rules read,
  /// and the number of levels that end there.
  struct CutRow {
    int64_t first, last, asked, level = 1;
  };
  CutRow computeRow(const Boundaries &boundaries, size_t cut, int64_t p, int64_t length) const;

  mlir::func::FuncOp function;
  llvm::SmallVector<SegmentOp> cuts;
  llvm::SmallVector<BoundarySource> sources;
};

/// Makes every function read the bits of the segmentations in `bits` from a parameter, row by row.
void forceBits(mlir::ModuleOp module, const ForcedBits &bits);

} // namespace sluice
