// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the attention kernels share: sizes, tiles of rows in shared memory, a loop over streamed
// tiles, and scores in the layout of mma.sync's sums.
//
// Every kernel has rows that a block keeps (*fixed*, 16 of them a fragment, each warp its own) and
// rows that pass by (*streamed*, through two buffers in shared memory). Forward and dQ fix queries
// and stream keys; dK and dV fix keys and stream queries. Scores are products fixed x streamed; as
// sums they lie in registers as the left factor of the next product wants them, so that they
// never leave the warp.
#pragma once

#include "Tensor.h"

#include "sluice/Target/Common/AttentionSizes.h"
#include "sluice/Target/Common/Score.h"

#include <array>
#include <functional>
#include <limits>
#include <optional>

namespace sluice::cuda::attention {

constexpr int64_t warps = threadsPerBlock / threadsPerWarp;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float log2e = 1.44269504f;
/// An exponent of base 2 that is larger in magnitude is *extreme*: rounded, it is off by so much
/// that scores are subtracted before they are scaled, as on the CPU. A tile without one pays for a
/// test of its rows.
constexpr float largestExponent = 65536;

/// Sizes of the problem.
struct Shape : AttentionSizes {
  /// Columns of results that one block sums, a multiple of 16: all of a head's, up to 128 of them.
  /// Wider heads are made in two parts by two blocks, which both form the scores.
  int64_t partWidth, parts;
  int64_t width;                  ///< of a head in shared memory: the parts, zeros from `head` on
  int64_t queryFactor, keyFactor; ///< of the domains
  /// The score region where it is score * factor, and the derivative where it is g * factor: then
  /// neither costs anything for each score. With rows by distance the former is (score + product) *
  /// factor, and the derivative reads neither.
  std::optional<float> scoreFactor, gradientFactor;
  /// The mask without constraints that all valid positions meet, and whether it gives valid queries
  /// valid keys alone: then no key is held against the length.
  mlir::IntegerSet mask;
  bool boundsKeys;
  std::optional<unsigned>
      keyCounts; ///< the operand with each batch row's valid keys, if there is one
  /// Terms by distance: whether there are rows, the biases told apart, and the first of their
  /// operands.
  bool hasRows;
  int64_t biasRows;
  bool addsBiases = false; ///< the derivative by a bias is g itself
  bool addsRows = false;   ///< that by a product with a row is that by the score
  unsigned firstTerm;
  /// a p - b q + c, coprime. A block's queries lie b apart and its keys a, so that its distances
  /// lie a b apart; each of the b (a) classes of queries (keys) has tiles of its own.
  dispatch::Distance distance;
  int64_t distances, distanceFactor; ///< rows by distance, and their scale
  bool hasTerms() const { return hasRows || biasRows > 0; }
  int64_t stride() const { return distance.query * distance.key; }
  /// Whether distances may lie beyond the last valid row, which then stands for them.
  bool hasFarther() const { return hasRows && distance.offset > 0; }
  int64_t queriesOfClass() const { return llvm::divideCeil(queries, distance.key); }
  int64_t queryTiles(int64_t rows) const {
    return distance.key * llvm::divideCeil(queriesOfClass(), rows);
  }
  int64_t keyTiles(int64_t rows) const {
    return distance.query * llvm::divideCeil(llvm::divideCeil(keys, distance.query), rows);
  }
  bool isOneDomain() const { return queries == keys && queryFactor == keyFactor && !keyCounts; }
  bool heavy; ///< much is computed for each score: Philox, a long region. Tiles are smaller then
};

/// Fails with a diagnostic on the op where there is no kernel for it.
template <typename Op> mlir::FailureOr<Shape> makeShape(Op op);

/// Bytes of so many heads' columns in all rows of a tensor.
double headBytes(const Shape &shape, mlir::Value tensor, int64_t heads);
double rotaryBytes(const Shape &shape, mlir::Value rotary); ///< of the table; 0 where it is null
double termBytes(const Shape &shape, const dispatch::DistanceTerms &terms);

/// Rows of `columns` bf16 (a multiple of 16) from byte `byte` of shared memory on. Lines of 32 *
/// 2^n bytes have their chunks exchanged; others are an odd number of chunks long. Either way eight
/// lines' matrices lie in different banks.
struct Tile {
  int64_t rows = 0, columns = 0, byte = 0;
  int64_t chunks() const { return columns / chunkElements; }
  bool swizzled() const { return (chunks() & (chunks() - 1)) == 0; }
  int64_t lineBytes() const { return chunkBytes * (swizzled() ? chunks() : chunks() | 1); }
  int64_t bytes() const { return rows * lineBytes(); }
  int64_t end() const { return byte + bytes(); }
};

/// The rows of queries or of keys, in one row of the batch.
struct Side {
  int64_t positions = 0;
  mlir::Value base, length; ///< index: the first in memory; how many are valid
  int64_t step = 1;         ///< between rows of neighbouring lines
  bool isPartial = false;   ///< rows that are not valid are not to be written
};

/// One head's columns in the rows of one sequence.
struct Source {
  Side rows;
  mlir::Value memory;  ///< [B * T][padded width]
  mlir::Value column;  ///< index: the head's first
  mlir::Value columns; ///< index: how many; what is beyond reads as zeros
  bool aligned;        ///< chunks of 8 columns lie at multiples of 16 bytes
  /// Of results: [positions][head], by which rows are rotated back; null where not.
  mlir::Value rotary = nullptr;
  /// Of results: how many columns lie at a multiple of their bytes wherever such a group starts in
  /// the head: 4, 2 or 1.
  int64_t together = 1;
  /// Whether rows before the first may be asked for; they are zeros.
  bool before = false;
  /// Whether the last valid row stands for those behind it; only with `before`.
  bool repeatsLast = false;
};
int64_t columnsTogether(const Shape &shape, int64_t column); ///< of heads from a row's column on

/// The fixed rows' factor: matrices of a tile, kept in registers or read again each time.
struct Fixed {
  Tile tile;
  Values registers;
  mlir::Value offset = nullptr; ///< of the warp's first line in bytes of `tile`, if not its own
};

/// Sums of a warp: [fragment][8 columns][4], element by element as mma.sync holds them.
struct Place {
  int64_t fragment, column, part;
  int64_t row() const { return 2 * fragment + part / 2; }    ///< of the thread's rows
  int64_t columnOf() const { return 2 * column + part % 2; } ///< of the thread's columns
};

/// What rows of results get that exist but are not valid: nothing, zeros instead of their sums, or
/// their sums, which are zeros.
enum class Padding { Left, Zeros, Summed };

/// A kernel's frame with attention's vocabulary. The builder stands inside the function.
class AttentionFrame {
public:
  AttentionFrame(mlir::Operation *op, dispatch::DomainAttr domain, const Shape &shape,
                 mlir::ModuleOp module, llvm::StringRef name);

  /// Sets `batchRow`, `queries` and `keys`, of length 0 where the row of the batch is not valid.
  void enterRow(mlir::Value batchRow);
  /// Divides the block's number into a row of the batch, one of `heads`, one of `tiles` and a part
  /// of the head's columns; enters the row and sets `part`. Gives the head and the
  /// tile.
  std::pair<mlir::Value, mlir::Value> place(int64_t heads, int64_t tiles);
  /// The quotient and the remainder of `number` by `divisor`.
  std::pair<mlir::Value, mlir::Value> split(mlir::Value number, int64_t divisor);

  /// The first position of tile `tile` of so many rows that lie `step` apart.
  mlir::Value firstOf(mlir::Value tile, int64_t rows, int64_t step);

  /// Starts copying rows first, first + step, ... of the sequence into `tile`, `offset` bytes
  /// further; rows that are not valid become zeros. Each thread copies chunks of its own.
  void load(const Tile &tile, mlir::Value offset, const Source &source, mlir::Value first);

  /// Four matrices from lines [line, line + 16) and columns [column, column + 16): of the left
  /// factor in its order (rows); of the right factor as b0, b1 of 8 of its columns, then of the
  /// next 8, be these columns the streamed rows or, transposed, their columns.
  enum class Order { Rows, Columns, Transposed };
  Values matrices(const Tile &tile, mlir::Value offset, int64_t line, int64_t column,
                  Order order = Order::Rows);
  /// The warp's first line among fixed rows, `fragments` a warp, in bytes of `tile`.
  mlir::Value warpOffset(const Tile &tile, int64_t fragments);
  /// Keeps the fixed factor in registers where it is narrow.
  Fixed keep(const Tile &tile, int64_t fragments, int64_t widest);

  /// fixed x streamed^T: rows of both over all columns.
  Values multiplyRows(const Fixed &fixed, int64_t fragments, const Tile &streamed,
                      mlir::Value offset);
  /// sums + weights x streamed: weights as scores lie, streamed rows from chunk `offset` on.
  Values multiplyWeights(const Values &weights, int64_t fragments, const Tile &streamed,
                         mlir::Value offset, int64_t columns, Values sums);

  /// Streams tiles 0 ... count - 1 but for those that `some` excludes.
  struct Stream {
    mlir::Value count;
    int64_t bytes;   ///< of one buffer
    int64_t buffers; ///< two, or one where shared memory holds no more
    std::function<mlir::Value(mlir::Value number)> some;
    std::function<void(mlir::Value number, mlir::Value offset)> load;
    std::function<Values(mlir::Value number, mlir::Value offset, mlir::ValueRange carried)> body;
  };
  /// `prepare` runs once, while the first tile is under way, and gives what is carried.
  Values stream(const Stream &stream, llvm::function_ref<Values()> prepare);

  /// `count` f32 from one of two branches.
  Values either(mlir::Value condition, size_t count, llvm::function_ref<Values()> where,
                llvm::function_ref<Values()> elsewhere);
  /// f of every element of a warp's scores.
  Values each(const Values &scores, int64_t columns,
              llvm::function_ref<mlir::Value(mlir::Value, const Place &)> f);
  /// Elements where the relation holds, `otherwise` elsewhere; nothing is tested where `full`.
  Values masked(const Values &scores, int64_t columns, mlir::Value full, float otherwise,
                llvm::function_ref<mlir::Value(const Place &)> holds);
  /// i1, of i32 positions: the mask's relation and, where `bounded`, that the key is valid. Of a
  /// query that is not valid anything.
  mlir::Value holds(mlir::Value p, mlir::Value q, bool bounded);
  /// `rows` queries from p0 on and `columns` keys from q0 on, each by its step.
  BlockClass classify(mlir::Value p0, int64_t rows, mlir::Value q0, int64_t columns);

  /// How the elements of scores lie among keys: a column is a key, a row is, or neither.
  enum class Keys { Columns, Rows, Neither };
  /// Values that are not negative, those that dropout drops with their sign changed: one register
  /// tells both.
  Values marked(Values values, int64_t columns, Keys keys,
                llvm::function_ref<mlir::Value(const Place &)> elementOf);
  Values positive(Values values); ///< zeros for those that are dropped
  /// i64: ((b heads + h) T + p) T' + q, of i32 positions, T queries and T' keys.
  mlir::Value elementNumber(mlir::Value head, mlir::Value p, mlir::Value q);

  /// The score region, or the score itself where `scoreFactor` stands for it.
  mlir::Value score(mlir::Region &region, mlir::ValueRange arguments);
  /// By which what `score` gives is multiplied to be an exponent of base 2.
  float exponentFactor() const { return log2e * shape.scoreFactor.value_or(1); }
  /// What `score` gives as the region would, rounded likewise.
  mlir::Value exactScore(mlir::Value score);
  mlir::Value isLarger(mlir::Value x, float bound); ///< i1: |x| > bound

  mlir::Value f32(float value);
  mlir::Value larger(mlir::Value x, mlir::Value y);
  mlir::Value exp2(mlir::Value x);
  /// Sum or maximum over the four threads that share a row.
  mlir::Value acrossQuad(mlir::Value x, llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>);
  /// i32 numbers of the thread's rows among fixed ones that start at `first`, and of its columns.
  Values rowNumbers(mlir::Value first, int64_t fragments, int64_t step);
  Values columnNumbers(mlir::Value first, int64_t columns, int64_t step);
  /// `step` times a line's number.
  mlir::Value scaled(mlir::Value line, int64_t step);

  /// Stores sums[row] * scale[row] (scale may be empty) in the part's columns of rows `first` on,
  /// rotated back where `target.rotary`. By all lanes of each warp.
  void store(const Values &sums, mlir::ArrayRef<mlir::Value> scale, const Source &target,
             mlir::Value first, int64_t fragments, Padding padding);

  /// Index: `position`, or where the rows have none a row that may be read.
  mlir::Value existingRow(const Side &rows, mlir::Value position);

  Frame frame;
  Emitter &e;
  mlir::ImplicitLocOpBuilder &b;
  TensorCore core;
  const Shape shape;
  const bool isPartial; ///< of an axis: rows that are not valid may be no memory of a tensor's
  mlir::Value thread, group, quad; ///< index; a lane is 4 group + quad
  mlir::Value batchRow;            ///< index
  Side queries, keys, distances;
  mlir::Value validKeys; ///< i32: the keys' length
  mlir::Value part;      ///< index: first of a head's columns that the block sums

private:
  Side sideOf(int64_t positions, int64_t factor);
  /// Lines and chunks of a tile, dealt to the block's threads. A thread's own are unrolled where
  /// they are copied whole; where they are read element by element there are no registers for that.
  void eachChunk(const Tile &tile, const Source &source,
                 llvm::function_ref<void(mlir::Value line, mlir::Value chunk)>);
  mlir::Value placeOf(const Tile &tile, mlir::Value offset, mlir::Value line, mlir::Value chunk);
  void loadElements(const Source &source, mlir::Value to, mlir::Value position, mlir::Value chunk);
  /// Whether dropout keeps a fragment's four scores, where rows are a multiple of 4 long. By all
  /// lanes of the warp.
  std::array<mlir::Value, 4> keptTogether(mlir::ArrayRef<mlir::Value> elements, bool adjacent);
  /// Whether dropout keeps two scores of which the second is in the next column.
  std::pair<mlir::Value, mlir::Value> keptPair(mlir::Value first, mlir::Value second,
                                               bool adjacent);
  void rotateBack(mlir::MutableArrayRef<mlir::Value> results, const Source &target,
                  mlir::Value position);
  Values exchangePairs(mlir::ArrayRef<mlir::Value> results);
  void storePairs(mlir::ArrayRef<mlir::Value> results, const Source &target, mlir::Value position);
  void storeColumns(mlir::Value values, const Source &target, mlir::Value position,
                    mlir::Value column);
};

} // namespace sluice::cuda::attention
