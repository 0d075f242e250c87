// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention kernels: generators, sizes of the problem, and stages of the backward pass. Tiles.h,
// Scores.h and Results.h have the parts of a kernel.
//
// In every kernel a block owns some rows (*fixed*, 16 per fragment, each warp its own) and loops
// over the others (*streamed*, double-buffered in shared memory). Forward and dQ fix queries and
// stream keys; dK and dV fix keys and stream queries. Scores are products fixed x streamed. The
// accumulator layout of a product equals the layout of the left factor of the next one, so scores
// never leave their warp.
#pragma once

#include "../Frame/Frame.h"

#include "sluice/Target/Common/AttentionSizes.h"
#include "sluice/Target/Common/Score.h"

#include <limits>
#include <optional>

namespace sluice::cuda {

/// Factors are bf16 and sums f32; P is rounded to bf16 before its product with V. Heads have at
/// most 256 columns. FLOPs count the pairs of the mask only.
mlir::FailureOr<Kernel> generateAttention(dispatch::AttentionOp op, mlir::ModuleOp module,
                                          llvm::StringRef name);

/// Two launches: `<name>_queries` computes dQ and stores the log-sum-exp and delta of each query in
/// the workspace; `<name>_keys` computes dK and dV. With relative position terms the first launch
/// also computes dQv, and a third, `<name>_distances`, computes dR and the gradients of the biases.
/// P and dS are rounded to bf16 before products.
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
struct AttentionShape : AttentionSizes {
  /// Columns of results that one block sums, a multiple of 16: the whole head, up to 128 columns.
  /// Wider heads are split in two parts; a block computes one part, and both blocks compute the
  /// scores.
  int64_t partWidth, parts;
  int64_t width;                  ///< head width in shared memory: all parts; zeros after `head`
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
  std::optional<unsigned> range; ///< the operand with the first key of each query, if any
  /// Relative position terms: presence of rows, number of distinct biases, and the index of the
  /// first operand of the terms.
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
  /// A table by distance: its rows, and the distance of the first one.
  struct TermTable {
    int64_t rows, first;
    bool operator==(const TermTable &) const = default;
  };
  TermTable biasTable{};             ///< has `biasRows` rows, or fewer if distances share them
  std::optional<TermTable> rowTable; ///< R, if it is a table
  bool hasTerms() const { return hasRows || biasRows > 0; }
  int64_t stride() const { return distance.query * distance.key; }
  /// True if distances may exceed the last valid row; such distances use the last valid row.
  bool hasFarther() const { return hasRows && !rowTable && distance.offset > 0; }
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
template <typename Op> mlir::FailureOr<AttentionShape> makeShape(Op op);

/// Returns the bytes of the columns of `heads` heads in all rows of a tensor.
double headBytes(const AttentionShape &shape, mlir::Value tensor, int64_t heads);
double rotaryBytes(const AttentionShape &shape, mlir::Value rotary); ///< 0 if the table is null
double termBytes(const AttentionShape &shape, const dispatch::DistanceTerms &terms);

int64_t columnsTogether(const AttentionShape &shape, int64_t column); ///< for heads that start at
                                                                      ///< `column` of a row

/// Computes dQ, and stores the log-sum-exp and delta of each query, valid or not, in the workspace.
KernelStage makeQueryStage(dispatch::AttentionBackwardOp op, const AttentionShape &shape,
                           mlir::ModuleOp module, llvm::StringRef name);
/// Computes dK and dV. Runs after the query stage.
KernelStage makeKeyStage(dispatch::AttentionBackwardOp op, const AttentionShape &shape,
                         mlir::ModuleOp module, llvm::StringRef name);

/// Computes dR and the gradients of biases. Runs after the query stage.
KernelStage makeDistanceStage(dispatch::AttentionBackwardOp op, const AttentionShape &shape,
                              mlir::ModuleOp module, llvm::StringRef name);

} // namespace sluice::cuda::attention
