// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the files of the step's attention share: how work is cut, and the generator.
#pragma once

#include "Attention.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <limits>

namespace sluice::cpu::attention {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// How the work of a batch row is cut into items, by shapes alone.
struct DecodeCut {
  int64_t parts = 1; ///< of the keys
  int64_t partKeys;  ///< keys of a part that lie together, whole blocks
  int64_t shortKeys; ///< the same, while a text fills no more than half of the parts
  int64_t block;     ///< keys of one maximum, whole tiles
  int64_t groups;    ///< of key/value heads
  int64_t heads;     ///< key/value heads of a group

  DecodeCut(int64_t extent, int64_t kvHeads) {
    // Some 8 items a row occupy threads where one text is written. Long parts wait less for their
    // first tile; a short text has more parts instead. Heads of a group lie side by side: all of
    // them, where there are parts enough.
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
      : op(op), shape(makeShape(op, target)), cut(extentOf(op.getKey()), shape.kvHeads),
        slots(shape.queries * shape.group * cut.heads), frame(op, module, name, target),
        e(frame.builder(), target.lanes) {}

  Kernel generate();

private:
  static int64_t extentOf(mlir::Value value) {
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
  /// One query that is due: where its sums are, its position, its head, and the first columns of
  /// its key/value head.
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
  mlir::Value biasesOf(const Query &query, mlir::Value q0, mlir::Value at);
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
  /// Whether a tile lies together: tiles begin at multiples of their size.
  bool isWhole(mlir::Value ring) const { return extentOf(ring) % e.lanes == 0; }
  Emitter::Values rowsOf(mlir::Value ring, mlir::Value first, bool clamped);
  /// Column of vector `j` of a head's columns, which begin at `first`, and how many of its lanes
  /// are the head's.
  mlir::Value columnOf(mlir::Value first, int64_t j) { return e.add(first, j * e.lanes); }
  int64_t validOf(int64_t j) const { return shape.head - j * e.lanes; }
  mlir::Value greatest(mlir::Value vector);

  dispatch::AttentionOp op;
  const Shape shape;
  const DecodeCut cut;
  const int64_t slots; ///< queries of an item
  Frame frame;
  Emitter e;

  mlir::Value query, key, value, output, lse;     // tensors
  mlir::Value positionQuery, distances, biases;   // tensors; null where scores have no such term
  mlir::Value queries, accumulator, maximum, sum; // scratch, by query
  mlir::Value positionQueries;                    // likewise
  mlir::Value chances;  // scratch [query][key of a block], by step: scores, then terms of the sum
  mlir::Value parts;    ///< workspace: sums, maximum, sum; by item and query
  mlir::Value counters; ///< of arrived items, by batch row and group
  mlir::Value batch, part, group, length;
  mlir::Value distanceCount; ///< valid rows by distance
  mlir::Value isShort;       ///< whether the text's parts have `shortKeys` keys
  mlir::Value partKeys;      ///< of this text
  mlir::Value keys;          ///< of the block at hand, whole tiles
  Frame::Run due;
};

} // namespace sluice::cpu::attention
