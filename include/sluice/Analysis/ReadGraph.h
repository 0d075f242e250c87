// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dependences between rows, collected from IR of any level: model IR, its backward pass,
// dispatches.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringMap.h"
#include <optional>

namespace sluice {

struct SegmentRead;

/// Reads between rows of a function's sequences. Holds no reference to the IR, which may be
/// deleted.
class ReadGraph {
public:
  /// Index of the value that represents the length of the sequence.
  static constexpr size_t length = 0;

  /// Boundary bits on one scale, and the axis of their segments.
  struct Segmentation {
    std::string name; ///< name of the counts: the same before and after a pass
    size_t axis = 0;  ///< axis of the scale that is segmented, numbered as in GraphValue
    int64_t factor = 1;
  };
  /// The number in a row of counts or ends.
  struct Term {
    size_t segmentation;
    bool isEnd; ///< true for ends, false for counts
    /// The row, an expression of d0 = p and of symbols 1 + i, the preceding terms.
    mlir::AffineExpr at;
  };
  struct GraphRead : dispatch::RowRead {
    size_t source = length; ///< index in `values`
    MaskBounds bounds;      ///< the relation solved for q; empty for a relation with terms
    /// Terms of a relation that depends on segments: symbol 1 + i is the value of term i.
    std::vector<Term> terms;
  };
  struct GraphValue {
    std::string name; ///< the name in ValueNames; "tokens", "length" or "output 0"; may be empty
    std::string gradientOf; ///< name of the value whose gradient this is, if any
    std::string op;         ///< the op that computes the value, for messages
    mlir::Location place;
    int64_t factor = 1;    ///< the value has ceil(rows of the axis / factor) rows; 0: one row
    bool lazy = false;     ///< rows past its ends are read through it
    bool isTokens = false; ///< memory also holds rows past its end: targets
    std::vector<GraphRead> reads{}; ///< reads of earlier values
    size_t maker = 0;               ///< number of the op; equal for the results of one op
    size_t axis = 0;                ///< 0: tokens; 1 + i: segments of segmentation i
    size_t measuredBy = 0;          ///< the axis whose rows the factors of its reads count
    bool isEnds = false;            ///< all rows from the first one without an end are equal
    bool isWhole = false;           ///< rows without numbers, such as given ones: all count as one
  };
  /// A length, and the positions of the bits of each segmentation.
  struct SegmentLayout {
    int64_t length = 0;
    std::vector<std::vector<int64_t>> bits = {};
    std::vector<int64_t> rows = {}; ///< rows of factor 1 per axis: the maximum number of segments
  };

  /// Builds the graph of a function. A row that holds the rows of a group depends on all reads of
  /// the group. With `byMember`, an op that unfolds overlapping windows depends only on the reads
  /// of its own position. If a function does not specify the segmentation of its rows, they have
  /// the segmentation of the value with the same name in `before`.
  explicit ReadGraph(mlir::func::FuncOp function, bool byMember = false,
                     const ReadGraph *before = nullptr);

  const std::vector<GraphValue> &getValues() const { return values; }
  /// Returns the index of the value with this name, if there is one.
  std::optional<size_t> find(llvm::StringRef name) const;
  bool hasSegments() const { return !segmentations.empty(); }
  /// Returns a layout of this length. Its bits depend on the length and on the names of
  /// segmentations: they differ between lengths, and are equal before and after a pass.
  SegmentLayout at(int64_t length) const;
  /// Returns the number of valid rows.
  static int64_t countValidRows(const GraphValue &value, const SegmentLayout &setting);
  /// Calls `visit(source, q)` for every row that row p of a value reads; q is `pastEnd(source)` for
  /// a row in memory that is not part of the sequence.
  void forEachRead(const GraphValue &value, int64_t p, const SegmentLayout &setting,
                   llvm::function_ref<void(size_t, int64_t)> visit) const;
  /// Returns the number of rows with a number: the valid rows and, for tokens, some targets past
  /// them.
  static int64_t pastEnd(const GraphValue &value, const SegmentLayout &setting);
  /// Returns twice the coarsest factor plus the largest shift, in tokens, or `most` if that is
  /// smaller. With segments, the length is sufficient for segments of each kind.
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
  llvm::StringMap<size_t> axes; ///< number of each axis of segments, by name
  /// Counts and ends, each with its segmentation; true for ends.
  llvm::DenseMap<mlir::Value, std::pair<size_t, bool>> numbers;
  llvm::DenseMap<mlir::Value, size_t> indices;
  llvm::StringMap<size_t> byName;
  size_t makers = 0;
  bool byMember;
  const ReadGraph *before; ///< set during construction only
};

/// Numbers the rows of a graph's named values as columns of row sets, for every length up to a
/// maximum, independent of the bits.
class RowColumns {
public:
  RowColumns(const ReadGraph &graph, int64_t longest);
  size_t size() const { return rows.size(); }
  /// Returns the column of row q of the value named `name`, if the graph has such a row.
  std::optional<size_t> find(llvm::StringRef name, int64_t q) const;
  /// Returns the index of the value and the row of a column.
  std::pair<size_t, int64_t> at(size_t column) const { return rows[column]; }

private:
  llvm::StringMap<size_t> first;
  std::vector<std::pair<size_t, int64_t>> rows;
};

/// For each row of each value, the set of columns that the row depends on, including its own:
/// [value][row]. Rows past the end follow the others.
using RowSets = std::vector<std::vector<llvm::BitVector>>;
RowSets computeClosure(const ReadGraph &graph, int64_t length, const RowColumns &columns);

} // namespace sluice
