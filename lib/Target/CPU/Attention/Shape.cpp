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
  s.queryBlock = s.queryVectors * target.lanes;
  s.keyBlock = std::min<int64_t>(isNarrow ? 16 : block, (s.keys + 3) / 4 * 4);
  s.headVectors = llvm::divideCeil(s.head, target.lanes);
  s.headWidth = s.headVectors * target.lanes;
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
