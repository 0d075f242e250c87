// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "HashedSlots.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace sluice;
using namespace sluice::hashed;

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

Value hashed::computeBucket(SlotPass &pass, Value buckets, int64_t hash) {
  int64_t width = cast<RankedTensorType>(buckets.getType()).getDimSize(0);
  ImplicitLocOpBuilder &b = pass.b;
  Value isOwn =
      pass.is(arith::CmpIPredicate::eq, pass.columns(width), pass.row(pass.whole(hash), width));
  Value own = arith::SelectOp::create(b, isOwn, buckets, pass.row(pass.real(0), width));
  return pass.most(own);
}

/// Returns for each row its bucket counted from 1 (0 means no row), the start of its bucket's
/// region, and its own place in the region.
SmallVector<Value> HashedSlots::findPlaces(int64_t hash) {
  SlotPass pass(emitter);
  ImplicitLocOpBuilder &b = pass.b;
  Value number = computeBucket(pass, pass.own(emitter.get(labels), hashes), hash);
  // Converts the bucket to an integer: the maximum integer that is not greater.
  Value column = pass.columns(buckets);
  Value real = arith::SIToFPOp::create(b, RankedTensorType::get({buckets}, b.getF32Type()), column);
  Value isUpTo =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OLE, real, pass.row(number, buckets));
  Value bucket =
      pass.most(arith::SelectOp::create(b, isUpTo, column, pass.row(pass.whole(0), buckets)));
  Value label = arith::AddIOp::create(b, bucket, pass.whole(1));
  Value begin = arith::MulIOp::create(b, bucket, pass.whole(region));
  Value place = arith::AddIOp::create(b, begin, pass.position());
  Type numbers = type(rows, 0, i32());
  return pass.finish({label, begin, place}, {numbers, numbers, numbers}, ofRows());
}

/// Sets bits over the concatenated regions of all buckets: a region has a bit for each row of its
/// bucket and, after the rows, bits that pad the bucket's last block.
Value HashedSlots::setBits(Value labels) {
  auto factor = ofRows().getFactor();
  SlotPass members(emitter);
  auto isKind = [&](SlotPass &pass, int64_t each) -> Value {
    Value label = pass.load(labels, {.at = pass.p % each, .factor = factor});
    Value bucket = arith::DivSIOp::create(pass.b, pass.position(), pass.whole(each));
    Value own = arith::AddIOp::create(pass.b, bucket, pass.whole(1));
    return pass.is(arith::CmpIPredicate::eq, label, own);
  };
  auto bit = [](SlotPass &pass, Value isSet) -> Value {
    return arith::SelectOp::create(pass.b, isSet, pass.real(1), pass.real(0));
  };
  Value ofRows =
      members.finish({bit(members, isKind(members, rows))}, {type(buckets * rows, 0, f32())},
                     emitter.wholeDomain(batch, buckets * rows))[0];
  SlotPass sums(emitter);
  Value sum = sums.load(ofRows, {.kind = AccessKind::Range, .at = (sums.p + sums.i) * rows});
  Value counts =
      sums.finish({sum}, {type(buckets, 0, f32())}, emitter.wholeDomain(batch, buckets))[0];
  SlotPass all(emitter);
  ImplicitLocOpBuilder &b = all.b;
  Value isMember = isKind(all, region);
  Value count = all.load(counts, {.at = all.p.floorDiv(region)});
  Value place = arith::RemSIOp::create(b, all.position(), all.whole(region));
  Value blocks = math::FloorOp::create(
      b, arith::MulFOp::create(
             b, arith::AddFOp::create(b, count, all.real(static_cast<double>(aligned - 1))),
             all.real(1 / static_cast<double>(aligned))));
  Value end = arith::AddFOp::create(
      b,
      arith::SubFOp::create(
          b, arith::MulFOp::create(b, blocks, all.real(static_cast<double>(aligned))), count),
      all.real(static_cast<double>(rows)));
  Value isBehind = all.is(arith::CmpIPredicate::sge, place, all.whole(rows));
  Value isBefore = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT,
                                         arith::SIToFPOp::create(b, b.getF32Type(), place), end);
  Value fills = arith::AndIOp::create(b, isBehind, isBefore);
  return all.finish({bit(all, arith::OrIOp::create(b, isMember, fills))},
                    {type(buckets * region, 0, f32())},
                    emitter.wholeDomain(batch, buckets * region))[0];
}

/// Bit m becomes slot m: a scan returns the position of each bit, and the number of bits up to a
/// position.
Slots HashedSlots::order(ArrayRef<Value> found) {
  Value bits = setBits(found[0]);
  auto scan = dispatch::SegmentScanOp::create(
      emitter.b, type(buckets * region, 0, i32()), type(slots, 0, i32()), type(2, 0, i32()), bits,
      emitter.wholeDomain(batch, buckets * region), StringAttr(), StringAttr());
  Slots made;
  SlotPass of(emitter);
  Value place = of.own(scan.getEnds());
  Value row = arith::RemSIOp::create(of.b, place, of.whole(region));
  Value isThere = of.is(arith::CmpIPredicate::slt, place, of.whole(buckets * region));
  Value within = arith::MinSIOp::create(of.b, row, of.whole(rows));
  made.rowOf = of.finish({arith::SelectOp::create(of.b, isThere, within, of.whole(rows))},
                         {type(slots, 0, i32())}, ofSlots())[0];
  SlotPass at(emitter);
  Value begin = at.own(found[1]), own = at.own(found[2]);
  Value before = at.gather(scan.getCounts(), begin, 0, /*offset=*/-1);
  Value slot = arith::SubIOp::create(at.b, at.gather(scan.getCounts(), own), at.whole(1));
  Type numbers = type(rows, 0, i32());
  SmallVector<Value> results =
      at.finish({slot, arith::SubIOp::create(at.b, slot, before)}, {numbers, numbers}, ofRows());
  made.slotOf = results[0];
  made.rankOf = results[1];
  return made;
}

void HashedSlots::find() {
  for (int64_t hash = 0; hash < hashes; ++hash) {
    of.push_back(order(findPlaces(hash)));
  }
}

Value HashedSlots::toSlots(Value tensor, int64_t hash, int64_t width) {
  SlotPass pass(emitter);
  Value row = pass.gather(tensor, pass.own(of[hash].rowOf), width);
  Type element = cast<RankedTensorType>(tensor.getType()).getElementType();
  return pass.finish({row}, {type(slots, width, element)}, ofSlots())[0];
}

//===----------------------------------------------------------------------===//
// Attention of slots
//===----------------------------------------------------------------------===//

/// A row has the part Own unless it is the first of its chunk, and Before unless it is in the first
/// chunk.
Value HashedSlots::has(SlotPass &pass, HashPart part, Value rank) const {
  Value rows = pass.whole(chunk);
  Value counted = part == Own ? Value(arith::RemSIOp::create(pass.b, rank, rows)) : rank;
  return pass.is(arith::CmpIPredicate::sge, counted, pass.whole(part == Own ? 1 : chunk));
}

/// Slots of a chunk are a block. Own: slots before the row's slot. Before: the slots of the
/// previous block.
IntegerSet HashedSlots::buildMask(HashPart part) const {
  MLIRContext *context = emitter.b.getContext();
  AffineExpr p = getAffineDimExpr(0, context), q = getAffineDimExpr(1, context);
  AffineExpr begin = p.floorDiv(chunk) * chunk;
  AffineExpr first = part == Own ? begin : begin - chunk, last = part == Own ? p : begin;
  return IntegerSet::get(2, 1, {last - 1 - q, q - first}, {false, false});
}

void hashed::fillScore(Region &score, int64_t size, ImplicitLocOpBuilder &like, bool derivative) {
  ImplicitLocOpBuilder b(like.getLoc(), like.getContext());
  Block *block = b.createBlock(&score);
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  SmallVector<Type> types{f32, i32, i32, i32};
  if (derivative) {
    types.push_back(f32);
  }
  block->addArguments(types, SmallVector<Location>(types.size(), b.getLoc()));
  Value scale = arith::ConstantOp::create(
      b, b.getF32FloatAttr(static_cast<float>(1 / std::sqrt(static_cast<double>(size)))));
  Value scaled = arith::MulFOp::create(b, block->getArgument(derivative ? 4 : 0), scale);
  dispatch::YieldOp::create(b, ValueRange{scaled});
}
