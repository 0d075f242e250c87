// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Block sizes, and the requirements of the generators.
#include "Attention.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;
using namespace sluice::cpu::attention;

template <typename Op> AttentionShape attention::makeShape(Op op, const Target &target) {
  AttentionShape s{};
  static_cast<AttentionSizes &>(s) = attentionSizes(op);
  s.elementBytes = cast<RankedTensorType>(op.getQuery().getType()).getElementTypeBitWidth() / 8;
  // 64 queries by 64 keys: scores, values and accumulators of a block (16 KiB each at D = 64) stay
  // near L1. A causal diagonal wastes half a block per row of blocks: 6% at N = 1024, but 25% at N
  // = 256, where smaller blocks save more than their overhead. A window has two
  // edges; with few keys between them, 32 by 16 is the fastest of 16 to 64 by 16 to 64. Rows of an
  // axis with counts of its own are mostly fewer than its capacity, and end inside a block.
  double readKeys = countPairs(s.queries, s.keys, op.getMask()) / double(s.queries);
  bool isNarrow = readKeys < 128 && readKeys < 0.375 * double(s.keys);
  bool isShort = std::max(s.queries, s.keys) <= 256 || op.getDomain().getAxis();
  int64_t block = isNarrow || isShort ? 32 : 64;
  s.queryVectors =
      std::min<int64_t>(block / target.lanes, llvm::divideCeil(s.queries, target.lanes));
  s.keyBlock = std::min<int64_t>(isNarrow ? 16 : block, (s.keys + 3) / 4 * 4);
  s.pairs = target.bf16Dots && s.elementBytes == 2 && s.head % 2 == 0;
  s.tiles = s.pairs && target.tiles;
  if (s.tiles) { // sums over queries and over keys have whole tiles
    s.queryVectors += s.queryVectors % 2;
    s.keyBlock = llvm::alignTo(s.keyBlock, tileDepth);
  }
  s.queryBlock = s.queryVectors * target.lanes;
  s.headVectors = llvm::divideCeil(s.head, target.lanes);
  s.headWidth = s.headVectors * target.lanes;
  s.pairColumns = llvm::divideCeil(s.head / 2, target.lanes) * target.lanes;
  s.queryBlocks = llvm::divideCeil(s.queries, s.queryBlock);
  s.keyBlocks = llvm::divideCeil(s.keys, s.keyBlock);
  return s;
}

template AttentionShape attention::makeShape(dispatch::AttentionOp op, const Target &target);
template AttentionShape attention::makeShape(dispatch::AttentionBackwardOp op,
                                             const Target &target);

template <typename Op>
std::pair<Value, Value> attention::validLengths(Op op, Frame &frame, Value batchRow) {
  auto computeLength = [&](dispatch::DomainAttr domain) {
    return frame.lengths(domain.getFactor(), domain.getPositions()).of(batchRow);
  };
  Value queries = computeLength(op.getDomain());
  if (Value counts = op.getKeyCounts()) {
    ImplicitLocOpBuilder &b = frame.builder();
    unsigned operand = static_cast<unsigned>(llvm::find(op->getOperands(), counts).getIndex());
    Value count = memref::LoadOp::create(b, frame.buffer(operand), batchRow);
    return {queries, arith::IndexCastOp::create(b, b.getIndexType(), count)};
  }
  return {queries, op.getKeys() == op.getDomain() ? queries : computeLength(op.getKeys())};
}

template std::pair<Value, Value> attention::validLengths(dispatch::AttentionOp op, Frame &frame,
                                                         Value batchRow);
template std::pair<Value, Value> attention::validLengths(dispatch::AttentionBackwardOp op,
                                                         Frame &frame, Value batchRow);

Value attention::emitMask(Emitter &e, IntegerSet mask, Value p, Value q, Value length) {
  return e.broadcast(emitRelation(e, mask, p, q, length));
}

KeyRanges::KeyRanges(OperandRange range, Frame &frame, Emitter &e, const AttentionShape &shape)
    : e(e), shape(shape) {
  for (size_t i = 0; i < range.size(); ++i) {
    operands.push_back(frame.buffer(range.getBeginOperandIndex() + unsigned(i)));
    ends.push_back(
        frame.scratch(MemRefType::get({shape.queryBlocks * shape.queryBlock}, e.b.getI32Type())));
  }
}

void KeyRanges::pack(Value batchRow, Value queryLength) {
  Value last = e.add(queryLength, -1);
  for (auto [operand, end] : llvm::zip_equal(operands, ends)) {
    e.loop(e.index(0), e.roundUp(queryLength, shape.queryBlock), 1,
           [&, operand = operand, end = end](Value p) {
             Value number =
                 memref::LoadOp::create(e.b, operand, ValueRange{batchRow, e.min(p, last)});
             memref::StoreOp::create(e.b, number, end, ValueRange{p});
           });
  }
}

/// Both ends rise with the query.
void KeyRanges::restrict(BlockClass &block, Value p0, Value q0) {
  if (!exist()) {
    return;
  }
  auto load = [&](unsigned end, Value p) -> Value {
    Value number = memref::LoadOp::create(e.b, ends[end], ValueRange{p});
    return arith::IndexCastOp::create(e.b, e.b.getIndexType(), number);
  };
  block.some = e.both(block.some, e.less(load(0, p0), e.add(q0, shape.keyBlock)));
  block.some = e.both(block.some, e.less(q0, load(1, e.add(p0, shape.queryBlock - 1))));
  block.full = arith::ConstantOp::create(e.b, e.b.getBoolAttr(false));
}

Value KeyRanges::restrict(Value mask, Value p, Value q) {
  Value key = exist() ? e.broadcast(q) : Value();
  for (auto [i, end] : llvm::enumerate(ends)) {
    Value bound = vector::LoadOp::create(e.b, e.integers, end, ValueRange{p});
    auto predicate = i == 0 ? arith::CmpIPredicate::sge : arith::CmpIPredicate::slt;
    mask = e.both(mask, arith::CmpIOp::create(e.b, predicate, key, bound));
  }
  return mask;
}

Value attention::emitQueries(Emitter &e, Value p0, Value column) {
  SmallVector<int32_t> offsets;
  for (int64_t i = 0; i < e.lanes; ++i) {
    offsets.push_back(static_cast<int32_t>(i));
  }
  Value lanesOf = arith::ConstantOp::create(
      e.b, DenseElementsAttr::get(e.integers, ArrayRef<int32_t>(offsets)));
  return e.add(e.broadcast(e.toInteger(e.add(p0, column))), lanesOf);
}

void attention::countWork(const AttentionShape &shape, IntegerSet mask, int64_t matmuls,
                          int64_t tensors, Kernel &kernel) {
  double pairs =
      static_cast<double>(shape.batch * shape.heads) * countPairs(shape.queries, shape.keys, mask);
  kernel.flops = 2.0 * static_cast<double>(matmuls * shape.head) * pairs;
  // Half of the tensors have rows of queries, the other half rows of keys.
  int64_t rows = shape.batch * (shape.queries + shape.keys) * (tensors / 2);
  kernel.bytes = static_cast<double>(shape.elementBytes * rows * (shape.head * shape.heads));
}
