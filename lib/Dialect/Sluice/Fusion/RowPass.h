// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds row passes for ops that are separate dispatches: reads rows by position, by an index or
// over a range, and splits rows into heads.
#pragma once

#include "sluice/Dialect/Dispatch/Combiner.h"
#include "sluice/Dialect/Sluice/Fusion.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace sluice::lowering {
using namespace mlir;
using dispatch::AccessAttr;
using dispatch::AccessKind;

inline int64_t getSequenceWidth(Value sequence) {
  return cast<SequenceType>(sequence.getType()).getWidth();
}

inline int64_t getTensorColumns(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getDimSize(2);
}

inline int64_t getArgumentNumber(Value argument) {
  return cast<BlockArgument>(argument).getArgNumber();
}

/// A row pass under construction. Offsets are relative to the position, or to the index of a row.
class RowPass {
public:
  explicit RowPass(DispatchEmitter &emitter)
      : b(emitter.b.getLoc(), emitter.b.getContext()), emitter(emitter),
        block(region.emplaceBlock()), p(getAffineDimExpr(0, b.getContext())),
        i(getAffineDimExpr(1, b.getContext())) {
    b.setInsertionPointToEnd(&block);
  }

  /// Returns row p of a sequence on the result's scale.
  Value row(Value sequence) {
    return computeRow(sequence, {AccessKind::Row, p, emitter.getScaleFactor(sequence)});
  }
  /// Returns element p + `offset` of counts; 0 outside.
  Value count(Value counts, int64_t offset) {
    return load(emitter.get(counts), {AccessKind::Row, p + offset, 0}, 0);
  }
  /// Returns element p + `offset` of ends; e(x) = x for x < 0.
  Value end(Value ends, int64_t offset) {
    return load(emitter.get(ends), {.kind = AccessKind::Row, .at = p + offset, .extended = true},
                0);
  }
  /// Returns element `index` + `offset` of ends.
  Value end(Value ends, Value index, int64_t offset) {
    return load(emitter.get(ends),
                {.kind = AccessKind::Gather,
                 .at = p + offset,
                 .index = getArgumentNumber(index),
                 .extended = true},
                0);
  }
  /// Returns row `index` + `offset` of a sequence; zeros if it does not exist.
  Value gather(Value sequence, Value index, int64_t offset, bool whole) {
    return computeRow(sequence, {.kind = AccessKind::Gather,
                                 .at = p + offset,
                                 .factor = whole ? 0 : emitter.getScaleFactor(sequence),
                                 .index = getArgumentNumber(index)});
  }
  /// Returns the sum of the rows [first + offset, last + offset) of a sequence, each times its
  /// number in `weights` if that is not null.
  Value sum(Value sequence, Value first, Value last, int64_t offset, Value weights = {}) {
    return computeRow(sequence, {.kind = AccessKind::Range,
                                 .at = p + offset,
                                 .factor = emitter.getScaleFactor(sequence),
                                 .index = getArgumentNumber(first),
                                 .last = getArgumentNumber(last),
                                 .weight = weights ? getArgumentNumber(weights) : -1});
  }
  /// Returns the sum of one number per position over [p + offset, last + offset).
  Value sumFromHere(Value tensor, int64_t factor, Value last, int64_t offset) {
    return load(tensor,
                {.kind = AccessKind::Range,
                 .at = p + offset,
                 .factor = factor,
                 .last = getArgumentNumber(last)},
                0);
  }
  /// Returns the sum of all valid rows of a sequence.
  Value total(Value sequence) {
    AffineExpr n = getAffineSymbolExpr(0, b.getContext());
    return computeRow(sequence, {AccessKind::Range, i * n, emitter.getScaleFactor(sequence)});
  }
  /// Returns row 0 of a tensor [B, T, d] or [B, T].
  Value first(Value tensor, int64_t width) {
    return load(tensor, {AccessKind::Row, getAffineConstantExpr(0, b.getContext()), 0}, width);
  }
  /// Returns row p of a tensor [B, T, d].
  Value row(Value tensor, int64_t factor) {
    return load(tensor, {AccessKind::Row, p, factor}, getTensorColumns(tensor));
  }
  /// Returns row p as d / H rows of H heads: column i H + h is number i of head h.
  Value heads(Value tensor, int64_t factor, int64_t heads) {
    RowPassAccess access = {.kind = AccessKind::Row,
                            .at = p,
                            .factor = factor,
                            .group = getTensorColumns(tensor) / heads};
    return load(tensor, access, heads);
  }
  /// Returns row 0 of a tensor [B, 1, d] in the same form.
  Value firstHeads(Value tensor, int64_t heads) {
    RowPassAccess access = {.kind = AccessKind::Row,
                            .at = getAffineConstantExpr(0, b.getContext()),
                            .group = getTensorColumns(tensor) / heads};
    return load(tensor, access, heads);
  }
  /// Returns row `index` + `offset` of a tensor [B, T, d], all of whose rows exist.
  Value gather(Value tensor, Value index, int64_t offset) {
    RowPassAccess access = {
        .kind = AccessKind::Gather, .at = p + offset, .index = getArgumentNumber(index)};
    return load(tensor, access, getTensorColumns(tensor));
  }
  /// Returns the sum of rows [first + offset, last + offset) of a tensor, or their maxima.
  Value over(Value tensor, int64_t factor, Value first, Value last, int64_t offset,
             bool isGreatest) {
    RowPassAccess access = {.kind = AccessKind::Range,
                            .at = p + offset,
                            .factor = factor,
                            .index = getArgumentNumber(first),
                            .last = getArgumentNumber(last),
                            .isGreatest = isGreatest};
    return load(tensor, access, getTensorColumns(tensor));
  }
  /// Returns the element of a tensor of rank 0 (Scalar), or element p of a tensor [B, T] (Row).
  Value element(Value tensor, AccessKind kind) { return load(tensor, {kind, p}, 0); }

  /// Finishes the dispatch: stores each of `yielded` as a row of `domain`, in its type.
  SmallVector<Value> finish(ArrayRef<Value> yielded, ArrayRef<RankedTensorType> types,
                            dispatch::DomainAttr domain) {
    dispatch::YieldOp::create(b, yielded);
    SmallVector<Attribute> results(yielded.size(),
                                   AccessAttr::get(b.getContext(), AccessKind::Row));
    auto op =
        dispatch::RowsOp::create(emitter.b, llvm::to_vector_of<Type>(types), operands, domain,
                                 b.getArrayAttr(accesses), b.getArrayAttr(results), UnitAttr(),
                                 DenseI64ArrayAttr(), StringAttr(), StringAttr(), UnitAttr());
    op.getBody().takeBody(region);
    return llvm::to_vector_of<Value>(op.getResults());
  }
  Value finish(Value yielded, RankedTensorType type, dispatch::DomainAttr domain) {
    return finish(ArrayRef<Value>(yielded), ArrayRef<RankedTensorType>(type), domain).front();
  }
  /// Finishes the dispatch as `result` of the model.
  LogicalResult finish(Value yielded, Value result) {
    emitter.set(result,
                finish(yielded, emitter.getTensorType(result), emitter.getRowDomain(result)));
    return success();
  }

  ImplicitLocOpBuilder b;

protected:
  struct RowPassAccess {
    AccessKind kind;
    AffineExpr at;
    int64_t factor = 0, index = -1, last = -1;
    bool extended = false;
    int64_t group = 1;
    bool isGreatest = false;
    int64_t list = -1, weight = -1;
    dispatch::SoftmaxAttr softmax = {};
    int64_t column = 0;
    bool isPadded = false; ///< columns outside the row are zeros
  };

  Value computeRow(Value sequence, const RowPassAccess &access) {
    return load(emitter.get(sequence), access, getSequenceWidth(sequence));
  }
  Value load(Value tensor, const RowPassAccess &access, int64_t width) {
    MLIRContext *context = b.getContext();
    bool isGroup = access.group > 1 && width > 0;
    AffineMap column = isGroup
                           ? AffineMap::get(2, 0, i * width)
                           : AffineMap::get(1, 0, getAffineConstantExpr(access.column, context));
    FloatAttr outside = access.isPadded ? b.getF32FloatAttr(0) : FloatAttr();
    if (access.isGreatest) {
      outside =
          cast<FloatAttr>(dispatch::getIdentityValue(dispatch::ReduceKind::Max, b.getF32Type()));
    }
    operands.push_back(tensor);
    accesses.push_back(AccessAttr::get(
        context, access.kind, AffineMapAttr::get(AffineMap::get(2, 1, access.at)), access.group,
        access.factor, AffineMapAttr::get(column), access.index, outside, access.last,
        access.extended, access.list, access.weight, /*drawn=*/-1, access.softmax));
    Type type = dispatch::getBodyType(cast<RankedTensorType>(tensor.getType()).getElementType());
    SmallVector<int64_t> shape = {width};
    if (access.group > 1) {
      shape.insert(shape.begin(), access.group);
    }
    return block.addArgument(width > 0 ? RankedTensorType::get(shape, type) : type, b.getLoc());
  }

  DispatchEmitter &emitter;
  Region region;
  Block &block;
  AffineExpr p, i;
  SmallVector<Value> operands;
  SmallVector<Attribute> accesses;
};

/// Returns a constant i32.
inline Value createI32(ImplicitLocOpBuilder &b, int32_t value) {
  return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
}

/// Multiplies a row, or one number, by a number.
inline Value scaleRow(ImplicitLocOpBuilder &b, Value row, Value by) {
  auto type = dyn_cast<RankedTensorType>(row.getType());
  return arith::MulFOp::create(b, row, type ? Value(tensor::SplatOp::create(b, type, by)) : by);
}

/// Returns `row` if `condition` is true, else zeros.
inline Value selectRow(ImplicitLocOpBuilder &b, Value condition, Value row) {
  Value zeros = arith::ConstantOp::create(b, b.getZeroAttr(row.getType()));
  return arith::SelectOp::create(b, condition, row, zeros);
}

/// Returns true if a segment's last bit is set: `last` is one of `positions`.
inline Value isClosedSegment(ImplicitLocOpBuilder &b, Value last, int64_t positions) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, last,
                               createI32(b, static_cast<int32_t>(positions)));
}

/// Returns one over the number of a segment's rows.
inline Value computeShare(ImplicitLocOpBuilder &b, Value first, Value last) {
  Value rows = arith::SubIOp::create(b, last, first);
  Value one = arith::ConstantOp::create(b, b.getF32FloatAttr(1));
  return arith::DivFOp::create(b, one, arith::SIToFPOp::create(b, b.getF32Type(), rows));
}

/// Returns the number of positions of counts at full length; an end with that value does not exist.
inline int64_t countPositions(Value counts, DispatchEmitter &emitter) {
  return getPositions(emitter.getScope(), cast<SequenceType>(counts.getType()));
}

} // namespace sluice::lowering
