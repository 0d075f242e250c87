// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a row can see, exactly: the ops' relations composed at one length. Bounds cannot tell this,
// for a hole does not show in an upper bound.
#pragma once

#include "sluice/Analysis/CausalFlow.h"
#include "sluice/Analysis/Picture.h"
#include "sluice/Analysis/WorkBudget.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "llvm/ADT/BitVector.h"
#include <memory>

namespace sluice {

/// Positions of every sequence that a row reads, itself or through others. One bit a position of
/// the value's scale; reads past its end are left out.
using ReachSets = llvm::DenseMap<mlir::Value, llvm::BitVector>;

class FixedSegments;

/// The reads of a function at one length; of segments those of what rows hold, under `boundaries`,
/// or without these under regular ones (RegularSegments). Relations are solved once; a row then
/// costs about one bit operation a position of each attention and one word operation per 64 of
/// everything else.
class ReachGraph {
public:
  ReachGraph(mlir::func::FuncOp function, int64_t length,
             std::optional<Boundaries> boundaries = std::nullopt);

  int64_t getLength(mlir::Value value) const { return infoOf(value).length; }
  /// Of a value on segments, the first token of a row; none of another value.
  std::optional<int64_t> firstTokenOf(mlir::Value value, int64_t row) const;
  /// What `position` of `value` reads, `value` included. Maps that are not stored are read through,
  /// past the end of their scale too, as the compiled program does.
  ReachSets sees(mlir::Value value, int64_t position) const;
  /// The same for several positions together.
  ReachSets sees(mlir::Value value, const llvm::BitVector &positions) const;
  /// First and last position of operand `operand` of `op` that position p reads, last < first where
  /// there is none. The sources of lazy maps are not clipped to their scale.
  std::pair<int64_t, int64_t> readRange(mlir::Operation *op, unsigned operand, int64_t p) const;

private:
  struct Info {
    int64_t length = 0;
    bool lazy = false;
  };
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;
  /// One operand's relation, solved; `ranges` where it is a range for each position of the result.
  struct Read {
    mlir::Value source;
    unsigned operand = 0;
    mlir::IntegerSet relation;
    MaskBounds bounds;
    bool identity = false;
    std::shared_ptr<const Ranges> ranges;
  };
  struct Node {
    mlir::Operation *op = nullptr;
    llvm::SmallVector<Read, 2> reads;
  };
  class Search;

  const Info &infoOf(mlir::Value value) const;
  void addInfo(const Scales &scales, mlir::Value value);
  Node makeNode(mlir::Operation *op);
  std::optional<Read> readOf(mlir::OpOperand &operand, int64_t rows);
  std::pair<int64_t, int64_t> rangeOf(const Read &read, int64_t p) const;

  int64_t length;
  std::shared_ptr<const FixedSegments> segments;
  llvm::DenseMap<mlir::Value, Info> infos;
  std::vector<Node> nodes; ///< in the order of the function
  llvm::DenseMap<mlir::Operation *, size_t> indexOf;
  llvm::DenseMap<std::pair<mlir::Attribute, std::pair<int64_t, int64_t>>,
                 std::shared_ptr<const Ranges>>
      known; ///< by relation and lengths
};

/// Where what made the op stands in the spec: its stage, or of an attention its mask.
spec::SourceLocation placeOf(mlir::Operation *op);

/// The least number of tokens after which the scales of a function begin together again: the least
/// common multiple of their factors, 0 where it is beyond 2^30. Segments are taken to be regular.
int64_t periodOf(mlir::func::FuncOp function);

/// Tokens that row t of a loss can never see although they come before its target, as a pattern in
/// t.
struct BlindPattern {
  CrossEntropyOp loss;
  int64_t period = 1;   ///< rows t and t + period see the same, moved by period
  int64_t length = 0;   ///< at which it was enumerated; 0: it would have taken too long
  int64_t firstRow = 0; ///< three periods from here on were compared
  bool repeats = false; ///< they agreed
  std::string segments; ///< "segments of 4 tokens", which were taken; empty where there are none
  struct Row {
    /// Tokens never seen, relative to the start of the row's period, first and last of each run.
    std::vector<std::pair<int64_t, int64_t>> holes;
    int64_t oldest = -1; ///< how many tokens back the row sees at most; -1: to the first one
    /// Residues of tokens, further back than all `holes`, that are never seen though others are.
    std::vector<int64_t> farHoles;
  };
  std::vector<Row> rows; ///< of t mod period
  bool hasHoles() const;
  /// "rows 4m+2 to 4m+3 never see tokens 4m+1 to the one before their own"
  std::string describe() const;
};
BlindPattern findBlindSpots(CrossEntropyOp loss);

/// What advice may use.
struct AdviceRequest {
  /// The spec that the module was imported from, at its factor: what is advised is then done to it,
  /// expanded and proved again. Without it (model IR), what can be done to the module itself is.
  const ParsedSpec *spec = nullptr;
  /// What is not looked at within so many is named in a note.
  int64_t operations = WorkBudget::defaultOperations;
};

/// Blind spots, shifts larger than the least causal one, stages that reach no loss, and facts that
/// are no defects (a bounded context). The module must be proved causal. What is advised leaves a
/// model that is proved causal as a whole.
void findAdvice(mlir::ModuleOp module, CausalVerdict &verdict, const AdviceRequest &request = {});

/// The picture of a checked module. A leak is drawn at its witness, another model at `row` of a
/// short sequence; without `row`, at one in the middle of a period of the scales. Segments are
/// those of `text`: of a rule, where its bytes say, of a predictor, where | stands behind a byte,
/// and || where segments are cut again. Without it they are regular. Returns nothing and sets
/// `error` where it would be too wide to read, has no loss, or the text does not fit.
std::optional<Picture> makePicture(mlir::ModuleOp module, const CausalVerdict &verdict,
                                   std::optional<int64_t> row, std::string &error,
                                   const std::string &text = {});

} // namespace sluice
