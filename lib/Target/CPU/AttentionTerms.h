// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What scores have by distance, in the blocks of attention's kernels.
//
// A pair of blocks, queries from p0 and keys from q0, has fewer than a queryBlock + b keyBlock
// distances a p - b q + c. The products of its queries with the rows of these distances are one
// matmul, on one scale twice as large as that of queries and keys, else a + b times. Scores, which
// have queries along lanes, gather them along diagonals: product [i][p] is that of the block's
// least distance + i, so key q0 + k reads row a p + b (keyBlock - 1 - k) for query p0 + p.
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
        firstOperand(unsigned(op->getNumOperands() - op.getExtras().size())),
        a(operands.distance.query), b(operands.distance.key), c(operands.distance.offset),
        step(distanceStep(op)) {}

  bool hasRows() const { return bool(operands.rows); }

  /// Opens the tensors and takes scratch; `firstGradient` is the frame's number of the first term's
  /// gradient, or absent in a forward kernel.
  void allocate(std::optional<unsigned> firstGradient = {});

  /// Packs a head's rows by distance and biases, from distance 0 on. Distances beyond the last
  /// valid row, or the table's last, repeat it. `length`: valid queries.
  void packHead(mlir::Value batchRow, mlir::Value length, mlir::Value head);

  /// Forward: the position queries from p0 on, transposed.
  void packQueries(mlir::Value p0, mlir::Value rowsOfBlock);

  /// Products of a pair of blocks. `row0` is the first row of the queries' transposed block.
  void emitProducts(mlir::Value p0, mlir::Value q0, mlir::Value row0);

  /// A score with its product; with its bias. Key q0 + key; queries p0 + offset + (0, 1, ...).
  mlir::Value addProduct(mlir::Value raw, mlir::Value key, mlir::Value offset);
  mlir::Value addBias(mlir::Value score, mlir::Value p0, mlir::Value q0, mlir::Value key,
                      mlir::Value offset);

  // Backward

  /// All position queries of a head, and zeros in the sums of its gradients.
  void packAllQueries();
  void transposeBlock(mlir::Value p0, mlir::Value row0);
  /// Adds gradients of scores after the region to those of biases.
  void addBiasGradient(mlir::Value gradient, mlir::Value p0, mlir::Value q0, mlir::Value key,
                       mlir::Value offset);
  /// dQv += dS R and dR += dS^T Qv for a pair of blocks; dS is [key][query].
  void emitGradients(mlir::Value scoreGradients, mlir::Value p0, mlir::Value q0, mlir::Value row0);
  /// Writes dQv of a block; `rows` is scratch.
  void storeQueries(mlir::Value p0, mlir::Value row0, mlir::Value rows);
  /// Writes dR, and the biases' part of the batch row.
  void storeHead(mlir::Value batchRow);
  /// Zeros in a head's rows from queries' `from` on and behind the valid rows by distance; where
  /// `isWhole` in all of them and in its biases' part.
  void storeZeros(mlir::Value batchRow, mlir::Value head, mlir::Value from, bool isWhole);

private:
  /// Packed rows before distance 0: those of queries and keys that no mask joins.
  int64_t front() const { return distancesOfPair(); }
  int64_t allQueries() const { return shape.queryBlocks * shape.queryBlock; }
  int64_t distancesOfPair() const { return a * shape.queryBlock + b * shape.keyBlock; }
  /// Distances of all queries: 0 to the greatest.
  int64_t allDistances() const { return a * allQueries() + std::max<int64_t>(c, 0); }
  int64_t packedCount() const { return front() + allDistances() + b; }
  int64_t biasRows() const { return extentOf(operands.bias, 0); }
  int64_t rowCount() const { return extentOf(operands.rows, 1); }
  static int64_t extentOf(mlir::Value tensor, unsigned dimension) {
    return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getDimSize(dimension);
  }
  /// Packed row of the least distance of a pair of blocks.
  mlir::Value firstRow(mlir::Value p0, mlir::Value q0) {
    return e.add(emitDistance(e, operands.distance, p0, q0), a * shape.queryBlock + b);
  }
  mlir::Value biasIndex(mlir::Value p0, mlir::Value q0, mlir::Value key, mlir::Value offset) {
    return e.add(emitDistance(e, operands.distance, e.add(p0, offset), e.add(q0, key)), front());
  }
  /// 0, stride, 2 stride, ... of as many lanes.
  mlir::Value steps(int64_t stride);
  mlir::Value allLanes();
  mlir::Value gather(mlir::Value memory, mlir::ValueRange first, int64_t stride);
  void scatter(mlir::Value vector, mlir::Value memory, mlir::ValueRange first, int64_t stride);
  /// Column p of a block's products is of query p0 + p: the row of key q0 + `key` at its first
  /// lane, and from one lane to the next.
  mlir::Value productRow(mlir::Value key, mlir::Value offset) {
    return e.add(e.sub(e.mul(offset, a), e.mul(key, b)), b * (shape.keyBlock - 1));
  }
  int64_t diagonal() const { return a * shape.queryBlock + 1; }
  void emitProductGradients(mlir::Value scoreGradients);
  void foldLastRow();
  mlir::Value columnOf(mlir::Value head) { return e.mul(head, shape.head); }

  const dispatch::DistanceTerms operands;
  const Target &target;
  const Shape &shape;
  Frame &frame;
  Emitter &e;
  const unsigned firstOperand;
  const int64_t a, b, c; ///< of the distance
  const int64_t step;    ///< its factor

  mlir::Value query, rows, table;                        // tensors
  mlir::Value queryGradient, rowGradient, tableGradient; // tensors
  mlir::Value packedRows, biases, products; // scratch of a head, and of a pair of blocks
  mlir::Value queryRows, queryBlocks;       // scratch of a head
  mlir::Value queryGradients, rowGradients, biasGradients; // sums of a head
  mlir::Value base, length, head;                          // of the head at hand
  mlir::Value rowBase, rowLength;                          // of its rows by distance
};

} // namespace sluice::cpu::attention
