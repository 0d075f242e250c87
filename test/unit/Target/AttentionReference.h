// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention and its gradients in float64, element by element, each with an error bound for f32
// kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace sluice::test {

/// A mask relation, as IR and as code.
struct MaskRelation {
  std::string text; ///< affine_set over (p, q)[n]
  std::function<bool(int64_t p, int64_t q, int64_t n)> holds;
};

/// A score region and its derivative, as IR (arguments %s, %p, %q, %h, and %g of the derivative;
/// each ends in a value %r) and as code. The second derivative is at most 1 in magnitude. Where
/// scores have products by distance, s is the sum of both.
struct Score {
  std::string text, derivativeText;
  std::function<double(double s, int64_t p, int64_t q, int64_t h)> value, derivative;
  /// For a region that uses such a product, %w, other than in a sum: then the functions above are
  /// absent, and the derivative by the product is %byw.
  std::function<double(double s, double w)> joint = nullptr, byScore = nullptr, byProduct = nullptr;
};

struct AttentionCase {
  std::string name;
  int64_t batch, positions, heads, kvHeads, head;
  int64_t length, rows;
  MaskRelation relation;
  Score score;
  bool rotary = false; ///< gradients of Q and K are rotated back
  float dropout = 0;
  int64_t randomId = 3, factor = 1, step = 5, seed = (int64_t(7) << 32) + 11;
  /// Rows of Q, K, V, outputs and gradients are bf16, and so are factors of products: P and the
  /// scores' gradients are rounded, which the bounds then allow for.
  bool bf16 = false;
  bool wideResults = false; ///< outputs and gradients are f32 anyway
  /// Tensors of Q, K and V: one of all; one of Q and one of K and V; or one each.
  int64_t tensors = 1;
  int64_t keyPositions = 0, keyFactor = 1; ///< of keys, if they have their own rows
  std::vector<int64_t> keyCounts =
      {};                 ///< valid keys of each row of the batch, if it has its own count
  bool distances = false; ///< scores have products with rows by distance
  int64_t biasRows = 0;   ///< of a table of biases by distance; 0: none
  int64_t distanceQuery = 1, distanceKey = 1, distanceOffset = 0; ///< a, b, c of a p - b q + c
  int64_t distancePositions = 0; ///< rows by distance; 0: one per query
  int64_t tableRows = 0; ///< of tables of both directions, which rows by distance then are; 0: none

  bool bf16Results() const { return bf16 && !wideResults; }
  int64_t valid() const { return factor == 0 ? positions : (length + factor - 1) / factor; }
  int64_t keys() const { return keyPositions > 0 ? keyPositions : positions; }
  int64_t validKeys(int64_t row) const {
    return !keyCounts.empty() ? keyCounts[size_t(row)]
           : keyPositions > 0 ? (length + keyFactor - 1) / keyFactor
                              : valid();
  }
  /// Number of the tensor of Q (part 0), K (1) or V (2).
  int64_t getTensorIndex(int64_t part) const {
    return part == 0 ? 0 : part == 1 ? tensors > 1 : tensors - 1;
  }
  int64_t getFirstColumn(int64_t part) const; ///< of its tensor, where part's heads begin
  int64_t width(int64_t tensor = 0) const;
  int64_t getValueRows(int64_t tensor) const { return tensor == 0 ? positions : keys(); }
  int64_t distanceRows() const { return distancePositions > 0 ? distancePositions : positions; }
  int64_t validDistances() const {
    if (tableRows > 0) {
      return distancePositions;
    }
    int64_t step = factor / distanceQuery;
    return (length + step - 1) / step;
  }
  /// Returns the rows of a term, or of the gradient of a table that heads share.
  int64_t termRows(int64_t term) const {
    return term == 0 ? positions : (tableRows > 0 ? heads : 1) * distanceRows();
  }
  int64_t terms() const { return (distances ? 2 : 0) + (biasRows > 0 ? 1 : 0); }
  int64_t termWidth(int64_t term) const {
    bool isShared = term == 1 && tableRows > 0;
    return distances && term < 2 ? (isShared ? head : heads * head) : heads;
  }
  /// Returns the rows of the gradient of the table of biases.
  int64_t biasParts() const { return tableRows > 0 ? distancePositions : biasRows; }
  std::string forwardText() const;
  std::string backwardText() const;
};

/// Expected numbers of one tensor, and the error bound of a kernel.
struct Expected {
  std::vector<double> value, bound;
  explicit Expected(int64_t elements = 0) : value(elements), bound(elements) {}
};

struct AttentionData {
  std::vector<float> qkv, outputGradient, rotary; ///< [B, T, width], [B, T, heads * D], [T, D]
  std::vector<std::vector<float>> others;         ///< tensors after the first, which is `qkv`
  Expected output, lse, gradient;                 ///< invalid rows: zeros
  std::vector<Expected> otherGradients;
  std::vector<std::vector<float>> terms; ///< position queries and rows by distance; a table
  std::vector<Expected> termGradients;   ///< of the table one part a row of the batch
  std::vector<float> outputIn, lseIn;    ///< inputs of the backward kernel

  const std::vector<float> &tensor(int64_t number) const {
    return number == 0 ? qkv : others[number - 1];
  }
  Expected &getExpectedGradient(int64_t number) {
    return number == 0 ? gradient : otherGradients[number - 1];
  }
};

/// Queries, keys and values, as the first three operands.
std::vector<std::vector<float>> sequences(const AttentionCase &c, const AttentionData &data);

/// The counts as an operand.
std::vector<float> countReads(const AttentionCase &c);

/// Draws random inputs in [-1, 1] and evaluates. Invalid rows hold NaN in every input.
AttentionData makeAttention(const AttentionCase &c);

MaskRelation causal(), window(int64_t size), everything();
/// Queries on a scale of factor a, keys of b: m - end < q <= m - begin, m = a p div b.
MaskRelation betweenScales(int64_t a, int64_t b, int64_t begin, int64_t end);
/// Two rows of 150 tokens at most, four heads of 8 over two of keys, under that relation.
AttentionCase onScales(int64_t a, int64_t b, int64_t begin, int64_t end);
/// The case with products by distance, or a table of this many biases, or both.
AttentionCase withTerms(AttentionCase c, bool distances, int64_t biasRows);
/// The case with tables of both directions: rows that all heads share, or biases, or both.
AttentionCase inBothDirections(AttentionCase c, bool distances, bool biases, int64_t tableRows);
/// Four rows over their own keys, each with its own count, as on the axis of an input.
AttentionCase onGivenAxis(int64_t heads, int64_t kvHeads, int64_t head);
/// The case between scales with both: distances in steps of the finer one, between beginnings, or
/// between ends, where the last group may be partial.
AttentionCase acrossScales(int64_t a, int64_t b, bool isComplete, int64_t biasRows);
/// Four rows of at most 70 queries over given keys, each with its own count: 90, 0, 33, 64.
AttentionCase overGivenKeys();
Score scaled(double factor), softCap(double cap), linearBias();
/// factor s / (1 + e^-w), w the product by distance
Score gated(double factor);
/// The arguments of a score region after its terms, with the ops that compute %s from them.
std::string termArguments(const Score &score, bool distances, bool hasBias);
std::string sumOfTerms(const Score &score, bool distances);

} // namespace sluice::test
