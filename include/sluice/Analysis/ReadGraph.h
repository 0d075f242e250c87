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

/// Reads between rows of a function's sequences. Independent of the IR, which may be deleted.
class ReadGraph {
public:
  /// Index of the value that represents the length of the sequence.
  static constexpr size_t length = 0;

  /// Boundary bits on one scale, and the axis of their segments.
  struct Segmentation {
    std::string name; ///< of its counts: the same before and after a pass
    size_t axis = 0;  ///< of the scale that is cut, as Value has it
    int64_t factor = 1;
  };
  /// The number in a row of counts or of ends.
  struct Term {
    size_t segmentation;
    bool isEnd;          ///< else a count
    mlir::AffineExpr at; ///< the row, of d0 = p and of symbols 1 + i, the terms before
  };
  struct GraphRead : dispatch::RowRead {
    size_t source = length; ///< index in `values`
    MaskBounds bounds;      ///< Relation without terms: solved for q
    /// Terms of a relation that depends on segments: symbol 1 + i is the value of term i.
    std::vector<Term> terms;
  };
  struct GraphValue {
    std::string name;       ///< as ValueNames has it; "tokens", "length", "output 0"; may be empty
    std::string gradientOf; ///< name of the value that this is the gradient of, if any
    std::string op;         ///< what made it, for messages
    mlir::Location place;
    int64_t factor = 1;             ///< ceil(rows of the axis / factor) rows; 0: one row
    bool lazy = false;              ///< rows past its ends are read through it
    bool isTokens = false;          ///< rows past its end are in memory too: targets
    std::vector<GraphRead> reads{}; ///< of earlier values
    size_t maker = 0;               ///< the same for results of one op
    size_t axis = 0;                ///< 0: tokens; 1 + i: segments of segmentation i
    size_t measuredBy = 0;          ///< the axis that factors of its reads count rows of
    bool isEnds = false;            ///< rows from the first without an end on are all alike
  };
  /// A length, and the positions of the bits of each segmentation.
  struct SegmentLayout {
    int64_t length = 0;
    std::vector<std::vector<int64_t>> bits = {};
    std::vector<int64_t> rows = {}; ///< of factor 1, of each axis: as many segments as there may be
  };

  /// Builds the graph of a function. A row that holds the rows of a group depends on all reads of
  /// the group. With `byMember`, an op that unfolds overlapping windows depends only on the reads
  /// of its own position. If a function does not tell whose segments its rows are, they are the
  /// segments of the value with the same name in `before`.
  explicit ReadGraph(mlir::func::FuncOp function, bool byMember = false,
                     const ReadGraph *before = nullptr);

  const std::vector<GraphValue> &getValues() const { return values; }
  /// Returns the index of the value with this name; none if there is none.
  std::optional<size_t> find(llvm::StringRef name) const;
  bool hasSegments() const { return !segmentations.empty(); }
  /// Returns a length with bits that depend on it and on the names of segmentations: they differ
  /// from length to length, and are the same before and after a pass.
  SegmentLayout at(int64_t length) const;
  /// Valid rows.
  static int64_t countValidRows(const GraphValue &value, const SegmentLayout &setting);
  /// Calls `visit(source, q)` for every row that row p of a value reads; q is `pastEnd(source)` for
  /// a row in memory that holds none of the sequence.
  void forEachRead(const GraphValue &value, int64_t p, const SegmentLayout &setting,
                   llvm::function_ref<void(size_t, int64_t)> visit) const;
  /// Returns the number of numbered rows: the valid ones and, for tokens, some targets past them.
  static int64_t pastEnd(const GraphValue &value, const SegmentLayout &setting);
  /// Returns twice the coarsest factor and the largest shift, in tokens, or `most` if that is less;
  /// with enough segments to have some of each kind.
  int64_t lengthsToWalk(int64_t most) const;

private:
  void addSegmentations(mlir::func::FuncOp function);
  void addArguments(mlir::func::FuncOp function);
  void addOp(mlir::Operation &op);
  void addResult(mlir::Operation &op, unsigned result);
  void addOutput(mlir::Value value, size_t number);
  void add(mlir::Value value, GraphValue description);
  void setAxis(GraphValue &description, mlir::OpResult value,
               llvm::ArrayRef<SegmentRead> reads) const;
  const GraphValue *findAxis(const GraphValue &like, mlir::Operation *op,
                             llvm::ArrayRef<SegmentRead> reads) const;
  std::optional<GraphRead> buildRead(mlir::Operation &op, const SegmentRead &read) const;
  std::vector<GraphRead> collectOpReads(mlir::Operation &op,
                                        llvm::ArrayRef<SegmentRead> reads) const;
  void visitRow(size_t source, int64_t q, const GraphRead &read, int64_t valid,
                const SegmentLayout &setting,
                llvm::function_ref<void(size_t, int64_t)> visit) const;
  void visitFound(const GraphValue &value, const GraphRead &read, int64_t p,
                  const SegmentLayout &setting,
                  llvm::function_ref<void(size_t, int64_t)> visit) const;

  std::vector<GraphValue> values;
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

/// Columns in sets of rows for the rows of a graph's named values, for every length up to a
/// maximum, independent of the bits.
class RowColumns {
public:
  RowColumns(const ReadGraph &graph, int64_t longest);
  size_t size() const { return rows.size(); }
  /// Returns the column of row q of the value called `name`; none if the graph has no such row.
  std::optional<size_t> find(llvm::StringRef name, int64_t q) const;
  /// Returns the index of the value, and the row.
  std::pair<size_t, int64_t> at(size_t column) const { return rows[column]; }

private:
  llvm::StringMap<size_t> first;
  std::vector<std::pair<size_t, int64_t>> rows;
};

/// Sets of the rows with a column that each row of each value depends on, including itself:
/// [value][row]. Rows past the end come after the others.
using RowSets = std::vector<std::vector<llvm::BitVector>>;
RowSets computeClosure(const ReadGraph &graph, int64_t length, const RowColumns &columns);

} // namespace sluice
