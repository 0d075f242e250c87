// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dependences as they are read from IR of any level: model IR, its backward, dispatches.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringMap.h"
#include <optional>

namespace sluice {

struct SegmentRead;

/// A function as reads between rows of its sequences. Stands by itself: the IR may be gone.
class ReadGraph {
public:
  /// Index of the value that stands for the sequence's length itself.
  static constexpr size_t length = 0;

  /// Boundary bits on one scale, and the axis of their segments.
  struct Segmentation {
    std::string name; ///< of its counts: the same before and after a pass
    size_t axis = 0;  ///< of the scale that is cut, as Value has it
    int64_t factor = 1;
  };
  /// The number that a row of counts or of ends holds.
  struct Term {
    size_t segmentation;
    bool isEnd;          ///< else a count
    mlir::AffineExpr at; ///< the row, of d0 = p and of symbols 1 + i, the terms before
  };
  struct Read : dispatch::RowRead {
    size_t source = length; ///< index in `values`
    MaskBounds bounds;      ///< Relation without terms: solved for q
    /// Relation that segments decide: symbol 1 + i is what term i holds.
    std::vector<Term> terms;
  };
  struct Value {
    std::string name;       ///< as ValueNames has it; "tokens", "length", "output 0"; may be empty
    std::string gradientOf; ///< name of the value that this is the gradient of, if any
    std::string op;         ///< what made it, for messages
    mlir::Location place;
    int64_t factor = 1;        ///< ceil(rows of the axis / factor) rows; 0: one row
    bool lazy = false;         ///< rows past its ends are read through it
    bool isTokens = false;     ///< rows past its end stand in memory too: targets
    std::vector<Read> reads{}; ///< of earlier values
    size_t maker = 0;          ///< the same for results of one op
    size_t axis = 0;           ///< 0: tokens; 1 + i: segments of segmentation i
    size_t measuredBy = 0;     ///< the axis that factors of its reads count rows of
    bool isEnds = false;       ///< rows from the first without an end on are all alike
  };
  /// A length, and where the bits of each segmentation are.
  struct Setting {
    int64_t length = 0;
    std::vector<std::vector<int64_t>> bits = {};
    std::vector<int64_t> rows = {}; ///< of factor 1, of each axis: as many segments as there may be
  };

  /// A row that holds those of a group side by side depends on all that any of them reads. With
  /// `byMember`, what unfolds windows laid over one another reads those of its own position alone.
  /// Where a function does not say whose segments rows are, they are those of the value with the
  /// name in `before`.
  explicit ReadGraph(mlir::func::FuncOp function, bool byMember = false,
                     const ReadGraph *before = nullptr);

  const std::vector<Value> &getValues() const { return values; }
  /// Index by name; none where no value has it.
  std::optional<size_t> find(llvm::StringRef name) const;
  bool hasSegments() const { return !segmentations.empty(); }
  /// A length with bits that its and the segmentations' names decide: others at every length, the
  /// same before and after a pass.
  Setting at(int64_t length) const;
  /// Valid rows.
  static int64_t countValidRows(const Value &value, const Setting &setting);
  /// Calls `visit(source, q)` for every row that row p of a value reads; q is `pastEnd(source)` for
  /// a row in memory that holds none of the sequence.
  void forEachRead(const Value &value, int64_t p, const Setting &setting,
                   llvm::function_ref<void(size_t, int64_t)> visit) const;
  /// Rows with a number of their own: the valid ones and, of tokens, some targets past them.
  static int64_t pastEnd(const Value &value, const Setting &setting);
  /// Twice the coarsest factor and the largest shift, in tokens, or `most` if that is less; with
  /// segments enough for some of each.
  int64_t lengthsToWalk(int64_t most) const;

private:
  void addSegmentations(mlir::func::FuncOp function);
  void addArguments(mlir::func::FuncOp function);
  void addOp(mlir::Operation &op);
  void addResult(mlir::Operation &op, unsigned result);
  void addOutput(mlir::Value value, size_t number);
  void add(mlir::Value value, Value description);
  void setAxis(Value &description, mlir::OpResult value, llvm::ArrayRef<SegmentRead> reads) const;
  const Value *findAxis(const Value &like, mlir::Operation *op,
                        llvm::ArrayRef<SegmentRead> reads) const;
  std::optional<Read> buildRead(mlir::Operation &op, const SegmentRead &read) const;
  std::vector<Read> collectOpReads(mlir::Operation &op, llvm::ArrayRef<SegmentRead> reads) const;
  void visitRow(size_t source, int64_t q, const Read &read, int64_t valid, const Setting &setting,
                llvm::function_ref<void(size_t, int64_t)> visit) const;
  void visitFound(const Value &value, const Read &read, int64_t p, const Setting &setting,
                  llvm::function_ref<void(size_t, int64_t)> visit) const;

  std::vector<Value> values;
  std::vector<Segmentation> segmentations;
  llvm::StringMap<size_t> axes; ///< of segments: number, by name
  /// Counts and ends: the segmentation, and whether it is the ends.
  llvm::DenseMap<mlir::Value, std::pair<size_t, bool>> numbers;
  llvm::DenseMap<mlir::Value, size_t> indices;
  llvm::StringMap<size_t> byName;
  size_t makers = 0;
  bool byMember;
  const ReadGraph *before; ///< while it is made
};

/// Where the rows of a graph's named values stand in sets of rows, for every length up to one,
/// whatever the bits.
class RowColumns {
public:
  RowColumns(const ReadGraph &graph, int64_t longest);
  size_t size() const { return rows.size(); }
  /// Column of row q of the value called `name`; none where the graph has none.
  std::optional<size_t> find(llvm::StringRef name, int64_t q) const;
  /// Index of the value, and the row.
  std::pair<size_t, int64_t> at(size_t column) const { return rows[column]; }

private:
  llvm::StringMap<size_t> first;
  std::vector<std::pair<size_t, int64_t>> rows;
};

/// Every row, of those that have a column, that each row of each value depends on, itself included:
/// [value][row]. Rows past the end come after the others.
using RowSets = std::vector<std::vector<llvm::BitVector>>;
RowSets computeClosure(const ReadGraph &graph, int64_t length, const RowColumns &columns);

} // namespace sluice
