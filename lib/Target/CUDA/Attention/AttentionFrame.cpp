// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Frame of an attention kernel: its block, and the rows of its queries and keys.
#include "AttentionFrame.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;
using namespace sluice::cuda::attention;

AttentionFrame::AttentionFrame(Operation *op, dispatch::DomainAttr domain,
                               const AttentionShape &shape, ModuleOp module, StringRef name)
    : frame(op, domain, module, name), e(frame.e), b(frame.b), core(frame), shape(shape),
      isPartial(domain.getAxis()) {
  thread = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
  std::tie(group, quad) = split(frame.lane, 4);
}

std::pair<Value, Value> AttentionFrame::split(Value number, int64_t divisor) {
  Value by = e.index(divisor);
  return {b.createOrFold<arith::DivUIOp>(number, by), b.createOrFold<arith::RemUIOp>(number, by)};
}

// Blocks that run at the same time share the rows of a head in cache.
std::pair<Value, Value> AttentionFrame::place(int64_t heads, int64_t tiles) {
  auto [rest, partNumber] = split(frame.block, shape.parts);
  auto [headOfRow, tile] = split(rest, tiles);
  auto [row, head] = split(headOfRow, heads);
  part = e.mul(partNumber, shape.partWidth);
  enterRow(row);
  return {head, tile};
}

AttentionSide AttentionFrame::buildSide(int64_t positions, int64_t factor) {
  AttentionSide side{positions, e.mul(batchRow, positions), e.index(positions)};
  if (factor > 0) {
    Value inside = e.min(frame.validLength(factor, positions, batchRow), side.length);
    side.length = e.select(e.less(batchRow, frame.rows), inside, e.index(0));
  }
  return side;
}

void AttentionFrame::enterRow(Value row) {
  batchRow = row;
  queries = buildSide(shape.queries, shape.queryFactor);
  keys = shape.isOneDomain() ? queries : buildSide(shape.keys, shape.keyFactor);
  queries.step = shape.distance.key;
  keys.step = shape.distance.query;
  queries.isPartial = isPartial;
  keys.isPartial = isPartial && shape.keyFactor != 0;
  if (shape.hasRows) {
    distances = buildSide(shape.distances, shape.distanceFactor);
    distances.step = shape.stride();
  }
  if (shape.keyCounts) {
    Value count = e.loadScalar(frame.buffer(*shape.keyCounts), {batchRow});
    keys.length = arith::IndexCastOp::create(b, b.getIndexType(), count);
    keys.isShort = true;
  }
  validKeys = e.toInteger(keys.length);
}

Value AttentionFrame::scaled(Value line, int64_t step) {
  return step == 1 ? line : e.mul(line, step);
}

Value AttentionFrame::getFirstRow(Value tile, int64_t rows, int64_t step) {
  if (step == 1) {
    return e.mul(tile, rows);
  }
  auto [number, ofClass] = split(tile, step);
  return e.add(e.mul(number, rows * step), ofClass);
}

/// Returns the last row (the last valid one for a domain with an axis and for given keys), or the
/// first if there is none.
Value AttentionFrame::existingRow(const AttentionSide &rows, Value position) {
  Value last = e.index(rows.positions - 1);
  bool endsEarly = isPartial || rows.isShort;
  return e.min(position, endsEarly ? e.max(e.add(rows.length, -1), e.index(0)) : last);
}

Value AttentionFrame::f32(float value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(value));
}
