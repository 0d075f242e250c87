// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of a warpgroup (wgmma, sm_90a): four warps multiply tiles that they read from shared
// memory themselves, while the threads do other work.
//
// Sums of 64 x N have the layout of fragments: warp w has rows 16 w to 16 w + 15, and of each eight
// columns a thread has the four sums of an m16n8k16 product.
#pragma once

#include "TensorCore.h"

namespace sluice::cuda {

constexpr int64_t warpgroupRows = 64, warpsPerWarpgroup = 4;

/// A tile in shared memory as products read it.
struct MatrixLayout {
  bool linesAreInner = false; ///< a line has 64 outer elements of one inner index
  int64_t lineBytes = 128;    ///< 64 or 128; chunks are swizzled by `TensorCore::swizzled`
  int64_t panelBytes = 0;     ///< distance of the next 64 outer elements, if lines are inner
};

/// Every call must be reached by all warps of the warpgroup. Sums pass through each call that
/// orders their registers, because products write them after the threads have gone on.
class Warpgroup {
public:
  Warpgroup(Frame &frame, TensorCore &core);

  /// Returns the number (index) of this thread's warpgroup among `count`, in a form that is
  /// evidently the same for all lanes of a warp.
  Value number(int64_t count);
  /// Makes this thread's writes to shared memory, and completed copies, visible to products that
  /// start after a barrier.
  void publish();
  /// Orders earlier writes of the sums' registers before the products that follow.
  Values start(mlir::ValueRange sums);
  /// Starts sums += a * b for 64 rows, 16 inner elements and twice as many columns as there are
  /// sums. `a` and `b` are descriptors.
  Values multiply(Value a, bool aLinesAreInner, Value b, bool bLinesAreInner,
                  mlir::ValueRange sums);
  void commit(); ///< ends a group of products
  /// Waits until at most `pending` groups are in flight; with none, the sums may be read.
  Values wait(int64_t pending, mlir::ValueRange sums);
  /// Returns the descriptor (i64) of a matrix that starts at byte `byte` (index) + `offset` of
  /// dynamic shared memory. Tiles are aligned to eight lines.
  Value describe(const MatrixLayout &layout, Value byte, int64_t offset);

private:
  Values assemble(llvm::StringRef text, mlir::ValueRange sums, mlir::ValueRange more = {});

  Frame &frame;
  mlir::ImplicitLocOpBuilder &b;
  Emitter &e;
  Value base; ///< i32: first byte of dynamic shared memory, in descriptors' units
};

} // namespace sluice::cuda
