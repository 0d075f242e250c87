// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// The reference: evaluates functions of the model dialect op by op, in float64 (the oracle) or
// float32 (the yardstick of rounding). Slow and obvious; shares nothing with any compiled kernel.
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
  int64_t length = 1; ///< valid tokens a row
  uint64_t seed = 0;
  uint64_t step = 1;
  /// Values whose element type is bf16 are rounded to it, as they are made: what storage costs.
  bool rounded = false;
  /// Rows of each text that count in its losses; empty: all.
  std::vector<int64_t> scored = {};

  bool isPadding(int64_t row, int64_t position) const {
    return !scored.empty() && position >= scored[static_cast<size_t>(row)];
  }
};

/// The nearest number that bf16 holds, ties to even: 8 bits of mantissa, units of at least 2^-133,
/// infinite from 2^128 - 2^119 on. NaN and infinities stay.
double roundToBf16(double number);

/// Philox4x32-10 (Salmon et al., 2011): four words of a counter under a key.
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// The number in [0, 1) that dispatch.random draws for `element` of stream `id`.
double uniform(uint64_t seed, uint64_t step, uint64_t id, uint64_t element);

/// Returns the number of numbers at a position of a sequence: the width, 1 where it is 0.
int64_t getColumns(mlir::Value sequence);

/// Values of one function's evaluation. `T` is double or float.
///
/// A sequence of width d is [rows, positions, max(d, 1)], dense, valid positions alone; a tensor is
/// dense, row-major.
template <typename T> class Evaluator {
public:
  /// Reads a lazy sequence: (row, any position, column, what null reads as) -> number.
  using Lazy = std::function<T(int64_t, int64_t, int64_t, T)>;

  /// `module` gives scales and capacities.
  Evaluator(mlir::ModuleOp module, RuntimeValues setting) : module(module), setting(setting) {}

  /// Rows that one step of generation computes, and rows that it must not read (StepReference.h).
  struct Window {
    /// First row computed of a value, and one past the last.
    std::function<std::pair<int64_t, int64_t>(mlir::Value)> rows;
    /// Told of each read, from position 0 on, of a row that is not there.
    std::function<void(mlir::Value, int64_t)> missing;
  };
  /// From now on, `length` tokens are valid, and ops are evaluated on the rows of `window` alone.
  void setStep(int64_t length, Window window);

  const RuntimeValues &getSetting() const { return setting; }

  //===-- What a caller sets and reads
  //------------------------------------------------------------------------===//

  /// Sets a sequence [rows, positions(value), columns(value)].
  void setSequence(mlir::Value value, std::vector<T> data);
  /// Sets tokens, [rows, any number of tokens a row].
  void setTokens(mlir::Value value, std::vector<int32_t> data);
  /// Sets how many positions each row has of a given axis; without, all of its capacity.
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
  /// where an op has no reference or a parameter was not set.
  mlir::LogicalResult evaluate(mlir::func::FuncOp function);
  /// Evaluates one op, whose operands must be set.
  mlir::LogicalResult evaluate(mlir::Operation *op);

  /// All valid positions of a sequence, lazy or not: [rows, positions, columns].
  std::vector<T> getSequence(mlir::Value value) const;
  /// A tensor's elements.
  const std::vector<T> &getTensor(mlir::Value value) const;
  /// Gradients that sluice.store_gradient stored, by symbol.
  const llvm::StringMap<std::vector<T>> &getGradients() const { return gradients; }

  //===-- What the evaluation of an op uses
  //-------------------------------------------------------------------===//

  /// Positions of a sequence that attention may read in this row of the batch.
  int64_t getCount(mlir::Value sequence, int64_t row) const;
  /// Positions of a sequence's scale that are computed: ceil(length / factor); of a given axis all.
  int64_t getPositions(mlir::Value sequence) const;

  /// Element of a sequence at any position: `null` outside its root's valid ones.
  T at(mlir::Value sequence, int64_t row, int64_t position, int64_t column, T null = 0) const;
  /// One position's numbers.
  std::vector<T> rowAt(mlir::Value sequence, int64_t row, int64_t position) const;
  /// Token `position` of a row; must have been given.
  int32_t tokenAt(mlir::Value tokens, int64_t row, int64_t position) const;

  /// Defines a sequence on its valid positions: `fill(row, position)` gives the numbers of each.
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
  Window window; ///< of a step; without `rows`, there is none
  /// Valid positions by scale: looking a symbol up walks the module, and every element read asks.
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

/// Where scalar code runs: dispatch.position, dispatch.column and dispatch.random read it.
struct ScalarPlace {
  uint64_t seed = 0, step = 1;
  int64_t position = 0;
  int64_t column = 0;
  int64_t globalRow = 0; ///< row * capacity + position
};

using scalar::Scalar;

/// Runs a straight-line region of arith, math and dispatch ops; returns the values that it yields.
/// An op that it does not know ends the program, because a wrong oracle is worse than none.
template <typename T>
llvm::SmallVector<Scalar<T>>
evaluateScalar(mlir::Region &region, llvm::ArrayRef<Scalar<T>> arguments, const ScalarPlace &place);

/// Value of `expression` at dims (p, q) and symbol n.
int64_t evaluateAffine(mlir::AffineExpr expression, int64_t p, int64_t q, int64_t n);
/// Returns true if (p, q) with symbol n is in `set`.
bool contains(mlir::IntegerSet set, int64_t p, int64_t q, int64_t n);

} // namespace sluice::reference
