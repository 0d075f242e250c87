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

class DecodeGenerator {
public:
  DecodeGenerator(dispatch::AttentionOp op, mlir::ModuleOp module, llvm::StringRef name,
                  const Target &target)
      : op(op), shape(makeShape(op, target)), cut(getExtent(op.getKey()), shape.kvHeads),
        slots(shape.queries * shape.group * cut.heads), frame(op, module, name, target),
        e(frame.builder(), target.lanes) {}

  Kernel generate();

private:
  static int64_t getExtent(mlir::Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType()).getDimSize(1);
  }
  mlir::MemRefType matrix(int64_t columns) {
    return mlir::MemRefType::get({slots, columns}, e.b.getF32Type());
  }
  int64_t partials() const { return shape.batch * cut.groups * cut.parts * slots; }
  int64_t partialWidth() const { return shape.headWidth + 2 * e.lanes; }
  void allocate();
  void locateItem();
  mlir::Value countKeys();
  void emitItem();
  /// A due query: index of its sums, its position, its head, and the first columns of its key/value
  /// head.
  struct Query {
    mlir::Value slot, position, head, keyColumn, valueColumn;
  };
  void eachQuery(llvm::function_ref<void(const Query &)> body,
                 llvm::function_ref<void(mlir::Value head)> eachHead = nullptr);
  void loadQuery(const Query &query);
  void emitKeyBlock(mlir::Value q0, mlir::Value end);
  void addScores(mlir::Value q0, mlir::Value at);
  mlir::Value emitScores(const Query &query, llvm::ArrayRef<mlir::Value> rows, mlir::Value q0,
                         mlir::Value at);
  mlir::Value distanceRow(const Query &query, mlir::Value q0, mlir::Value key, mlir::Value rows);
  void addDistances(const Query &query, mlir::Value q0, mlir::Value at, Emitter::Values &dots);
  mlir::Value computeBiases(const Query &query, mlir::Value q0, mlir::Value at);
  void addTerms(const Query &query);
  void addValues(mlir::Value q0, mlir::Value at, mlir::Value end);
  void addTile(const Query &query, llvm::ArrayRef<mlir::Value> rows, mlir::Value at);
  void prefetchKeys(mlir::Value first, mlir::Value head);
  void prefetchValues(mlir::Value first, mlir::Value head);
  void prefetchTile(mlir::Value memory, mlir::Value ring, mlir::Value first, mlir::Value column);
  void storePartial(const Query &query);
  void mergePartials(const Query &query, mlir::Value live);
  mlir::Value partialRow(mlir::Value number, const Query &query);
  void emitArrival();
  void storeResult(const Query &query);
  mlir::Value isNone(mlir::Value maximum);
  /// Returns true if the rows of a tile are contiguous: tiles start at multiples of their size.
  bool isWhole(mlir::Value ring) const { return getExtent(ring) % e.lanes == 0; }
  Emitter::Values loadRingRows(mlir::Value ring, mlir::Value first, bool clamped);
  /// Returns the column of vector `j` of a head that starts at column `first`; and the number of
  /// its lanes that belong to the head.
  mlir::Value getFirstColumn(mlir::Value first, int64_t j) { return e.add(first, j * e.lanes); }
  int64_t getValidRows(int64_t j) const { return shape.head - j * e.lanes; }
  mlir::Value greatest(mlir::Value vector);

  dispatch::AttentionOp op;
  const Shape shape;
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
  mlir::Value distanceCount; ///< number of valid rows by distance
  mlir::Value isShort;       ///< the parts of this text have `shortKeys` keys
  mlir::Value partKeys;      ///< keys per part of this text
  mlir::Value keys;          ///< keys of the current block, whole tiles
  Frame::Run due;
};

} // namespace sluice::cpu::attention
