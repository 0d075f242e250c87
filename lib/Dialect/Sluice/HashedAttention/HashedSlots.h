// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Slots of LSH attention: rows sorted by bucket and position, in which a chunk is a block of rows.
//
// The first slot of a bucket depends on all rows, because slots of earlier buckets precede it. It
// is a multiple of the kernels' block size, so that no result depends on it. The accesses of a row
// depend on its bucket and rank, and so only on rows up to it.
#pragma once

#include "sluice/Dialect/Sluice/Fusion.h"
#include "sluice/Dialect/Sluice/Hashed.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace sluice::hashed {

using namespace mlir;
using dispatch::AccessAttr;
using dispatch::AccessKind;

/// A body's access to a tensor: at `at`, an expression of p and i, relative to the index if there
/// is one.
struct SlotAccess {
  AccessKind kind = AccessKind::Row;
  AffineExpr at;
  int64_t width = 0; ///< columns; 0: one number
  int64_t column = 0, factor = 0;
  Value index = {};
};

/// A row pass under construction.
class SlotPass {
public:
  explicit SlotPass(DispatchEmitter &emitter)
      : b(emitter.b.getLoc(), emitter.b.getContext()), p(getAffineDimExpr(0, b.getContext())),
        i(getAffineDimExpr(1, b.getContext())), emitter(emitter), block(region.emplaceBlock()) {
    b.setInsertionPointToEnd(&block);
  }

  Value load(Value tensor, const SlotAccess &access) {
    MLIRContext *context = b.getContext();
    int64_t index =
        access.index ? int64_t(cast<BlockArgument>(access.index).getArgNumber()) : int64_t(-1);
    operands.push_back(tensor);
    accesses.push_back(AccessAttr::get(
        context, access.kind, AffineMapAttr::get(AffineMap::get(2, 1, access.at)), 1, access.factor,
        AffineMapAttr::get(AffineMap::get(1, 0, getAffineConstantExpr(access.column, context))),
        index, /*outside=*/FloatAttr(), /*last=*/-1, /*extended=*/false));
    Type type = dispatch::getBodyType(cast<RankedTensorType>(tensor.getType()).getElementType());
    return block.addArgument(access.width > 0 ? RankedTensorType::get({access.width}, type) : type,
                             b.getLoc());
  }
  /// Returns row p, or one number of it.
  Value own(Value tensor, int64_t width = 0) { return load(tensor, {.at = p, .width = width}); }
  /// Returns the row at `index`; zeros if there is none.
  Value gather(Value tensor, Value index, int64_t width = 0, int64_t offset = 0) {
    return load(tensor,
                {.kind = AccessKind::Gather, .at = p + offset, .width = width, .index = index});
  }

  Value position() { return dispatch::PositionOp::create(b, b.getI32Type()); }
  Value columns(int64_t width) {
    return dispatch::ColumnOp::create(b, RankedTensorType::get({width}, b.getI32Type()));
  }
  Value whole(int64_t number) {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(number)));
  }
  Value real(double number) {
    return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(number)));
  }
  /// Broadcasts a number to a row of `width` columns.
  Value row(Value number, int64_t width) {
    return tensor::SplatOp::create(b, RankedTensorType::get({width}, number.getType()), number);
  }
  Value is(arith::CmpIPredicate predicate, Value x, Value y) {
    return arith::CmpIOp::create(b, predicate, x, y);
  }
  Value most(Value row) {
    return dispatch::ReduceOp::create(b, cast<RankedTensorType>(row.getType()).getElementType(),
                                      dispatch::ReduceKind::Max, row);
  }

  /// Finishes the dispatch: stores each value as a row of `domain`, in its type.
  SmallVector<Value> finish(ArrayRef<Value> yielded, ArrayRef<Type> types,
                            dispatch::DomainAttr domain, AccessKind kind = AccessKind::Row) {
    dispatch::YieldOp::create(b, yielded);
    SmallVector<Attribute> results(types.size(), AccessAttr::get(b.getContext(), kind));
    auto op = dispatch::RowsOp::create(emitter.b, types, operands, domain, b.getArrayAttr(accesses),
                                       b.getArrayAttr(results), UnitAttr(), DenseI64ArrayAttr(),
                                       StringAttr(), StringAttr(), UnitAttr());
    op.getBody().takeBody(region);
    return op.getResults();
  }

  ImplicitLocOpBuilder b;
  const AffineExpr p, i;

private:
  DispatchEmitter &emitter;
  Region region;
  Block &block;
  SmallVector<Value> operands;
  SmallVector<Attribute> accesses;
};

/// Fills the score region of LSH attention: score / sqrt(size); with `derivative`, the region of
/// the gradient.
void fillScore(Region &score, int64_t size, ImplicitLocOpBuilder &like, bool derivative = false);

/// Returns a row's bucket for one hash, an integer as f32.
Value computeBucket(SlotPass &pass, Value buckets, int64_t hash);

/// The slots of one hash, i32. A row without a slot has an unused one.
struct Slots {
  Value slotOf; ///< [B, T]: slot per row
  Value rankOf; ///< [B, T]: rank of a row in its bucket
  Value rowOf;  ///< [B, S]: row of a slot; T if the slot is empty
};

/// The two parts of a hash's attention: keys of a row's own chunk, and of the previous chunk.
enum HashPart { Own, Before };
constexpr std::array<HashPart, 2> bothParts = {Own, Before};

/// Magnitude of a score or log-sum-exp for which a row's weights are zero.
constexpr double nothing = 1e30;

/// State for lowering both ops: the slots of each hash, and the computations over them.
class HashedSlots {
public:
  template <typename Op>
  HashedSlots(Op op, DispatchEmitter &emitter)
      : HashedSlots(emitter, op.getQuery(), op.getBuckets()) {
    heads = static_cast<int64_t>(op.getHeads());
    size = static_cast<int64_t>(op.getHeadSize());
    hashes = op.getHashes();
    buckets = static_cast<int64_t>(op.getBucketCount());
    chunk = static_cast<int64_t>(op.getChunk());
    aligned = std::max<int64_t>(chunk, blockOfKernels);
    region = rows + aligned;
    slots = static_cast<int64_t>(llvm::alignTo(rows + buckets * (aligned - 1), aligned));
    find();
  }

  /// Returns rows of `width` columns in the slots of a hash.
  Value toSlots(Value tensor, int64_t hash, int64_t width);
  /// Returns the parts that some row has: in chunks of one row, no row has an earlier row in its
  /// own chunk.
  ArrayRef<HashPart> parts() const {
    return ArrayRef<HashPart>(bothParts).drop_front(chunk == 1 ? 1 : 0);
  }
  /// Returns the condition, in a body, that a row of this rank has the part.
  Value has(SlotPass &pass, HashPart part, Value rank) const;
  IntegerSet buildMask(HashPart part) const;
  RankedTensorType type(int64_t positions, int64_t width, Type element) const {
    return width > 0 ? RankedTensorType::get({batch, positions, width}, element)
                     : RankedTensorType::get({batch, positions}, element);
  }
  dispatch::DomainAttr ofRows() const { return emitter.getRowDomain(query); }
  dispatch::DomainAttr ofSlots() const { return emitter.wholeDomain(batch, slots); }
  Type f32() const { return emitter.b.getF32Type(); }
  Type i32() const { return emitter.b.getI32Type(); }

  DispatchEmitter &emitter;
  Value query, labels; ///< labels: one bucket per hash
  int64_t batch, rows, buckets = 0, heads = 0, size = 0, hashes = 0, chunk = 0;
  int64_t aligned = 0; ///< alignment of a bucket's first slot
  int64_t region = 0;  ///< bits per bucket in the scan: all rows, then the padding of its slots
  int64_t slots = 0;
  std::vector<Slots> of; ///< by hash

private:
  HashedSlots(DispatchEmitter &emitter, Value query, Value labels)
      : emitter(emitter), query(query), labels(labels), batch(getBatch(emitter.getScope())),
        rows(emitter.getTensorType(query).getDimSize(1)) {}

  /// Number of rows and keys that attention kernels compute together.
  static constexpr int64_t blockOfKernels = 64;

  void find();
  SmallVector<Value> findPlaces(int64_t hash);
  Value setBits(Value labels);
  Slots order(ArrayRef<Value> found);
};

} // namespace sluice::hashed
