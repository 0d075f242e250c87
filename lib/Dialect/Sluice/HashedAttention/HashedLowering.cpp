// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowers LSH attention. Attention runs over slots, twice for each hash: over a row's own chunk and
// over the chunk before it. The parts are then added up at the rows.
#include "HashedSlots.h"

#include "HashedStep.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::hashed;

namespace {
/// Attention of one part of one hash, in slots.
struct PartOf {
  int64_t hash;
  HashPart part;
  Value output, lse;
};
} // namespace

static std::vector<PartOf> attend(HashedAttentionOp op, HashedSlots &all) {
  std::vector<PartOf> made;
  ImplicitLocOpBuilder &b = all.emitter.b;
  int64_t width = all.heads * all.size;
  for (int64_t hash = 0; hash < all.hashes; ++hash) {
    Value query = all.toSlots(all.emitter.get(op.getQuery()), hash, width);
    Value value = all.toSlots(all.emitter.get(op.getValue()), hash, width);
    for (HashPart part : all.parts()) {
      auto mixed = dispatch::AttentionOp::create(
          b, all.type(all.slots, width, all.f32()), all.type(all.slots, all.heads, all.f32()),
          query, query, value, ValueRange(), all.ofSlots(), dispatch::DomainAttr(), all.heads,
          all.heads, all.size, 0, 0, 0, all.buildMask(part), llvm::APFloat(0.0F), 0, StringAttr(),
          StringAttr(), false, AffineMapAttr(), false);
      fillScore(mixed.getScore(), all.size, b);
      made.push_back({hash, part, mixed.getOutput(), mixed.getLse()});
    }
  }
  return made;
}

namespace {
/// Accesses of a row pass that adds up parts: the slot of the row for each hash.
struct Places {
  Places(HashedSlots &all, SlotPass &pass) {
    for (const Slots &each : all.of) {
      slots.push_back(pass.own(each.slotOf));
      Value rank = pass.own(each.rankOf);
      for (HashPart part : bothParts) {
        has.push_back(all.has(pass, part, rank));
      }
    }
  }
  Value hasPart(int64_t hash, HashPart part) const { return has[2 * hash + part]; }
  SmallVector<Value> slots, has;
};
} // namespace

/// Returns the log-sum-exp of all parts of a row; 0 if it has none.
static Value sumLse(HashedAttentionOp op, HashedSlots &all, ArrayRef<PartOf> made) {
  SlotPass pass(all.emitter);
  ImplicitLocOpBuilder &b = pass.b;
  Places places(all, pass);
  Value least = pass.row(pass.real(-nothing), all.heads), most = least;
  SmallVector<Value> numbers;
  for (const PartOf &each : made) {
    Value lse = pass.gather(each.lse, places.slots[each.hash], all.heads);
    numbers.push_back(arith::SelectOp::create(b, places.hasPart(each.hash, each.part), lse, least));
    most = arith::MaximumFOp::create(b, most, numbers.back());
  }
  Value sum = pass.row(pass.real(0), all.heads), any = places.has.front();
  for (Value number : numbers) {
    Value share = math::ExpOp::create(b, arith::SubFOp::create(b, number, most));
    sum = arith::AddFOp::create(b, sum, share);
  }
  for (Value has : places.has) {
    any = arith::OrIOp::create(b, any, has);
  }
  Value lse = arith::AddFOp::create(b, most, math::LogOp::create(b, sum));
  Value none = pass.row(pass.real(0), all.heads);
  return pass.finish({arith::SelectOp::create(b, any, lse, none)},
                     {all.emitter.getTensorType(op.getLse())}, all.ofRows())[0];
}

/// Repeats one number per head in all columns of the head.
static Value spreadHeads(SlotPass &pass, Value numbers, int64_t heads, int64_t size) {
  ImplicitLocOpBuilder &b = pass.b;
  Value number = pass.columns(heads), zeros = pass.row(pass.real(0), heads);
  Value head = arith::DivSIOp::create(b, pass.columns(heads * size),
                                      pass.row(pass.whole(size), heads * size));
  Value spread;
  for (int64_t h = 0; h < heads; ++h) {
    Value isOwn = pass.is(arith::CmpIPredicate::eq, number, pass.row(pass.whole(h), heads));
    Value own = dispatch::ReduceOp::create(b, b.getF32Type(), dispatch::ReduceKind::Add,
                                           arith::SelectOp::create(b, isOwn, numbers, zeros));
    Value all = pass.row(own, heads * size);
    Value isOf = pass.is(arith::CmpIPredicate::eq, head, pass.row(pass.whole(h), heads * size));
    spread = spread ? Value(arith::SelectOp::create(b, isOf, all, spread)) : all;
  }
  return spread;
}

/// Returns true if a row has no part of any hash.
static Value isAlone(SlotPass &pass, const Places &places) {
  Value any = places.has.front();
  for (Value has : places.has) {
    any = arith::OrIOp::create(pass.b, any, has);
  }
  Value yes = arith::ConstantOp::create(pass.b, pass.b.getBoolAttr(true));
  return arith::XOrIOp::create(pass.b, any, yes);
}

/// Returns the sum of the parts' outputs, each weighted by its share of the row's softmax.
static Value sumOutputs(HashedAttentionOp op, HashedSlots &all, ArrayRef<PartOf> made, Value lse) {
  SlotPass pass(all.emitter);
  ImplicitLocOpBuilder &b = pass.b;
  Places places(all, pass);
  int64_t width = all.heads * all.size;
  Value total = pass.own(lse, all.heads), zeros = pass.row(pass.real(0), all.heads);
  Value sum = pass.row(pass.real(0), width);
  for (const PartOf &each : made) {
    Value slot = places.slots[each.hash];
    Value has = places.hasPart(each.hash, each.part);
    Value share = math::ExpOp::create(
        b, arith::SubFOp::create(b, pass.gather(each.lse, slot, all.heads), total));
    Value weights = arith::SelectOp::create(b, has, share, zeros);
    Value output = pass.gather(each.output, slot, width);
    Value product =
        arith::MulFOp::create(b, spreadHeads(pass, weights, all.heads, all.size), output);
    sum = arith::AddFOp::create(
        b, sum, arith::SelectOp::create(b, has, product, pass.row(pass.real(0), width)));
  }
  Value alone = pass.own(all.emitter.get(op.getValue()), width);
  return pass.finish({arith::SelectOp::create(b, isAlone(pass, places), alone, sum)},
                     {all.emitter.getTensorType(op.getOutput())}, all.ofRows())[0];
}

/// Rejects ops that cannot be lowered.
template <typename Op> static LogicalResult checkLowering(Op op) {
  if (op.getSorted()) {
    return op.emitError("S-113: attention by sorted hashes is not compiled, as which rows a row "
                        "reads depends on later ones; use the causal rule");
  }
  SequenceType type = op.getQuery().getType();
  if (type.getElement() != op.getValue().getType().getElement()) {
    return op.emitError("S-114: expected rows of one type for LSH attention, found ")
           << type << " and " << op.getValue().getType();
  }
  return success();
}

LogicalResult HashedAttentionOp::emitDispatches(DispatchEmitter &emitter) {
  if (failed(checkLowering(*this))) {
    return failure();
  }
  if (emitter.isStep(*this)) {
    return emitHashedStep(*this, emitter);
  }
  HashedSlots all(*this, emitter);
  std::vector<PartOf> made = attend(*this, all);
  Value lse = sumLse(*this, all, made);
  emitter.set(getLse(), lse);
  emitter.set(getOutput(), sumOutputs(*this, all, made, lse));
  return success();
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

/// Returns log-sum-exps in slots, for rows that have the part.
static Value getLogSum(HashedAttentionBackwardOp op, HashedSlots &all, int64_t hash,
                       HashPart part) {
  SlotPass pass(all.emitter);
  Value row = pass.own(all.of[hash].rowOf);
  Value has = all.has(pass, part, pass.gather(all.of[hash].rankOf, row));
  Value lse = pass.gather(all.emitter.get(op.getLse()), row, all.heads);
  Value none = pass.row(pass.real(nothing), all.heads);
  return pass.finish({arith::SelectOp::create(pass.b, has, lse, none)},
                     {all.type(all.slots, all.heads, all.f32())}, all.ofSlots())[0];
}

/// Returns the gradients of queries, keys and values of a part, in slots.
static SmallVector<Value> differentiate(HashedAttentionBackwardOp op, HashedSlots &all,
                                        int64_t hash) {
  int64_t width = all.heads * all.size;
  auto slots = [&](Value sequence) { return all.toSlots(all.emitter.get(sequence), hash, width); };
  Value query = slots(op.getQuery()), value = slots(op.getValue()), output = slots(op.getOutput()),
        gradient = slots(op.getGradient());
  SmallVector<Type> types(3, all.type(all.slots, width, all.f32()));
  SmallVector<Value> gradients;
  for (HashPart part : all.parts()) {
    auto made = dispatch::AttentionBackwardOp::create(
        all.emitter.b, types, query, query, value, output, getLogSum(op, all, hash, part), gradient,
        ValueRange(), all.ofSlots(), dispatch::DomainAttr(), all.heads, all.heads, all.size, 0, 0,
        0, all.buildMask(part), llvm::APFloat(0.0F), 0, StringAttr(), StringAttr(), false,
        AffineMapAttr(), false);
    fillScore(made.getScore(), all.size, all.emitter.b);
    fillScore(made.getScoreGradient(), all.size, all.emitter.b, /*derivative=*/true);
    llvm::append_range(gradients, made.getGradients());
  }
  return gradients;
}

LogicalResult HashedAttentionBackwardOp::emitDispatches(DispatchEmitter &emitter) {
  if (failed(checkLowering(*this))) {
    return failure();
  }
  HashedSlots all(*this, emitter);
  std::vector<SmallVector<Value>> gradients;
  for (int64_t hash = 0; hash < all.hashes; ++hash) {
    gradients.push_back(differentiate(*this, all, hash));
  }
  SlotPass pass(emitter);
  Places places(all, pass);
  int64_t width = all.heads * all.size;
  Value ofQuery = pass.row(pass.real(0), width);
  Value own = pass.own(emitter.get(getGradient()), width);
  Value ofValue = arith::SelectOp::create(pass.b, isAlone(pass, places), own, ofQuery);
  constexpr size_t values = 2, each = 3; // after queries and keys
  for (int64_t hash = 0; hash < all.hashes; ++hash) {
    for (auto [i, gradient] : llvm::enumerate(gradients[hash])) {
      Value row = pass.gather(gradient, places.slots[hash], width);
      Value &sum = i % each == values ? ofValue : ofQuery;
      sum = arith::AddFOp::create(pass.b, sum, row);
    }
  }
  SmallVector<Value> results = pass.finish(
      {ofQuery, ofValue},
      {emitter.getTensorType(getQueryGradient()), emitter.getTensorType(getValueGradient())},
      all.ofRows());
  emitter.set(getQueryGradient(), results[0]);
  emitter.set(getValueGradient(), results[1]);
  return success();
}
