// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared parts of the attention kernels: sizes, tiles in shared memory, the loop over streamed
// tiles, and scores in the layout of mma.sync accumulators.
//
// In every kernel a block owns some rows (*fixed*, 16 per fragment, each warp its own) and loops
// over the others (*streamed*, double-buffered in shared memory). Forward and dQ fix queries and
// stream keys; dK and dV fix keys and stream queries. Scores are products fixed x streamed. The
// accumulator layout of a product equals the layout of the left factor of the next one, so scores
// never leave their warp.
#pragma once

#include "../TensorCore/TensorCore.h"

#include "sluice/Target/Common/AttentionSizes.h"
#include "sluice/Target/Common/Score.h"

#include <array>
#include <functional>
#include <limits>
#include <optional>

namespace sluice::cuda {

/// Factors are bf16 and sums f32; P is rounded to bf16 before its product with V. Heads have at
/// most 256 columns. FLOPs count the pairs of the mask only.
mlir::FailureOr<Kernel> generateAttention(dispatch::AttentionOp op, mlir::ModuleOp module,
                                          llvm::StringRef name);

/// Two launches: `<name>_queries` computes dQ and stores the log-sum-exp and delta of each query in
/// the workspace; `<name>_keys` computes dK and dV. With terms by distance the first launch also
/// computes dQv, and a third, `<name>_distances`, computes dR and the gradients of the biases. P
/// and dS are rounded to bf16 before products.
mlir::FailureOr<Kernel> generateAttentionBackward(dispatch::AttentionBackwardOp op,
                                                  mlir::ModuleOp module, llvm::StringRef name);

/// One block per query and head, or several if rings are long; the last block of these merges the
/// results. Keys and values are in ring buffers, at absolute positions. Teams of lanes take turns
/// at keys, each with its own sums, which are merged in team order.
mlir::FailureOr<Kernel> generateStepAttention(dispatch::AttentionOp op, mlir::ModuleOp module,
                                              llvm::StringRef name);

} // namespace sluice::cuda

namespace sluice::cuda::attention {

constexpr int64_t warps = threadsPerBlock / threadsPerWarp;
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float log2e = 1.44269504f;
/// A base-2 exponent of larger magnitude is *extreme*: its rounding error is so large that scores
/// must be subtracted before they are scaled, as on the CPU. A tile without extreme exponents only
/// pays for a test of its rows.
constexpr float largestExponent = 65536;

/// Sizes of the problem.
struct Shape : AttentionSizes {
  /// Columns of results that one block sums, a multiple of 16: the whole head, up to 128 columns.
  /// Wider heads are split in two parts; a block computes one part, and both blocks compute the
  /// scores.
  int64_t partWidth, parts;
  int64_t width;                  ///< head width in shared memory: all parts; zeros after `head`
                                  ///< columns
                                  ///< columns
  int64_t queryFactor, keyFactor; ///< scale factors of the domains of queries and keys
  /// Set if the score region is score * factor, or its derivative g * factor; the scaling is then
  /// free for each score. With rows by distance the region is (score + product) * factor, and the
  /// derivative reads neither argument.
  std::optional<float> scoreFactor, gradientFactor;
  /// The mask without constraints that hold for all valid positions, and whether it alone excludes
  /// invalid keys for valid queries; keys are then not compared with the length.
  mlir::IntegerSet mask;
  bool boundsKeys;
  std::optional<unsigned>
      keyCounts; ///< the operand with the number of valid keys of each batch row, if any
  /// Terms by distance: presence of rows, number of distinct biases, and the index of the first
  /// operand of the terms.
  bool hasRows;
  int64_t biasRows;
  bool addsBiases = false; ///< the derivative with respect to a bias is g itself
  bool addsRows = false;   ///< the derivatives with respect to score and product by distance are
                           ///< equal
  unsigned firstTerm;
  /// The distance is a p - b q + c with coprime a and b. The queries of a block are b apart and its
  /// keys a apart, so its distances are a b apart. Each of the b classes of queries (a classes of
  /// keys) has its own tiles.
  dispatch::Distance distance;
  int64_t distances, distanceFactor; ///< number of rows by distance, and their scale
  bool hasTerms() const { return hasRows || biasRows > 0; }
  int64_t stride() const { return distance.query * distance.key; }
  /// True if distances may exceed the last valid row; such distances use the last valid row.
  bool hasFarther() const { return hasRows && distance.offset > 0; }
  int64_t queriesOfClass() const { return llvm::divideCeil(queries, distance.key); }
  int64_t queryTiles(int64_t rows) const {
    return distance.key * llvm::divideCeil(queriesOfClass(), rows);
  }
  int64_t keyTiles(int64_t rows) const {
    return distance.query * llvm::divideCeil(llvm::divideCeil(keys, distance.query), rows);
  }
  bool isOneDomain() const { return queries == keys && queryFactor == keyFactor && !keyCounts; }
  bool heavy; ///< scores are expensive (Philox, a long region), so tiles are smaller
};

/// Fails with a diagnostic on the op if no kernel supports it.
template <typename Op> mlir::FailureOr<Shape> makeShape(Op op);

/// Returns the bytes of the columns of `heads` heads in all rows of a tensor.
double headBytes(const Shape &shape, mlir::Value tensor, int64_t heads);
double rotaryBytes(const Shape &shape, mlir::Value rotary); ///< 0 if the table is null
double termBytes(const Shape &shape, const dispatch::DistanceTerms &terms);

/// Rows of `columns` bf16 (a multiple of 16), starting at byte `byte` of shared memory. Lines of 32
/// * 2^n bytes are swizzled; other lines are padded to an odd number of chunks. Either way the
/// eight lines of a matrix are in different banks.
struct Tile {
  int64_t rows = 0, columns = 0, byte = 0;
  int64_t chunks() const { return columns / chunkElements; }
  bool swizzled() const { return (chunks() & (chunks() - 1)) == 0; }
  int64_t lineBytes() const { return chunkBytes * (swizzled() ? chunks() : chunks() | 1); }
  int64_t bytes() const { return rows * lineBytes(); }
  int64_t end() const { return byte + bytes(); }
};

/// The rows of queries or of keys in one row of the batch.
struct AttentionSide {
  int64_t positions = 0;
  mlir::Value base, length; ///< index: the first row in memory; number of valid rows
  int64_t step = 1;         ///< between the rows of consecutive lines
  bool isPartial = false;   ///< invalid rows must not be written
};

/// The columns of one head in the rows of one sequence.
struct Source {
  AttentionSide rows;
  mlir::Value memory;  ///< [B * T][padded width]
  mlir::Value column;  ///< index: first column of the head
  mlir::Value columns; ///< index: number of columns; later ones read as zeros
  bool aligned;        ///< chunks of 8 columns start at multiples of 16 bytes
  /// For results: the table [positions][head] for the inverse rotation; null without rotary
  /// embedding.
  mlir::Value rotary = nullptr;
  /// For results: the number of columns (4, 2 or 1) that one aligned store can write at every
  /// multiple of this number in the head.
  int64_t together = 1;
  /// True if rows before the first may be loaded, which read as zeros.
  bool before = false;
  /// True if rows after the last valid one read as the last valid one; requires `before`.
  bool repeatsLast = false;
};
int64_t columnsTogether(const Shape &shape, int64_t column); ///< for heads that start at `column`
                                                             ///< of a row

/// The fixed factor: matrices of a tile, in registers or loaded from shared memory for each use.
struct Fixed {
  Tile tile;
  Values registers;
  mlir::Value offset = nullptr; ///< offset of the warp's first line in `tile`, if not the default
};

/// Position in the accumulators of a warp, [fragment][8 columns][4] in the layout of mma.sync.
struct ElementPlace {
  int64_t fragment, column, part;
  int64_t row() const { return 2 * fragment + part / 2; }          ///< among the thread's rows
  int64_t getFirstColumn() const { return 2 * column + part % 2; } ///< among the thread's columns
};

/// Treatment of result rows that exist but are invalid: not written, written as zeros, or written
/// as their sums because these are zeros.
enum class Padding { Left, Zeros, Summed };

/// Frame of a kernel with the operations of attention. The builder is inside the function.
class AttentionFrame {
public:
  AttentionFrame(mlir::Operation *op, dispatch::DomainAttr domain, const Shape &shape,
                 mlir::ModuleOp module, llvm::StringRef name);

  /// Sets `batchRow`, `queries` and `keys`, with length 0 if the row of the batch is invalid.
  void enterRow(mlir::Value batchRow);
  /// Splits the block number into a row of the batch, one of `heads`, one of `tiles` and a part of
  /// the head's columns; enters the row and sets `part`. Returns the head and the tile.
  std::pair<mlir::Value, mlir::Value> place(int64_t heads, int64_t tiles);
  /// Returns the quotient and the remainder of `number` by `divisor`.
  std::pair<mlir::Value, mlir::Value> split(mlir::Value number, int64_t divisor);

  /// Returns the first position of tile `tile`, for tiles of `rows` rows that are `step` apart.
  mlir::Value getFirstRow(mlir::Value tile, int64_t rows, int64_t step);

  /// Starts an asynchronous copy of rows first, first + step, ... of the sequence to `tile` plus
  /// `offset` bytes; invalid rows become zeros. Each thread copies its own chunks.
  void load(const Tile &tile, mlir::Value offset, const Source &source, mlir::Value first);

  /// Loads four matrices from lines [line, line + 16) and columns [column, column + 16). Rows: the
  /// order of the left factor. Columns and Transposed: b0, b1 of 8 columns of the right factor,
  /// then of the next 8; these columns are the streamed rows or, transposed, the columns of the
  /// streamed rows.
  enum class Order { Rows, Columns, Transposed };
  Values matrices(const Tile &tile, mlir::Value offset, int64_t line, int64_t column,
                  Order order = Order::Rows);
  /// Returns the byte offset in `tile` of the warp's first fixed line, for `fragments` per warp.
  mlir::Value warpOffset(const Tile &tile, int64_t fragments);
  /// Keeps the fixed factor in registers if it has at most `widest` columns.
  Fixed keep(const Tile &tile, int64_t fragments, int64_t widest);

  /// Computes fixed x streamed^T over all columns.
  Values multiplyRows(const Fixed &fixed, int64_t fragments, const Tile &streamed,
                      mlir::Value offset);
  /// Computes sums + weights x streamed. Weights have the layout of scores; streamed rows start at
  /// chunk `offset`.
  Values multiplyWeights(const Values &weights, int64_t fragments, const Tile &streamed,
                         mlir::Value offset, int64_t columns, Values sums);

  /// Loop over tiles 0 ... count - 1 except for the ones that `some` excludes.
  struct TileStream {
    mlir::Value count;
    int64_t bytes;   ///< bytes per buffer
    int64_t buffers; ///< two, or one if shared memory has no room for two
    std::function<mlir::Value(mlir::Value number)> some;
    std::function<void(mlir::Value number, mlir::Value offset)> load;
    std::function<Values(mlir::Value number, mlir::Value offset, mlir::ValueRange carried)> body;
  };
  /// Runs the loop. `prepare` runs once, while the first tile is being copied, and returns the
  /// initial loop-carried values.
  Values stream(const TileStream &stream, llvm::function_ref<Values()> prepare);

  /// Returns `count` f32 values from one of two branches.
  Values either(mlir::Value condition, size_t count, llvm::function_ref<Values()> where,
                llvm::function_ref<Values()> elsewhere);
  /// Applies f to every element of the scores of a warp.
  Values each(const Values &scores, int64_t columns,
              llvm::function_ref<mlir::Value(mlir::Value, const ElementPlace &)> f);
  /// Replaces elements outside the mask by `otherwise`. Tests nothing if `full` holds.
  Values masked(const Values &scores, int64_t columns, mlir::Value full, float otherwise,
                llvm::function_ref<mlir::Value(const ElementPlace &)> holds);
  /// i1, from i32 positions: the mask holds and, if `bounded`, the key is valid. Undefined for
  /// invalid queries.
  mlir::Value holds(mlir::Value p, mlir::Value q, bool bounded);
  /// Classifies the block of `rows` queries from p0 and `columns` keys from q0, each with its step.
  BlockClass classify(mlir::Value p0, int64_t rows, mlir::Value q0, int64_t columns);

  /// Dimension of the scores that runs along keys: columns, rows, or neither.
  enum class Keys { Columns, Rows, Neither };
  /// Flips the sign of nonnegative values that dropout drops, so one register holds both the value
  /// and the decision.
  Values marked(Values values, int64_t columns, Keys keys,
                llvm::function_ref<mlir::Value(const ElementPlace &)> computeElement);
  Values positive(Values values); ///< zeros for dropped values
  /// i64: ((b heads + h) T + p) T' + q, of i32 positions, T queries and T' keys.
  mlir::Value elementNumber(mlir::Value head, mlir::Value p, mlir::Value q);

  /// Computes the score region, or returns the raw score if `scoreFactor` is set.
  mlir::Value score(mlir::Region &region, mlir::ValueRange arguments);
  /// Factor that turns the result of `score` into a base-2 exponent.
  float exponentFactor() const { return log2e * shape.scoreFactor.value_or(1); }
  /// Returns the result of `score` as the region would compute it, with the same rounding.
  mlir::Value exactScore(mlir::Value score);
  mlir::Value isLarger(mlir::Value x, float bound); ///< i1: |x| > bound

  mlir::Value f32(float value);
  mlir::Value larger(mlir::Value x, mlir::Value y);
  mlir::Value exp2(mlir::Value x);
  /// Reduces over the four threads that share a row.
  mlir::Value acrossQuad(mlir::Value x, llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>);
  /// Returns i32 positions of the thread's fixed rows, which start at `first`, or of its columns.
  Values rowNumbers(mlir::Value first, int64_t fragments, int64_t step);
  Values columnNumbers(mlir::Value first, int64_t columns, int64_t step);
  /// Returns `step` times a line number.
  mlir::Value scaled(mlir::Value line, int64_t step);

  /// Stores sums[row] * scale[row] (scale may be empty) to the columns of the part, in rows from
  /// `first`, with the inverse rotation if `target.rotary` is set. All lanes of each warp must call
  /// it.
  void store(const Values &sums, mlir::ArrayRef<mlir::Value> scale, const Source &target,
             mlir::Value first, int64_t fragments, Padding padding);

  /// Returns `position` as an index, or a readable row if the position is out of range.
  mlir::Value existingRow(const AttentionSide &rows, mlir::Value position);

  Frame frame;
  Emitter &e;
  mlir::ImplicitLocOpBuilder &b;
  TensorCore core;
  const Shape shape;
  const bool isPartial; ///< domain with an axis: a tensor may have no memory for invalid rows
  mlir::Value thread, group, quad; ///< index; lane = 4 group + quad
  mlir::Value batchRow;            ///< index
  AttentionSide queries, keys, distances;
  mlir::Value validKeys; ///< i32: length of the keys
  mlir::Value part;      ///< index: first column of the head that the block sums

private:
  AttentionSide buildSide(int64_t positions, int64_t factor);
  /// Distributes the lines and chunks of a tile over the threads of the block. Unrolled for whole
  /// chunks; a loop for element-wise loads, for which registers do not suffice otherwise.
  void eachChunk(const Tile &tile, const Source &source,
                 llvm::function_ref<void(mlir::Value line, mlir::Value chunk)>);
  mlir::Value computeTileAddress(const Tile &tile, mlir::Value offset, mlir::Value line,
                                 mlir::Value chunk);
  void loadElements(const Source &source, mlir::Value to, mlir::Value position, mlir::Value chunk);
  /// Dropout decisions for the four scores of a fragment; requires rows whose length is a multiple
  /// of 4. All lanes of the warp must call it.
  std::array<mlir::Value, 4> keptTogether(mlir::ArrayRef<mlir::Value> elements, bool adjacent);
  /// Dropout decisions for two scores, the second in the next column.
  std::pair<mlir::Value, mlir::Value> keptPair(mlir::Value first, mlir::Value second,
                                               bool adjacent);
  void rotateBack(mlir::MutableArrayRef<mlir::Value> results, const Source &target,
                  mlir::Value position);
  Values exchangePairs(mlir::ArrayRef<mlir::Value> results);
  void storePairs(mlir::ArrayRef<mlir::Value> results, const Source &target, mlir::Value position);
  void storeColumns(mlir::Value values, const Source &target, mlir::Value position,
                    mlir::Value column);
};

/// Computes dQ, and stores the log-sum-exp and delta of each query, valid or not, in the workspace.
Stage makeQueryStage(dispatch::AttentionBackwardOp op, const Shape &shape, mlir::ModuleOp module,
                     llvm::StringRef name);
/// Computes dK and dV. Runs after the query stage.
Stage makeKeyStage(dispatch::AttentionBackwardOp op, const Shape &shape, mlir::ModuleOp module,
                   llvm::StringRef name);

/// Computes dR and the gradients of biases. Runs after the query stage.
Stage makeDistanceStage(dispatch::AttentionBackwardOp op, const Shape &shape, mlir::ModuleOp module,
                        llvm::StringRef name);

} // namespace sluice::cuda::attention
