// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Segment scan: an item processes one row of the batch, in order.
#include "../../Common/Storage.h"
#include "Rows.h"
#include "sluice/Target/Common/Emitter.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cpu;

namespace {

class ScanEmitter {
public:
  ScanEmitter(Frame &frame, dispatch::SegmentScanOp op)
      : frame(frame), op(op), b(frame.builder()), e(b, frame.target().lanes),
        positions(op.getDomain().getPositions()),
        most(cast<RankedTensorType>(op.getEnds().getType()).getDimSize(1)), bits(frame.buffer(0)),
        counts(frame.buffer(1)), ends(frame.buffer(2)), totals(frame.buffer(3)) {}

  void emit() {
    Value batch = frame.item(), valid = validPositions();
    Value total = e.loop(e.index(0), e.index(positions), 1, ValueRange{e.index(0)},
                         [&](Value position, ValueRange so) -> Values {
                           return {emitPosition(batch, position, valid, so.front())};
                         })
                      .front();
    e.loop(e.min(total, e.index(most)), e.index(most), 1,
           [&](Value m) { e.store(e.integer(positions), ends, {batch, m}); });
    e.store(e.toInteger(total), totals, {batch, e.index(0)});
    e.store(e.integer(most), totals, {batch, e.index(1)});
  }

private:
  /// Returns the number of valid positions of the item's row; zero for an invalid row.
  Value validPositions() {
    int64_t factor = op.getDomain().getFactor();
    Value valid = frame.lengths(factor, positions).of(frame.item());
    return factor == 0 ? valid
                       : e.select(e.less(frame.item(), frame.rows()),
                                  e.min(valid, e.index(positions)), e.index(0));
  }

  /// Returns the number of set bits so far.
  Value emitPosition(Value batch, Value position, Value valid, Value total) {
    bool isDense = cast<RankedTensorType>(op.getBits().getType()).getRank() == 2;
    Value row = e.add(e.mul(batch, positions), position);
    Value bit =
        isDense ? e.loadScalar(bits, {batch, position}) : e.loadScalar(bits, {row, e.index(0)});
    Value half = arith::ConstantOp::create(b, b.getF32FloatAttr(0.5F));
    Value isSet = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, bit, half);
    isSet = e.both(isSet, e.less(position, valid));
    e.when(e.both(isSet, e.less(total, e.index(most))),
           [&] { e.store(e.toInteger(position), ends, {batch, total}); });
    Value next = e.add(total, e.select(isSet, e.index(1), e.index(0)));
    e.store(e.toInteger(next), counts, {batch, position});
    return next;
  }

  Frame &frame;
  dispatch::SegmentScanOp op;
  ImplicitLocOpBuilder &b;
  Emitter e;
  const int64_t positions, most;
  Value bits, counts, ends, totals;
};

} // namespace

FailureOr<Kernel> cpu::generateSegmentScan(dispatch::SegmentScanOp op, ModuleOp module,
                                           StringRef name, const Target &target) {
  Frame frame(op, module, name, target);
  ScanEmitter(frame, op).emit();
  frame.finish();
  auto bits = cast<RankedTensorType>(op.getBits().getType());
  auto ends = cast<RankedTensorType>(op.getEnds().getType());
  Kernel kernel;
  kernel.function = frame.function();
  kernel.items = op.getDomain().getBatch();
  kernel.kind = "stream";
  kernel.flops = double(bits.getNumElements());
  kernel.bytes = double(bits.getNumElements()) * (bits.getElementTypeBitWidth() / 8 + 4) +
                 4.0 * double(ends.getNumElements());
  return kernel;
}
