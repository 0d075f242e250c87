// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Products of few rows with a weight of whole numbers: i8, or 4 bits in groups with scales. An item
// first rounds its rows to i16, with a scale per row, and sums products of integers, which are
// exact. Widening i8 to f32 instead takes so many instructions that a weight in f32 is as fast,
// unless memory is slow. A weight of 4 bits is widened to i16 by a mask and a shift, in registers.
// The integer sum of a group is a number of f32 that is multiplied by the group's scale as it is
// added to the sum of its column.
#pragma once

#include "sluice/Target/CPU/Frame.h"
#include "sluice/Target/Common/Emitter.h"

namespace sluice::cpu {

class WholeProducts {
public:
  WholeProducts(dispatch::ContractOp op, Emitter &emitter);

  const int64_t inner;
  const int64_t groups;      ///< of a row of the weight; 0 without groups
  const int64_t stepColumns; ///< columns of a step

  /// Finds the buffers of the op, and allocates scratch for `slots` rounded rows.
  void allocate(Frame &frame, int64_t slots);
  /// Rounds row `row` of the input to whole numbers of i16: x = scale * q with |q| <= 32767. The
  /// scale of a row with a number that is not finite is not finite either, and so are all its
  /// results.
  void roundRow(Value row, Value slot);
  Value getScale(Value slot) { return e.broadcast(e.loadScalar(rowScales, slot)); }
  /// Returns the row of the weight in memory with column `k` of row `output`.
  Value getWeightRow(Value output, Value k);
  /// Adds the products of `stepColumns` columns from `k` of rounded rows, by slot, with rows of the
  /// weight. Columns past the first `valid` are not read. Sums are ordered by output and row: of
  /// i32, or of f32 with groups.
  Values step(mlir::ArrayRef<Value> slots, mlir::ArrayRef<Value> outputs, Value k, int64_t valid,
              ValueRange sums);

private:
  Value getPlace(Value k);
  Value loadBytes(Value row, Value column, int64_t valid);
  Values stepBytes(mlir::ArrayRef<Value> slots, mlir::ArrayRef<Value> outputs, Value k,
                   int64_t valid, ValueRange sums);
  Values stepGroups(mlir::ArrayRef<Value> slots, mlir::ArrayRef<Value> outputs, Value k,
                    int64_t valid, ValueRange sums);

  dispatch::ContractOp op;
  Emitter &e;
  Value input, weight, scales;
  Value rounded, rowScales; ///< [slots][inner] rows in i16, and the scale of each
};

} // namespace sluice::cpu
