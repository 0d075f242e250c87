// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// The reference: evaluates functions of the model dialect op by op, in float64 (the oracle) or
// float32 (for the rounding error of compiled code). Slow and simple; shares no code with compiled
// kernels.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "sluice/Dialect/Dispatch/ScalarOps.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include <array>
#include <functional>
#include <vector>

namespace sluice::reference {

/// Values that are known only at run time.
struct RuntimeValues {
  int64_t rows = 1;   ///< valid rows of the batch
  int64_t length = 1; ///< valid tokens per row
  uint64_t seed = 0;
  uint64_t step = 1;
  /// True to round results of bf16 sequences to bf16, as compiled code stores them.
  bool rounded = false;
  /// Number of rows that count in the losses, per batch row; empty: all.
  std::vector<int64_t> scored = {};

  bool isPadding(int64_t row, int64_t position) const {
    return !scored.empty() && position >= scored[static_cast<size_t>(row)];
  }
};

/// Returns the nearest bf16 number, ties to even: 8 bits of mantissa, units of at least 2^-133,
/// infinite from 2^128 - 2^119.
double roundToBf16(double number);

/// Philox4x32-10 (Salmon et al., 2011): four words of a counter under a key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);
/// Returns true if `key` draws the pair of positions p and q, as `sluice.degrees` defines it.
bool isDrawnPair(uint32_t key, int64_t p, int64_t q);

/// Returns the number in [0, 1) that dispatch.random draws for `element` of stream `id`.
double uniform(uint64_t seed, uint64_t step, uint64_t id, uint64_t element);

/// Returns the number of columns of a sequence: the width, 1 if the width is 0.
int64_t getColumns(mlir::Value sequence);

/// Values of one function's evaluation. `T` is double or float.
///
/// A sequence of width d is [rows, positions, max(d, 1)], dense, valid positions only; a tensor is
/// dense, row-major.
template <typename T> class Evaluator {
public:
  /// Reads a lazy sequence: (row, any position, column, value of null) -> number.
  using Lazy = std::function<T(int64_t, int64_t, int64_t, T)>;

  /// `module` provides scales and capacities.
  Evaluator(mlir::ModuleOp module, RuntimeValues setting) : module(module), setting(setting) {}

  /// Rows that one decode step computes, and rows that it must not access (StepReference.h).
  struct Window {
    /// First row of a value that is computed, and the end of its rows.
    std::function<std::pair<int64_t, int64_t>(mlir::Value)> rows;
    /// Called for each access, at a position >= 0, of a row that is not available.
    std::function<void(mlir::Value, int64_t)> missing;
  };
  /// Sets the number of valid tokens to `length`; ops are then evaluated only on the rows of
  /// `window`.
  void setStep(int64_t length, Window window);

  const RuntimeValues &getSetting() const { return setting; }

  //===-- What a caller sets and reads
  //------------------------------------------------------------------------===//

  /// Sets a sequence [rows, positions(value), columns(value)].
  void setSequence(mlir::Value value, std::vector<T> data);
  /// Sets tokens, [rows, any number of tokens per row].
  void setTokens(mlir::Value value, std::vector<int32_t> data);
  /// Sets the number of positions per row on a given axis; by default its capacity.
  void setCounts(llvm::StringRef axis, std::vector<int64_t> counts) {
    given[axis] = std::move(counts);
  }
  /// Sets a tensor operand or argument.
  void setTensor(mlir::Value value, std::vector<T> data);
  /// Sets a parameter by its symbol.
  void setParameter(llvm::StringRef symbol, std::vector<T> data) {
    parameters[symbol] = std::move(data);
  }

  /// Evaluates every op of `function`, whose arguments must be set. Fails, with an error at the op,
  /// if an op has no reference or a parameter was not set.
  mlir::LogicalResult evaluate(mlir::func::FuncOp function);
  /// Evaluates one op, whose operands must be set.
  mlir::LogicalResult evaluate(mlir::Operation *op);

  /// Returns all valid positions of a sequence, lazy or not: [rows, positions, columns].
  std::vector<T> getSequence(mlir::Value value) const;
  /// Returns a tensor's elements.
  const std::vector<T> &getTensor(mlir::Value value) const;
  /// Returns the gradients that sluice.store_gradient stored, by symbol.
  const llvm::StringMap<std::vector<T>> &getGradients() const { return gradients; }

  /// Edge lists by name, as the host provides them (`sluice.degrees`). Without them each row but
  /// the last has an edge to the row before it and to the first one, or edges are drawn by 0.
  llvm::StringMap<std::vector<int32_t>> edges;

  //===-- What the evaluation of an op uses
  //-------------------------------------------------------------------===//

  /// Returns the number of positions of a sequence that attention may access in this batch row.
  int64_t getCount(mlir::Value sequence, int64_t row) const;
  /// Returns the number of computed positions of a sequence's scale: ceil(length / factor); all
  /// positions on a given axis.
  int64_t getPositions(mlir::Value sequence) const;

  /// Returns an element of a sequence at any position: `null` outside its root's valid positions.
  T at(mlir::Value sequence, int64_t row, int64_t position, int64_t column, T null = 0) const;
  /// Returns the numbers of one position.
  std::vector<T> rowAt(mlir::Value sequence, int64_t row, int64_t position) const;
  /// Returns token `position` of a row, which must have been set.
  int32_t tokenAt(mlir::Value tokens, int64_t row, int64_t position) const;

  /// Defines a sequence on its valid positions: `fill(row, position)` returns the numbers of each.
  void define(mlir::Value sequence, llvm::function_ref<std::vector<T>(int64_t, int64_t)> fill);
  /// Defines a lazy sequence on all integers.
  void defineLazy(mlir::Value sequence, Lazy read) { lazies[sequence] = std::move(read); }

  /// Calls `visit(row, position)` for each valid position of a sequence's scale.
  void forEachPosition(mlir::Value sequence,
                       llvm::function_ref<void(int64_t, int64_t)> visit) const;

private:
  struct Dense {
    int64_t positions = 0, columns = 0;
    std::vector<T> data;
    int64_t first = 0; ///< position
  };

  mlir::ModuleOp module;
  RuntimeValues setting;
  Window window; ///< window of a step; without `rows`, there is none
  /// Valid positions by scale, cached because a symbol lookup walks the module, for every element.
  mutable llvm::DenseMap<mlir::Attribute, int64_t> positionsOfScale;
  llvm::DenseMap<mlir::Value, Dense> sequences;
  llvm::DenseMap<mlir::Value, Lazy> lazies;
  llvm::DenseMap<mlir::Value, std::vector<int32_t>> tokens;
  llvm::DenseMap<mlir::Value, std::vector<T>> tensors;
  llvm::StringMap<std::vector<T>> parameters, gradients;
  llvm::StringMap<std::vector<int64_t>> given; ///< counts by axis
};

extern template class Evaluator<double>;
extern template class Evaluator<float>;

/// Position at which scalar code runs, for dispatch.position, dispatch.column and dispatch.random.
struct ScalarPlace {
  uint64_t seed = 0, step = 1;
  int64_t position = 0;
  int64_t column = 0;
  int64_t globalRow = 0; ///< row * capacity + position
};

using scalar::Scalar;

/// Runs a straight-line region of arith, math and dispatch ops; returns the values that it yields.
/// Terminates the program on an unknown op, because a wrong oracle is worse than none.
template <typename T>
llvm::SmallVector<Scalar<T>>
evaluateScalar(mlir::Region &region, llvm::ArrayRef<Scalar<T>> arguments, const ScalarPlace &place);

/// Returns the value of `expression` at dims (p, q) and symbol n.
int64_t evaluateAffine(mlir::AffineExpr expression, int64_t p, int64_t q, int64_t n);
/// Returns true if (p, q) with symbol n is in `set`.
bool contains(mlir::IntegerSet set, int64_t p, int64_t q, int64_t n);

} // namespace sluice::reference
