// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Segment scan: a warp processes one row of the batch, 32 bits per ballot and several ballots per
// iteration, whose loads overlap.
#include "Rows.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

namespace {

constexpr int64_t votesPerTurn = 8;

class ScanKernel {
public:
  ScanKernel(Frame &frame, dispatch::SegmentScanOp op)
      : frame(frame), op(op), b(frame.b), e(frame.e), positions(op.getDomain().getPositions()),
        most(cast<RankedTensorType>(op.getEnds().getType()).getDimSize(1)), bits(frame.buffer(0)),
        counts(frame.buffer(1)), ends(frame.buffer(2)), totals(frame.buffer(3)) {}

  void emit() {
    lane = e.toInteger(frame.lane);
    // Mask of this lane and the lanes before it: 2^(lane + 1) - 1, where 2^32 is 0.
    Value next = arith::ShLIOp::create(b, e.integer(2), lane);
    upTo = e.sub(next, e.integer(1));
    int64_t perTurn = votesPerTurn * threadsPerWarp;
    Value total =
        e.loop(e.index(0), e.index(positions), perTurn, e.integer(0),
               [&](Value base, ValueRange so) -> Values { return {emitTurn(base, so.front())}; })
            .front();
    Value closed = arith::IndexCastOp::create(b, b.getIndexType(), e.min(total, e.integer(most)));
    e.loop(closed, e.index(most), threadsPerWarp, [&](Value base) {
      Value m = e.add(base, frame.lane);
      e.when(e.less(m, e.index(most)),
             [&] { e.store(e.integer(positions), ends, {frame.block, m}); });
    });
    e.when(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, frame.lane, e.index(0)), [&] {
      e.store(total, totals, {frame.block, e.index(0)});
      e.store(e.integer(most), totals, {frame.block, e.index(1)});
    });
  }

private:
  /// Returns true if the bit at a position is set and valid; false for positions past the last.
  Value isSet(Value position) {
    Value exists = e.less(position, e.index(positions));
    Value within = e.min(position, e.index(positions - 1));
    Row row = frame.row(e.add(e.mul(frame.block, positions), within));
    Value line = row.row;
    if (op.getDomain().getAxis()) { // an invalid row may have no memory for its bits
      line = e.select(row.valid, line, e.mul(frame.block, positions));
    }
    bool isDense = cast<RankedTensorType>(op.getBits().getType()).getRank() == 2;
    Value bit = isDense ? e.loadScalar(bits, {frame.block, within})
                        : e.loadScalar(bits, {line, e.index(0)});
    if (!bit.getType().isF32()) {
      bit = arith::ExtFOp::create(b, b.getF32Type(), bit);
    }
    Value half = arith::ConstantOp::create(b, b.getF32FloatAttr(0.5F));
    Value above = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, bit, half);
    return e.both(above, e.both(exists, row.valid));
  }

  /// Returns the number of set bits so far (i32).
  Value emitTurn(Value base, Value total) {
    SmallVector<std::pair<Value, Value>> turn;
    for (int64_t vote = 0; vote < votesPerTurn; ++vote) {
      Value position = e.add(e.add(base, vote * threadsPerWarp), frame.lane);
      turn.push_back({position, isSet(position)});
    }
    for (auto [position, set] : turn) {
      Value votes = NVVM::VoteSyncOp::create(b, b.getI32Type(), e.integer(-1), set,
                                             NVVM::VoteSyncKind::ballot);
      Value before = arith::AndIOp::create(b, votes, upTo);
      Value count = e.add(total, math::CtPopOp::create(b, before));
      emitBit(position, set, count);
      total = e.add(total, math::CtPopOp::create(b, votes));
    }
    return total;
  }

  void emitBit(Value position, Value set, Value count) {
    e.when(e.less(position, e.index(positions)),
           [&] { e.store(count, counts, {frame.block, position}); });
    Value m = e.sub(count, e.integer(1));
    e.when(e.both(set, e.less(m, e.integer(most))), [&] {
      Value place = arith::IndexCastOp::create(b, b.getIndexType(), m);
      e.store(e.toInteger(position), ends, {frame.block, place});
    });
  }

  Frame &frame;
  dispatch::SegmentScanOp op;
  ImplicitLocOpBuilder &b;
  Emitter &e;
  const int64_t positions, most;
  Value bits, counts, ends, totals;
  Value lane, upTo; ///< i32
};

} // namespace

FailureOr<Kernel> cuda::generateSegmentScan(dispatch::SegmentScanOp op, ModuleOp module,
                                            StringRef name) {
  Frame frame(op, op.getDomain(), module, name, threadsPerWarp);
  ScanKernel(frame, op).emit();
  func::ReturnOp::create(frame.b);
  auto bits = cast<RankedTensorType>(op.getBits().getType());
  return frame.kernel(op.getDomain().getBatch(), "stream", double(bits.getNumElements()));
}
