// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Follows the reads of positions at one length of the sequence.
#pragma once

#include "sluice/Dialect/Sluice/MaskBounds.h"
#include "sluice/Proof/Scales.h"

namespace sluice {

/// A lazy value as a map of a stored value: position p reads `root` at floor((p - shift) / factor).
/// A chain of shifts and upsamplings of any length is one such map.
struct LazyMap {
  mlir::Value root;
  int64_t shift = 0, factor = 1;
  int64_t at(int64_t p) const;
};

/// Reads of the ops of a function, solved once for all lengths.
class ReadPlan {
public:
  explicit ReadPlan(mlir::func::FuncOp function);

  /// One operand of an op: its relation, and the relation solved for q.
  struct OperandRead {
    mlir::Value operand;
    mlir::IntegerSet relation;
    MaskBounds bounds;
    bool mentionsLength;
    bool endsLazy; ///< endsLazySource
  };
  llvm::ArrayRef<OperandRead> getOpReads(mlir::Operation *op) const {
    return reads.find(op)->second;
  }
  /// Returns the map of a lazy value; null if the value is stored or is not such a map.
  const LazyMap *getLazyMap(mlir::Value value) const;
  int64_t computeLength(mlir::Value value, int64_t length) const;

  mlir::func::FuncOp function;
  Scales scales;
  std::vector<mlir::Operation *> ops; ///< ops that compute sequences, in program order

private:
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<OperandRead, 2>> reads;
  llvm::DenseMap<mlir::Value, LazyMap> maps;
};

/// Finds the positions that a position reads at one length, by following the relations themselves.
/// Independent of the frontiers.
class ReadWalk {
public:
  /// The latest token that a position reaches, or the first token of a position that it reads.
  struct ReachedToken {
    int64_t token = -1;
    mlir::Value
        operand; ///< the next read on the path; null at the token, or at the position of that token
    int64_t position = 0;
  };

  /// With `missing`, a read of a position also reads the token from which the position exists, even
  /// past the end; otherwise the position is null there. Every read that is followed takes one unit
  /// of `budget`; further reads are null once the budget is negative.
  ReadWalk(const ReadPlan &plan, int64_t length, bool missing, int64_t *budget = nullptr);
  ReachedToken at(mlir::Value value, int64_t position) const;
  int64_t getLength(mlir::Value value) const { return plan.computeLength(value, length); }
  /// Returns the reads from position `position` of `value` back to its latest token.
  std::vector<std::pair<mlir::Value, int64_t>> pathFrom(mlir::Value value, int64_t position) const;

private:
  ReachedToken compute(mlir::Operation *op, int64_t position) const;
  int64_t latestUpTo(mlir::Value value, int64_t last) const;

  const ReadPlan &plan;
  int64_t length;
  bool missing;
  int64_t *budget;
  llvm::DenseMap<mlir::Value, std::vector<ReachedToken>> stored;
  /// For each position, the first position up to it that reaches the latest token.
  llvm::DenseMap<mlir::Value, std::vector<int64_t>> latest;
};

} // namespace sluice
