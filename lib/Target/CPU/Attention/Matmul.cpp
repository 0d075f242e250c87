// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matmuls on blocks: register tiles whose accumulators are carried by the loop over the depth.
#include "../Contract/Tile.h"
#include "Attention.h"

using namespace mlir;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

static Value at(Emitter &e, Value start, Value offset) {
  return start ? e.add(start, offset) : offset;
}

static Value loadA(Emitter &e, const Matrix &a, Value row, Value k) {
  Value first = a.transposed ? k : row;
  Value second = a.transposed ? row : k;
  return e.broadcast(e.loadScalar(a.memory, {at(e, a.row, first), at(e, a.column, second)}));
}

/// Emits one register tile of rows x vectors, over the whole depth.
static void emitTile(Emitter &e, const Matmul &matmul, Value row, int64_t rows, Value column,
                     int64_t vectors) {
  Accumulators tile(rows, Values(vectors, e.splat(0)));
  if (matmul.init) {
    matmul.init(row, column, tile);
  }
  Values flat;
  for (Values &line : tile) {
    flat.append(line.begin(), line.end());
  }
  flat = e.loop(e.index(0), matmul.depth, 1, flat, [&](Value k, ValueRange carried) {
    Values next, b;
    if (matmul.step) {
      matmul.step(row, k);
    }
    for (int64_t j = 0; j < vectors; ++j) {
      Value first = at(e, matmul.b.column, e.add(column, j * e.lanes));
      b.push_back(e.load(matmul.b.memory, {at(e, matmul.b.row, k), first}));
    }
    for (int64_t i = 0; i < rows; ++i) {
      Value a = loadA(e, matmul.a, e.add(row, i), k);
      for (int64_t j = 0; j < vectors; ++j) {
        next.push_back(emitMultiplyAdd(e.b, a, b[j], carried[i * vectors + j]));
      }
    }
    return next;
  });
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < vectors; ++j) {
      tile[i][j] = flat[i * vectors + j];
    }
  }
  matmul.finish(row, column, tile);
}

/// At most four vectors wide: 6 x 4 with 32 registers; 4 x 2 or more rows with 16 registers.
static int64_t widestTile(const Target &target) { return target.registers >= 32 ? 4 : 2; }

int64_t attention::tileRows(const Target &target, int64_t vectors) {
  int64_t wide = std::min(vectors, widestTile(target));
  return std::min<int64_t>((target.registers - 2 - wide) / wide, 12);
}

/// Emits columns [column, column + vectors * lanes), all rows.
static void emitColumns(Emitter &e, const Target &target, const Matmul &matmul, Value column,
                        int64_t vectors) {
  int64_t most = tileRows(target, vectors);
  int64_t tiles = (matmul.rows + most - 1) / most;
  int64_t rows = (matmul.rows + tiles - 1) / tiles;
  int64_t rest = matmul.rows % rows;
  e.loop(e.index(0), e.index(matmul.rows - rest), rows,
         [&](Value row) { emitTile(e, matmul, row, rows, column, vectors); });
  if (rest != 0) {
    emitTile(e, matmul, e.index(matmul.rows - rest), rest, column, vectors);
  }
}

Matmul attention::makeBlockMatmul(Emitter &e, const AttentionShape &shape) {
  Matmul matmul;
  matmul.rows = shape.keyBlock;
  matmul.vectors = shape.queryVectors;
  matmul.depth = e.index(shape.getDepth(shape.head));
  return matmul;
}

/// Finishes `rows` rows from row `from` of a block of sums, which starts at (row, column).
static void finishSums(Emitter &e, const Matmul &matmul, Value row, Value from, int64_t rows,
                       Value column, int64_t vectors) {
  Accumulators tile(rows, Values(vectors, Value()));
  Value first = e.add(row, from);
  if (matmul.init) {
    matmul.init(first, column, tile);
  }
  for (auto [i, line] : llvm::enumerate(tile)) {
    for (auto [j, value] : llvm::enumerate(line)) {
      Value sum = e.load(matmul.sums, {e.add(from, int64_t(i)), e.index(int64_t(j) * e.lanes)});
      value = value ? e.addf(value, sum) : sum;
    }
  }
  matmul.finish(first, column, tile);
}

/// Emits a block of `rows` rows, at most two tiles of them, and as many tiles as `vectors`.
static void emitTileBlock(Emitter &e, const Matmul &matmul, Value row, int64_t rows, Value column,
                          int64_t vectors) {
  auto left = [&](Value k, int64_t i) {
    Value first = at(e, matmul.a.row, e.add(row, i * tileSide));
    return loadFactor(e.b, matmul.a.memory, {first, at(e, matmul.a.column, k)});
  };
  auto right = [&](Value k, int64_t j) {
    Value first = at(e, matmul.b.column, e.add(column, j * tileSide));
    return loadFactor(e.b, matmul.b.memory, {at(e, matmul.b.row, k), first});
  };
  int64_t tileRows = llvm::divideCeil(rows, tileSide);
  Values tiles = emitTileProducts(e.b, tileRows, vectors, matmul.depth, left, right);
  for (auto [i, tile] : llvm::enumerate(tiles)) {
    int64_t tileRow = int64_t(i) / vectors, tileColumn = int64_t(i) % vectors;
    storeSums(e.b, tile, matmul.sums,
              {e.index(tileRow * tileSide), e.index(tileColumn * tileSide)});
  }
  constexpr int64_t together = 4;
  int64_t rest = rows % together;
  e.loop(e.index(0), e.index(rows - rest), together,
         [&](Value from) { finishSums(e, matmul, row, from, together, column, vectors); });
  if (rest != 0) {
    finishSums(e, matmul, row, e.index(rows - rest), rest, column, vectors);
  }
}

/// Multiplies in AMX tiles: in blocks of two by two, then the remaining rows and columns.
static void emitTiles(Emitter &e, const Matmul &matmul) {
  auto emitColumns = [&](Value column, int64_t vectors) {
    int64_t rest = matmul.rows % (2 * tileSide), whole = matmul.rows - rest;
    e.loop(e.index(0), e.index(whole), 2 * tileSide,
           [&](Value row) { emitTileBlock(e, matmul, row, 2 * tileSide, column, vectors); });
    if (rest != 0) {
      emitTileBlock(e, matmul, e.index(whole), rest, column, vectors);
    }
  };
  int64_t rest = matmul.vectors % 2, whole = matmul.vectors - rest;
  e.loop(e.index(0), e.index(whole * tileSide), 2 * tileSide,
         [&](Value column) { emitColumns(column, 2); });
  if (rest != 0) {
    emitColumns(e.index(whole * tileSide), 1);
  }
}

void attention::emitMatmul(Emitter &e, const Target &target, const Matmul &matmul) {
  if (matmul.sums) {
    emitTiles(e, matmul);
    return;
  }
  int64_t widest = widestTile(target);
  int64_t rest = matmul.vectors % widest, whole = matmul.vectors - rest;
  if (whole == widest) {
    emitColumns(e, target, matmul, e.index(0), widest);
  } else if (whole > 0) {
    // One copy of the code for all columns, because a tile with its epilogue is thousands of
    // instructions.
    e.loop(e.index(0), e.index(whole * e.lanes), widest * e.lanes,
           [&](Value column) { emitColumns(e, target, matmul, column, widest); });
  }
  if (rest != 0) {
    emitColumns(e, target, matmul, e.index(whole * e.lanes), rest);
  }
}

Matmul attention::storeInto(Emitter &e, Matmul matmul, Value memory, Value row0) {
  matmul.finish = [&e, memory, row0](Value row, Value column, Accumulators &tile) {
    for (auto [i, line] : llvm::enumerate(tile)) {
      for (auto [j, value] : llvm::enumerate(line)) {
        e.store(value, memory, {e.add(row0, e.add(row, i)), e.add(column, j * e.lanes)});
      }
    }
  };
  return matmul;
}

Matmul attention::accumulateInto(Emitter &e, Matmul matmul, Value memory, Value row0) {
  matmul.init = [&e, memory, row0](Value row, Value column, Accumulators &tile) {
    for (auto [i, line] : llvm::enumerate(tile)) {
      for (auto [j, value] : llvm::enumerate(line)) {
        value = e.load(memory, {e.add(row0, e.add(row, i)), e.add(column, j * e.lanes)});
      }
    }
  };
  return storeInto(e, std::move(matmul), memory, row0);
}
