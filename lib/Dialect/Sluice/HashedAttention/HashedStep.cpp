// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buckets of rows, and the decode step of LSH attention. A step has one row. A scan lists the rows
// of its bucket, in order, from the stored buckets. The rows that it attends to, at most two chunks
// per hash, are gathered into one tensor, and attention is over all of them.
#include "HashedStep.h"
#include "HashedSlots.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/MaskBounds.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::hashed;

/// Marks a dispatch of the step that runs regardless of due rows.
static void markWhole(DispatchEmitter &emitter, Operation *dispatch) {
  emitter.setExtent(dispatch, StepValues::DispatchExtent::Whole);
}

//===----------------------------------------------------------------------===//
// Buckets
//===----------------------------------------------------------------------===//

/// Returns the rotations in the type of the rows, which represents their numbers exactly.
static Value getRotationTable(HashedBucketsOp op, DispatchEmitter &emitter) {
  Value table = emitter.get(op.getRotations());
  auto type = cast<RankedTensorType>(table.getType());
  Type element = op.getInput().getType().getElement();
  if (type.getElementType() == element) {
    return table;
  }
  SlotPass pass(emitter);
  Value row =
      pass.load(table, {.kind = AccessKind::Flat, .at = pass.p, .width = type.getDimSize(1)});
  auto each = dispatch::DomainAttr::get(pass.b.getContext(), 1, type.getDimSize(0), 0);
  Value made = pass.finish({row}, {type.clone(element)}, each, AccessKind::Flat)[0];
  if (emitter.isStep(op)) {
    markWhole(emitter, made.getDefiningOp());
  }
  return made;
}

/// Multiplies rows by all rotations.
static Value project(HashedBucketsOp op, DispatchEmitter &emitter, int64_t positions) {
  Value table = getRotationTable(op, emitter);
  ImplicitLocOpBuilder &b = emitter.b;
  auto type = RankedTensorType::get({getBatch(emitter.getScope()), positions,
                                     cast<RankedTensorType>(table.getType()).getDimSize(0)},
                                    b.getF32Type());
  auto result = b.getArrayAttr({AccessAttr::get(b.getContext(), AccessKind::Row)});
  auto contract = dispatch::ContractOp::create(
      b, TypeRange(type), emitter.get(op.getInput()), table, ValueRange(),
      emitter.getRowDomain(op.getInput()), UnitAttr(), b.getArrayAttr({}), result, IntegerAttr(),
      UnitAttr(), StringAttr(), StringAttr(), UnitAttr());
  OpBuilder::InsertionGuard guard(b);
  Block *block = b.createBlock(&contract.getEpilogue());
  dispatch::YieldOp::create(b, ValueRange{block->addArgument(b.getF32Type(), b.getLoc())});
  return contract.getResult(0);
}

/// Returns the bucket of one hash: the first of the largest products.
static Value findBucket(SlotPass &pass, Value y, int64_t half) {
  ImplicitLocOpBuilder &b = pass.b;
  Value size = math::AbsFOp::create(b, y);
  Value isGreatest =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, size, pass.row(pass.most(size), half));
  Value isBelow =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, y, pass.row(pass.real(0), half));
  Value column = pass.columns(half);
  Value falling = arith::SubIOp::create(b, pass.row(pass.whole(2 * half), half), column);
  Value fallen = arith::SubIOp::create(b, pass.row(pass.whole(half), half), column);
  Value own = arith::SelectOp::create(b, isBelow, fallen, falling);
  Value found =
      pass.most(arith::SelectOp::create(b, isGreatest, own, pass.row(pass.whole(1), half)));
  return arith::SubIOp::create(b, pass.whole(2 * half), found);
}

LogicalResult HashedBucketsOp::emitDispatches(DispatchEmitter &emitter) {
  bool isStep = emitter.isStep(*this);
  int64_t positions = isStep ? 1 : emitter.getTensorType(getInput()).getDimSize(1);
  Value projected = project(*this, emitter, positions);
  SlotPass pass(emitter);
  int64_t half = getBuckets() / 2, hashes = getHashes();
  ImplicitLocOpBuilder &b = pass.b;
  Value buckets = pass.row(pass.real(0), hashes), number = pass.columns(hashes);
  for (int64_t hash = 0; hash < hashes; ++hash) {
    Value y = pass.load(projected, {.at = pass.p, .width = half, .column = hash * half});
    Value found = arith::SIToFPOp::create(b, b.getF32Type(), findBucket(pass, y, half));
    Value isOwn = pass.is(arith::CmpIPredicate::eq, number, pass.row(pass.whole(hash), hashes));
    buckets = arith::SelectOp::create(b, isOwn, pass.row(found, hashes), buckets);
  }
  emitter.set(getResult(), pass.finish({buckets}, {emitter.getTensorType(getResult())},
                                       emitter.getRowDomain(getInput()))[0]);
  return success();
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

namespace {
/// Finds the keys of the due row of each batch row.
class HashedStep {
public:
  HashedStep(HashedAttentionOp op, DispatchEmitter &emitter)
      : op(op), emitter(emitter), batch(getBatch(emitter.getScope())),
        capacity(getPositions(op, op.getQuery().getType())),
        width(op.getQuery().getType().getWidth()), hashes(op.getHashes()),
        chunk(static_cast<int64_t>(op.getChunk())), slots(2 * chunk * hashes) {}

  void emit();

private:
  RankedTensorType type(int64_t positions, Type element) const {
    return RankedTensorType::get({batch, positions}, element);
  }
  Type i32() const { return emitter.b.getI32Type(); }
  /// Finishes rows that exist at every step, regardless of due rows.
  SmallVector<Value> finish(SlotPass &pass, ArrayRef<Value> yielded, ArrayRef<Type> types,
                            int64_t positions) const {
    SmallVector<Value> made = pass.finish(yielded, types, emitter.wholeDomain(batch, positions));
    markWhole(emitter, made.front().getDefiningOp());
    return made;
  }
  /// Returns the single number of a batch row.
  Value only(SlotPass &pass, Value tensor, int64_t at = 0) const {
    return pass.load(tensor, {.at = getAffineConstantExpr(at, pass.b.getContext())});
  }

  void findRow();
  void listMembers();
  struct Keys {
    Value first, count; ///< range of the bucket's members
  };
  Keys loadKeys(SlotPass &pass, int64_t hash) const;
  void findKeys();
  void countKeys();
  void attend();

  HashedAttentionOp op;
  DispatchEmitter &emitter;
  const int64_t batch, capacity, width, hashes, chunk;
  const int64_t slots;                ///< upper bound of the keys of a row
  Value position;                     ///< of the row, i32 [B, 1]
  Value own;                          ///< its buckets, [B, 1, hashes]
  SmallVector<Value> members, totals; ///< per hash: earlier rows of the bucket, and their number
  Value counts;                       ///< of keys, i64 [B]
  Value keys, values;                 ///< [B, slots, width]
};
} // namespace

void HashedStep::findRow() {
  SlotPass pass(emitter);
  Value buckets = pass.own(emitter.get(op.getBuckets()), hashes);
  SmallVector<Value> made = pass.finish(
      {pass.position(), buckets},
      {type(1, i32()), RankedTensorType::get({batch, 1, hashes}, emitter.b.getF32Type())},
      emitter.getRowDomain(op.getQuery()));
  position = made[0];
  own = made[1];
}

/// Sets a bit for each earlier row of the row's bucket; a scan lists these members.
void HashedStep::listMembers() {
  SlotPass pass(emitter);
  ImplicitLocOpBuilder &b = pass.b;
  Value each = pass.own(emitter.get(op.getBuckets()), hashes);
  Value its = pass.load(own, {.at = getAffineConstantExpr(0, b.getContext()), .width = hashes});
  Value isBefore = pass.is(arith::CmpIPredicate::slt, pass.position(), only(pass, position));
  SmallVector<Value> bits;
  for (int64_t hash = 0; hash < hashes; ++hash) {
    Value isOf =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, computeBucket(pass, each, hash),
                              computeBucket(pass, its, hash));
    bits.push_back(arith::SelectOp::create(b, arith::AndIOp::create(b, isOf, isBefore),
                                           pass.real(1), pass.real(0)));
  }
  SmallVector<Type> types(hashes, type(capacity, b.getF32Type()));
  for (Value bit : finish(pass, bits, types, capacity)) {
    auto scan = dispatch::SegmentScanOp::create(
        emitter.b, type(capacity, i32()), type(capacity, i32()), type(2, i32()), bit,
        emitter.wholeDomain(batch, capacity), StringAttr(), StringAttr());
    markWhole(emitter, scan);
    members.push_back(scan.getEnds());
    totals.push_back(scan.getTotals());
  }
}

/// The row's rank is the number of members: it attends to members of its own chunk and of the
/// previous chunk.
HashedStep::Keys HashedStep::loadKeys(SlotPass &pass, int64_t hash) const {
  ImplicitLocOpBuilder &b = pass.b;
  Value rank = only(pass, totals[hash]);
  Value own = arith::DivSIOp::create(b, rank, pass.whole(chunk));
  Value before = arith::SubIOp::create(b, own, pass.whole(1));
  Value first =
      arith::MulIOp::create(b, arith::MaxSIOp::create(b, before, pass.whole(0)), pass.whole(chunk));
  return {first, arith::SubIOp::create(b, rank, first)};
}

/// Counts keys; a row without others attends to itself.
void HashedStep::countKeys() {
  SlotPass pass(emitter);
  ImplicitLocOpBuilder &b = pass.b;
  Value count = pass.whole(0);
  for (int64_t hash = 0; hash < hashes; ++hash) {
    count = arith::AddIOp::create(b, count, loadKeys(pass, hash).count);
  }
  Value some = arith::MaxSIOp::create(b, count, pass.whole(1));
  Type i64 = b.getI64Type();
  Value made = finish(pass, {arith::ExtSIOp::create(b, i64, some)}, {type(1, i64)}, 1)[0];
  counts = plan::ViewOp::create(emitter.b, RankedTensorType::get({batch}, i64), made);
}

/// Slots contain the rows of the first hash, then the rows of the second one.
void HashedStep::findKeys() {
  SlotPass places(emitter);
  ImplicitLocOpBuilder &b = places.b;
  Value begin = places.whole(0);
  SmallVector<Value> indices;
  for (int64_t hash = 0; hash < hashes; ++hash) {
    auto [first, count] = loadKeys(places, hash);
    Value at = arith::SubIOp::create(b, places.position(), begin);
    Value isIts =
        arith::AndIOp::create(b, places.is(arith::CmpIPredicate::sge, at, places.whole(0)),
                              places.is(arith::CmpIPredicate::slt, at, count));
    indices.push_back(
        arith::SelectOp::create(b, isIts, arith::AddIOp::create(b, at, first), places.whole(-1)));
    begin = arith::AddIOp::create(b, begin, count);
  }
  SmallVector<Value> found =
      finish(places, indices, SmallVector<Type>(hashes, type(slots, i32())), slots);

  SlotPass rows(emitter);
  Value row = only(rows, position);
  for (int64_t hash = 0; hash < hashes; ++hash) {
    Value index = rows.own(found[hash]);
    Value member = rows.gather(members[hash], index);
    Value isIts = rows.is(arith::CmpIPredicate::sge, index, rows.whole(0));
    row = arith::SelectOp::create(rows.b, isIts, member, row);
  }
  Value rowOf = finish(rows, {row}, {type(slots, i32())}, slots)[0];

  SlotPass copies(emitter);
  Value index = copies.own(rowOf);
  Value key = copies.gather(emitter.get(op.getKey()), index, width);
  Value value = copies.gather(emitter.get(op.getValue()), index, width);
  auto copied = RankedTensorType::get({batch, slots, width}, op.getKey().getType().getElement());
  SmallVector<Value> made = finish(copies, {key, value}, {copied, copied}, slots);
  keys = made[0];
  values = made[1];
}

void HashedStep::attend() {
  ImplicitLocOpBuilder &b = emitter.b;
  auto mixed = dispatch::AttentionOp::create(
      b, emitter.getTensorType(op.getOutput()), emitter.getTensorType(op.getLse()),
      emitter.get(op.getQuery()), keys, values, ValueRange{counts},
      emitter.getRowDomain(op.getQuery()), emitter.wholeDomain(batch, slots), op.getHeads(),
      op.getHeads(), op.getHeadSize(), 0, 0, 0, everyKey(b.getContext()), llvm::APFloat(0.0F), 0,
      StringAttr(), StringAttr(), false, AffineMapAttr(), false);
  fillScore(mixed.getScore(), static_cast<int64_t>(op.getHeadSize()), b);
  emitter.set(op.getOutput(), mixed.getOutput());
  emitter.set(op.getLse(), mixed.getLse());
}

void HashedStep::emit() {
  findRow();
  listMembers();
  countKeys();
  findKeys();
  attend();
}

LogicalResult hashed::emitHashedStep(HashedAttentionOp op, DispatchEmitter &emitter) {
  HashedStep(op, emitter).emit();
  return success();
}
