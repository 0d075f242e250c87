// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What scores have by distance, in the blocks of attention's kernels.
//
// Query p and key q have the distance x - b q, x = a p + c. Rows by distance lie in b classes: that
// of distance d is number d div b of class d mod b. So query p meets rows of one class, x mod b,
// key q its number x div b - q. Queries of one class are period = b / gcd(a, b) apart, and their
// numbers shift = a / gcd(a, b).
//
// In a block, queries lie class by class, and some neighbours of a class are a band. In a block of
// keys a band meets keyBlock + shift (its rows - 1) numbers: its products are one matmul, little
// more than a band of scores is. Numbers fall along columns, so that a query's products lie in the
// order of keys, each query's `shift` columns from its neighbour's. Scores have queries along
// lanes: squares of products are transposed from there, and the scores' gradients back.
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
        step(distanceStep(op)), bands(makeBands()) {}

  bool hasRows() const { return bool(operands.rows); }

  /// Opens the tensors and takes scratch; `firstGradient` is the frame's number of the first term's
  /// gradient, or absent in a forward kernel.
  void allocate(std::optional<unsigned> firstGradient = {});

  /// Packs a head's rows by distance and biases, from distance 0 on. Distances beyond the last
  /// valid row, or the table's last, repeat it. `length`: valid queries.
  void packHead(mlir::Value batchRow, mlir::Value length, mlir::Value head);

  /// Packs the position queries of the block from p0 on.
  void packQueries(mlir::Value p0);

  /// Products of a pair of blocks, for `productOf`.
  void emitProducts(mlir::Value p0, mlir::Value q0);

  /// What a score region is given besides the score: its product by distance and its bias, null
  /// where there are none. Key q0 + key; queries p0 + offset + (0, 1, ...).
  mlir::Value productOf(mlir::Value key, mlir::Value offset);
  mlir::Value biasOf(mlir::Value p0, mlir::Value q0, mlir::Value key, mlir::Value offset);

  // Backward

  /// Zeros in the sums of a head's gradients.
  void clearGradients();
  /// Adds what the derivative says of biases to their gradients.
  void addBiasGradient(mlir::Value gradient, mlir::Value p0, mlir::Value q0, mlir::Value key,
                       mlir::Value offset);
  /// dQv += dT R and dR += dT^T Qv for a pair of blocks; dT, the gradients of products, is
  /// [key][query].
  void emitGradients(mlir::Value gradients, mlir::Value p0, mlir::Value q0);
  /// Writes dQv of a block.
  void storeQueries(mlir::Value p0);
  /// Writes dR, and the biases' part of the batch row.
  void storeHead(mlir::Value batchRow);
  /// Zeros in a head's rows from queries' `from` on and behind the valid rows by distance; where
  /// `isWhole` in all of them and in its biases' part.
  void storeZeros(mlir::Value batchRow, mlir::Value head, mlir::Value from, mlir::Value to,
                  bool isWhole);

private:
  /// How a block's queries and the rows by distance lie.
  struct Bands {
    int64_t period;  ///< from a query to the next of its class
    int64_t shift;   ///< from its number to that one's
    int64_t ofClass; ///< queries of a class in a block, rounded up to whole bands
    int64_t rows;    ///< queries of a band
    int64_t width;   ///< numbers that a band meets in a block of keys, in whole vectors
    int64_t top;     ///< column j of a class has number top - j
    int64_t columns; ///< of a class, in whole vectors
    int64_t block() const { return period * ofClass; } ///< packed queries of a block
  };
  /// A band and a block of keys: the band's first packed query of the block, its class, and the
  /// column of its last query and the block's first key.
  struct Band {
    mlir::Value row, rowClass, column;
  };
  /// A query's row in its block, and the column of its products where that of key q0 is.
  struct Place {
    mlir::Value row, column;
  };
  using Square = llvm::function_ref<void(mlir::Value query, mlir::Value key, int64_t keys,
                                         llvm::ArrayRef<Place> places)>;

  Bands makeBands() const;
  Place placeOf(mlir::Value queryOfBlock);
  void eachBand(mlir::Value p0, mlir::Value q0, llvm::function_ref<void(const Band &)> body);
  /// Runs `body` for each square of a pair of blocks: lanes queries and at most as many keys.
  void eachSquare(Square body);
  void packRows();
  mlir::Value firstRowOf(mlir::Value rowClass) { return e.mul(rowClass, bands.columns); }
  /// Of the packed rows by distance, that of a distance.
  mlir::Value packedRow(mlir::Value distance);
  /// Of the packed queries, the first of a block.
  mlir::Value firstQueryRow(mlir::Value p0) {
    return keepsQueries ? e.mul(e.floorDiv(p0, shape.queryBlock), bands.block()) : e.index(0);
  }
  void copyRow(mlir::Value from, mlir::Value fromRow, mlir::Value to, mlir::Value toRow);

  /// Distances below 0 that queries and keys of a pair of blocks may have, where no mask joins
  /// them.
  int64_t front() const { return a * shape.queryBlock + b * shape.keyBlock; }
  int64_t allQueries() const { return shape.queryBlocks * shape.queryBlock; }
  /// Distances of all queries: 0 to the greatest.
  int64_t allDistances() const { return a * allQueries() + std::max<int64_t>(c, 0); }
  int64_t biasRows() const { return extentOf(operands.bias, 0); }
  int64_t rowCount() const { return extentOf(operands.rows, 1); }
  static int64_t extentOf(mlir::Value tensor, unsigned dimension) {
    return llvm::cast<mlir::RankedTensorType>(tensor.getType()).getDimSize(dimension);
  }
  mlir::Value biasIndex(mlir::Value p0, mlir::Value q0, mlir::Value key, mlir::Value offset) {
    return e.add(emitDistance(e, operands.distance, e.add(p0, offset), e.add(q0, key)), front());
  }
  /// 0, stride, 2 stride, ... of as many lanes.
  mlir::Value steps(int64_t stride);
  mlir::Value allLanes();
  mlir::Value gather(mlir::Value memory, mlir::ValueRange first, int64_t stride);
  void scatter(mlir::Value vector, mlir::Value memory, mlir::ValueRange first, int64_t stride);
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
  const Bands bands;
  bool keepsQueries = false; ///< packs the queries of all blocks

  mlir::Value query, rows, table;                        // tensors
  mlir::Value queryGradient, rowGradient, tableGradient; // tensors
  mlir::Value rowColumns, packedRows, biases; // scratch of a head: rows by distance twice, [class,
                                              // column of the head][column] and the reverse
  mlir::Value queryRows;                      // scratch of a block, or of all
  mlir::Value products, productGradients;     // of a pair of blocks, [query][column of a band]
  mlir::Value scoreProducts;                  // of a pair of blocks, [key][query]
  mlir::Value queryGradients, rowGradients, biasGradients; // sums of a head
  mlir::Value base, length, head;                          // of the head at hand
  mlir::Value rowBase, rowLength;                          // of its rows by distance
};

} // namespace sluice::cpu::attention
