// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What scores have by distance, in the blocks of attention's kernels.
//
// A pair of blocks, queries from p0 and keys from q0, has keyBlock + queryBlock - 1 distances
// p - q. The products of its queries with the rows of these distances are one matmul, twice as
// large as that of queries and keys. Scores, which have queries along lanes, gather them along
// diagonals: product [i][p] is that of distance p0 - q0 - keyBlock + 1 + i, so key q0 + k reads row
// p - k + keyBlock - 1 for query p0 + p.
#pragma once

#include "Attention.h"

#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::cpu::attention {

/// The terms of one query head of one row of the batch.
class Terms {
public:
  template <typename Op>
  Terms(Op op, const Target &target, const Shape &shape, Frame &frame, Emitter &e)
      : operands(op.getTerms()), target(target), shape(shape), frame(frame), e(e),
        firstOperand(unsigned(op->getNumOperands() - op.getExtras().size())) {}

  bool hasRows() const { return bool(operands.rows); }

  /// Opens the tensors and takes scratch; `firstGradient` is the frame's number of the first term's
  /// gradient, or absent in a forward kernel.
  void allocate(std::optional<unsigned> firstGradient = {});

  /// Packs a head's rows by distance and biases, from distance 0 on. Distances from `length` on are
  /// read by no valid query, and repeat the last.
  void packHead(mlir::Value base, mlir::Value length, mlir::Value head);

  /// Forward: the position queries from p0 on, transposed.
  void packQueries(mlir::Value p0, mlir::Value rowsOfBlock);

  /// Products of a pair of blocks. `row0` is the first row of the queries' transposed block.
  void emitProducts(mlir::Value p0, mlir::Value q0, mlir::Value row0);

  /// A score with its product; with its bias. Key q0 + key; queries p0 + offset + (0, 1, ...).
  mlir::Value addProduct(mlir::Value raw, mlir::Value key, mlir::Value offset);
  mlir::Value addBias(mlir::Value score, mlir::Value p0, mlir::Value q0, mlir::Value key,
                      mlir::Value offset);

  // Backward

  /// Rows of zeros before and after a block of score gradients, which diagonals run over.
  int64_t padding() const { return operands.rows ? shape.queryBlock : 0; }
  /// All position queries of a head, and zeros in the sums of its gradients.
  void packAllQueries(mlir::Value base, mlir::Value length, mlir::Value head);
  void transposeBlock(mlir::Value p0, mlir::Value row0);
  /// Adds gradients of scores after the region to those of biases.
  void addBiasGradient(mlir::Value gradient, mlir::Value p0, mlir::Value q0, mlir::Value key,
                       mlir::Value offset);
  /// dQv += dS R and dR += dS^T Qv for a pair of blocks; dS is [key][query] behind the padding.
  void emitGradients(mlir::Value scoreGradients, mlir::Value p0, mlir::Value q0, mlir::Value row0);
  /// Writes dQv of a block; `rows` is scratch.
  void storeQueries(mlir::Value p0, mlir::Value row0, mlir::Value rows);
  /// Writes dR, and the biases' part of the batch row.
  void storeHead(mlir::Value batchRow);
  /// Zeros in a head's rows from `from` on, and where `noBiases` in its biases' part.
  void storeZeros(mlir::Value batchRow, mlir::Value head, mlir::Value from, bool noBiases);

private:
  /// Packed rows before distance 0: those of queries and keys that no mask joins.
  int64_t front() const { return shape.keyBlock + shape.queryBlock; }
  int64_t allQueries() const { return shape.queryBlocks * shape.queryBlock; }
  int64_t distancesOfPair() const { return shape.keyBlock + shape.queryBlock; }
  int64_t biasRows() const {
    return llvm::cast<mlir::RankedTensorType>(operands.bias.getType()).getDimSize(0);
  }
  mlir::Value firstRow(mlir::Value p0, mlir::Value q0) {
    return e.add(e.sub(p0, q0), shape.queryBlock + 1);
  }
  mlir::Value biasIndex(mlir::Value p0, mlir::Value q0, mlir::Value key, mlir::Value offset) {
    return e.add(e.sub(e.add(p0, offset), e.add(q0, key)), front());
  }
  mlir::Value diagonal(mlir::Value memory, mlir::Value row, mlir::Value column);
  mlir::Value columnOf(mlir::Value head) { return e.mul(head, shape.head); }

  const dispatch::DistanceTerms operands;
  const Target &target;
  const Shape &shape;
  Frame &frame;
  Emitter &e;
  const unsigned firstOperand;

  mlir::Value query, rows, table;                        // tensors
  mlir::Value queryGradient, rowGradient, tableGradient; // tensors
  mlir::Value packedRows, biases, products; // scratch of a head, and of a pair of blocks
  mlir::Value queryRows, queryBlocks;       // scratch of a head
  mlir::Value queryGradients, rowGradients, biasGradients; // sums of a head
  mlir::Value base, length, head;                          // of the head at hand
};

} // namespace sluice::cpu::attention
