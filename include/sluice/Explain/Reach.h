// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes the exact set of tokens that a row can see, by composing the ops' relations at one
// length. Upper bounds are not sufficient, because they have no holes.
#pragma once

#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Explain/FixedSegments.h"
#include "sluice/Explain/LeakSearch.h"
#include "sluice/Proof/Scales.h"
#include "llvm/ADT/BitVector.h"
#include <memory>

namespace sluice {

/// Positions of every sequence that a row reads, directly or through other positions. One bit per
/// position of the value's scale; reads past its end are omitted.
using ReachSets = llvm::DenseMap<mlir::Value, llvm::BitVector>;

class FixedSegments;

/// Reads of a function at one length. On segments, only reads of the contents of rows count, not
/// reads of counts or bits; segments have the given `boundaries`, or regular boundaries
/// (RegularSegments) without them. Relations are solved once; a row then costs about one bit
/// operation per position of each attention, and one word operation per 64 positions of all other
/// ops.
class ReachGraph {
public:
  ReachGraph(mlir::func::FuncOp function, int64_t length,
             std::optional<Boundaries> boundaries = std::nullopt);

  int64_t getLength(mlir::Value value) const { return getNodeInfo(value).length; }
  /// Returns the first token of a row of a value on segments; none for other values.
  std::optional<int64_t> getFirstToken(mlir::Value value, int64_t row) const;
  /// Returns the reads of `position` of `value`, including the position itself. Reads through maps
  /// that are not stored, also past the end of their scale, as the compiled program does.
  ReachSets sees(mlir::Value value, int64_t position) const;
  /// Returns the reads of several positions together.
  ReachSets sees(mlir::Value value, const llvm::BitVector &positions) const;
  /// Returns the first and last position of operand `operand` of `op` that position p reads; last <
  /// first if there is none. The sources of lazy maps are not limited to their scale.
  std::pair<int64_t, int64_t> readRange(mlir::Operation *op, unsigned operand, int64_t p) const;

private:
  struct Info {
    int64_t length = 0;
    bool lazy = false;
  };
  using Ranges = std::vector<std::pair<int64_t, int64_t>>;
  /// The relation of one operand, solved; with `ranges` if each position of the result reads a
  /// range.
  struct SolvedRead {
    mlir::Value source;
    unsigned operand = 0;
    mlir::IntegerSet relation;
    MaskBounds bounds;
    bool identity = false;
    std::shared_ptr<const Ranges> ranges;
  };
  struct Node {
    mlir::Operation *op = nullptr;
    llvm::SmallVector<SolvedRead, 2> reads;
  };
  class Search;

  const Info &getNodeInfo(mlir::Value value) const;
  void addInfo(const Scales &scales, mlir::Value value);
  Node makeNode(mlir::Operation *op);
  std::optional<SolvedRead> buildRead(mlir::OpOperand &operand, int64_t rows);
  std::pair<int64_t, int64_t> computeRange(const SolvedRead &read, int64_t p) const;

  int64_t length;
  std::shared_ptr<const FixedSegments> segments;
  llvm::DenseMap<mlir::Value, Info> infos;
  std::vector<Node> nodes; ///< in program order
  llvm::DenseMap<mlir::Operation *, size_t> indexOf;
  llvm::DenseMap<std::pair<mlir::Attribute, std::pair<int64_t, int64_t>>,
                 std::shared_ptr<const Ranges>>
      known; ///< ranges by relation and lengths
};

} // namespace sluice
