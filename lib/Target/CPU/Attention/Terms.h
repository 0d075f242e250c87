// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Relative position terms of scores, for the blocks of attention's kernels.
//
// Query p and key q have the distance x - b q, where x = a p + c. Rows by distance are divided into
// b classes: the row of distance d is number d div b of class d mod b. Query p thus uses rows of
// one class, x mod b, and key q the row with number x div b - q. Consecutive queries of a class are
// period = b / gcd(a, b) apart, and their numbers differ by shift = a / gcd(a, b).
//
// In a block, queries are ordered by class, and several consecutive queries of a class form a band.
// In a block of keys a band uses keyBlock + shift (its rows - 1) numbers, so its products are a
// single matmul that is little wider than a band of scores. Numbers decrease along columns, so the
// products of a query are in the order of keys, `shift` columns apart from the products of the next
// query. Scores have queries along lanes: squares of products are transposed on the way to the
// scores, and the scores' gradients on the way back.
#pragma once

#include "Attention.h"

#include "sluice/Dialect/Dispatch/Dispatch.h"

namespace sluice::cpu::attention {

/// Layout of a block's queries and of the rows by distance.
struct TermBands {
  int64_t period;  ///< distance between consecutive queries of a class
  int64_t shift;   ///< difference of their numbers
  int64_t ofClass; ///< queries of a class in a block, rounded up to whole bands
  int64_t rows;    ///< queries per band
  int64_t width;   ///< numbers that a band uses in a block of keys, in whole vectors
  int64_t top;     ///< column j of a class has number top - j
  int64_t columns; ///< columns of a class, in whole vectors
  int64_t block() const { return period * ofClass; } ///< packed queries per block
};

/// Terms of one query head of one row of the batch.
struct HeadTerms {
  template <typename Op>
  HeadTerms(Op op, const Target &target, const AttentionShape &shape, Frame &frame, Emitter &e)
      : operands(op.getTerms()), target(target), shape(shape), frame(frame), e(e),
        firstOperand(unsigned(op->getNumOperands() - op.getExtras().size())),
        a(operands.distance.query), b(operands.distance.key), c(operands.distance.offset),
        step(distanceStep(op)), bands(makeBands()) {}

  bool hasRows() const { return bool(operands.rows); }

  /// Gets views of the tensors and allocates scratch. `firstGradient` is the frame's number of the
  /// gradient of the first term; absent in a forward kernel.
  void allocate(std::optional<unsigned> firstGradient = {});

  /// Packs rows by distance and biases of a head, from distance 0. Distances beyond the last valid
  /// row, or the last row of the table, repeat it. `length` is the number of valid queries.
  void packHead(mlir::Value batchRow, mlir::Value length, mlir::Value head);

  /// Packs the position queries of the block that starts at p0.
  void packQueries(mlir::Value p0);

  /// Computes the products of a pair of blocks, for `computeDotProduct`.
  void emitProducts(mlir::Value p0, mlir::Value q0);

  /// Arguments of a score region in addition to the score: product by distance and bias, null if
  /// absent. For key q0 + key and queries p0 + offset + (0, 1, ...).
  mlir::Value computeDotProduct(mlir::Value key, mlir::Value offset);
  mlir::Value computeBias(mlir::Value p0, mlir::Value q0, mlir::Value key, mlir::Value offset);

  // Backward

  /// Clears the sums of a head's gradients.
  void clearGradients();
  /// Adds the derivatives with respect to biases to the gradients of biases.
  void addBiasGradient(mlir::Value gradient, mlir::Value p0, mlir::Value q0, mlir::Value key,
                       mlir::Value offset);
  /// Computes dQv += dT R and dR += dT^T Qv for a pair of blocks; dT, the gradient of the products,
  /// is [key][query].
  void emitGradients(mlir::Value gradients, mlir::Value p0, mlir::Value q0);
  /// Stores dQv of a block.
  void storeQueries(mlir::Value p0);
  /// Stores dR, and the partial bias gradients of the batch row.
  void storeHead(mlir::Value batchRow);
  /// Stores zeros to a head's rows: rows of queries from `from` on, and rows by distance after the
  /// valid ones. With `isWhole` stores zeros to all of them and to the partial bias gradients.
  void storeZeros(mlir::Value batchRow, mlir::Value head, mlir::Value from, mlir::Value to,
                  bool isWhole);

  TermBands makeBands() const;
  /// Number of distances below 0 that a pair of blocks may have, where the mask excludes them.
  int64_t front() const { return a * shape.queryBlock + b * shape.keyBlock; }
  int64_t allQueries() const { return shape.queryBlocks * shape.queryBlock; }
  /// Number of distances of all queries: from 0 to the maximum.
  int64_t allDistances() const { return a * allQueries() + std::max<int64_t>(c, 0); }
  int64_t biasRows() const { return getExtent(operands.bias, 0); }
  /// Returns the number of rows of R or, for a table of rows, of one head's part of its gradient.
  int64_t rowCount() const {
    return operands.hasRowTable() ? operands.countDistances(shape.queries)
                                  : getExtent(operands.rows, 1);
  }
  static int64_t getExtent(mlir::Value tensor, unsigned dimension) {
    return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getDimSize(dimension);
  }
  const dispatch::DistanceTerms operands;
  const Target &target;
  const AttentionShape &shape;
  Frame &frame;
  Emitter &e;
  const unsigned firstOperand;
  const int64_t a, b, c; ///< coefficients of the distance
  const int64_t step;    ///< factor of the distance
  const TermBands bands;
  bool keepsQueries = false; ///< packs the queries of all blocks

  mlir::Value query, rows, table;                        // tensors
  mlir::Value queryGradient, rowGradient, tableGradient; // tensors
  mlir::Value rowColumns, packedRows, biases; // scratch per head: rows by distance in both layouts,
                                              // [class, column of the head][column] and transposed
  mlir::Value queryRows;                      // scratch per block, or for all blocks
  mlir::Value products, productGradients;     // per pair of blocks, [query][column of a band]
  mlir::Value scoreProducts;                  // per pair of blocks, [key][query]
  mlir::Value queryGradients, rowGradients, biasGradients; // sums of a head
  mlir::Value base, length, head;                          // current head: first row, valid rows,
                                                           // number
  mlir::Value rowBase, rowLength; // its rows by distance: first row, valid rows
};

/// Computes the scores (before the mask) of key q0 + `key` and of a vector of queries p0 + `offset`
/// + (0, 1, ...). `arguments` are the first arguments of the score region: the product, the numbers
/// of the queries, the number of the key and the head.
mlir::Value computeScore(HeadTerms &terms, mlir::Region &region, mlir::ValueRange arguments,
                         mlir::Value p0, mlir::Value q0, mlir::Value key, mlir::Value offset);

} // namespace sluice::cpu::attention
