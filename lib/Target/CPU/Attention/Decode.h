// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decode-step attention: division of the work into items, and the generator.
#pragma once

#include "Attention.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <limits>

namespace sluice::cpu::attention {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Division of the work of a batch row into items; depends on shapes only.
struct DecodeCut {
  int64_t parts = 1; ///< parts of the keys
  int64_t partKeys;  ///< consecutive keys of a part, whole blocks
  int64_t shortKeys; ///< the same for a text that fills at most half of the parts
  int64_t block;     ///< keys that share one maximum, whole tiles
  int64_t groups;    ///< groups of key/value heads
  int64_t heads;     ///< key/value heads per group

  DecodeCut(int64_t extent, int64_t kvHeads) {
    // About 8 items per row occupy the threads if there is only one text. Long parts spend less
    // time waiting for their first tile; a short text uses more parts instead. The heads of a group
    // are adjacent: a group has all heads if there are enough parts.
    constexpr int64_t items = 8, least = 32;
    int64_t blocks = llvm::divideCeil(extent, least);
    while (2 * parts <= std::min(items, blocks)) {
      parts *= 2;
    }
    partKeys = llvm::divideCeil(blocks, parts) * least;
    shortKeys = std::max(least, partKeys / 2);
    block = 4 * least;
    while (partKeys % block != 0) {
      block /= 2;
    }
    groups = std::max<int64_t>(1, std::min(kvHeads, items / parts));
    while (kvHeads % groups != 0) {
      --groups;
    }
    heads = kvHeads / groups;
  }
};

struct DecodeGenerator {
  DecodeGenerator(dispatch::AttentionOp op, mlir::ModuleOp module, llvm::StringRef name,
                  const Target &target)
      : op(op), shape(makeShape(op, target)), cut(getExtent(op.getKey()), shape.kvHeads),
        slots(shape.queries * shape.group * cut.heads), frame(op, module, name, target),
        e(frame.builder(), target.lanes) {}

  static int64_t getExtent(mlir::Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType()).getDimSize(1);
  }
  mlir::MemRefType matrix(int64_t columns) {
    return mlir::MemRefType::get({slots, columns}, e.b.getF32Type());
  }
  int64_t partials() const { return shape.batch * cut.groups * cut.parts * slots; }
  int64_t partialWidth() const { return shape.headWidth + 2 * e.lanes; }
  /// Returns true if the rows of a tile are contiguous: tiles start at multiples of their size.
  bool isWhole(mlir::Value ring) const { return getExtent(ring) % e.lanes == 0; }
  /// Returns the column of vector `j` of a head that starts at column `first`; and the number of
  /// its lanes that belong to the head.
  mlir::Value getFirstColumn(mlir::Value first, int64_t j) { return e.add(first, j * e.lanes); }
  int64_t getValidRows(int64_t j) const { return shape.head - j * e.lanes; }

  dispatch::AttentionOp op;
  const AttentionShape shape;
  const DecodeCut cut;
  const int64_t slots; ///< queries per item
  Frame frame;
  Emitter e;

  mlir::Value query, key, value, output, lse;     // tensors
  mlir::Value positionQuery, distances, biases;   // tensors; null if scores have no such term
  mlir::Value queries, accumulator, maximum, sum; // scratch, per query
  mlir::Value positionQueries;                    // scratch, per query
  mlir::Value chances;  // scratch [query][key of a block]: first scores, then terms of the sum
  mlir::Value parts;    ///< workspace: sums, maximum, sum; per item and query
  mlir::Value counters; ///< number of arrived items, per batch row and group
  mlir::Value batch, part, group, length;
  mlir::Value keyBatch;      ///< row of the batch whose keys the row reads
  mlir::Value distanceCount; ///< number of valid rows by distance
  mlir::Value isShort;       ///< the parts of this text have `shortKeys` keys
  mlir::Value partKeys;      ///< keys per part of this text
  mlir::Value keys;          ///< keys of the current block, whole tiles
  Frame::RowSchedule due;
};

/// A due query: index of its sums, its position, its head, and the first columns of its key/value
/// head.
struct DecodeQuery {
  mlir::Value slot, position, head, keyColumn, valueColumn;
};

/// Runs `body` for the due queries of an item, by key/value head, position and head. `eachHead`
/// runs before the queries of a key/value head.
void eachQuery(DecodeGenerator &d, llvm::function_ref<void(const DecodeQuery &)> body,
               llvm::function_ref<void(mlir::Value head)> eachHead = nullptr);

/// Returns the lanes whose maximum has seen no key. Subtracting 0 instead of it makes terms e^-inf
/// = 0, not NaN.
mlir::Value isNone(DecodeGenerator &d, mlir::Value maximum);

} // namespace sluice::cpu::attention
