// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A thin layer over the builder for generators of hand-written vector code: one line per operation.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace sluice::target {

using mlir::Value;
using mlir::ValueRange;
using Values = llvm::SmallVector<Value>;

/// Emits at the builder's insertion point. Vectors have `lanes` elements of f32 (or i32).
class Emitter {
public:
  Emitter(mlir::ImplicitLocOpBuilder &builder, int64_t lanes)
      : b(builder), lanes(lanes), floats(mlir::VectorType::get({lanes}, builder.getF32Type())),
        integers(mlir::VectorType::get({lanes}, builder.getI32Type())) {}

  mlir::ImplicitLocOpBuilder &b;
  const int64_t lanes;
  const mlir::VectorType floats, integers;

  Value index(int64_t value);
  Value integer(int64_t value); ///< i32
  Value splat(float value);
  Value splatInteger(int64_t value);
  Value toInteger(Value index);  ///< index to i32
  Value broadcast(Value scalar); ///< splats a scalar f32 or i32; returns a vector unchanged

  /// Index and integer arithmetic, on scalars and vectors alike.
  Value add(Value a, Value c);
  Value sub(Value a, Value c);
  Value mul(Value a, Value c);
  Value add(Value a, int64_t c);
  Value mul(Value a, int64_t c);
  Value floorDiv(Value a, int64_t positive); ///< rounds toward minus infinity, for any sign of `a`
  Value min(Value a, Value c);
  Value max(Value a, Value c);
  Value roundUp(Value a, int64_t multiple);
  Value less(Value a, Value c);               ///< signed a < c
  Value atLeast(Value a, Value c);            ///< signed a >= c
  Value both(Value a, Value c);               ///< a and c, of booleans
  Value constantLike(Value a, int64_t value); ///< has the type of `a`, a splat for vectors

  /// f32 arithmetic, on scalars and vectors alike.
  Value addf(Value a, Value c);
  Value subf(Value a, Value c);
  Value mulf(Value a, Value c);
  Value maxf(Value a, Value c); ///< maximum; unspecified for NaN, which makes it a single
                                ///< instruction
  Value fma(Value a, Value c, Value d);
  Value select(Value condition, Value a, Value c);

  /// Memory of f32, i32 (scalars), or bf16 (as i16), which loads extend to f32 and stores round.
  /// `valid` restricts a vector to its first elements: others load as zero and are not stored.
  Value load(Value memory, ValueRange indices);
  Value loadScalar(Value memory, ValueRange indices);
  void store(Value value, Value memory, ValueRange indices);
  Value load(Value memory, ValueRange indices, int64_t valid);
  void store(Value value, Value memory, ValueRange indices, int64_t valid);

  Value shuffle(Value a, Value c, llvm::ArrayRef<int64_t> lanesOf);
  Value sum(Value vector); ///< sum of all lanes, broadcast to every lane; a tree, so the order is
                           ///< fixed
                           ///< log2(lanes) additions deep

  /// Returns a vector whose lane i is the sum of all lanes of vector i mod n, where n =
  /// `vectors.size()` is a power of two, at most `lanes`. Equal to `sum`, in a third of the
  /// operations.
  Value sumEach(Values vectors);

  void loop(Value from, Value to, int64_t step, llvm::function_ref<void(Value)> body);
  Values loop(Value from, Value to, int64_t step, ValueRange carried,
              llvm::function_ref<Values(Value, ValueRange)> body);
  void when(Value condition, llvm::function_ref<void()> then,
            llvm::function_ref<void()> otherwise = nullptr);
};

} // namespace sluice::target
