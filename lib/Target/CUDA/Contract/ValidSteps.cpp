// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The list of steps with valid rows, as first rows (i32) in shared memory.
#include "ValidSteps.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

static constexpr int64_t mostBytes = 16 << 10;

int64_t ValidSteps::mostSteps(dispatch::DomainAttr domain, int64_t size, int64_t parts) {
  int64_t all = domain.getBatch() * llvm::divideCeil(domain.getPositions(), size);
  return llvm::divideCeil(all, parts);
}

bool ValidSteps::apply(dispatch::DomainAttr domain, int64_t size, int64_t parts) {
  return domain.getAxis() && domain.getFactor() > 0 &&
         4 * (domain.getBatch() + mostSteps(domain, size, parts)) <= mostBytes;
}

ValidSteps::ValidSteps(Frame &frame, TensorCore &core, dispatch::DomainAttr domain, int64_t size,
                       int64_t parts, int64_t firstByte)
    : frame(frame), core(core), e(frame.e), domain(domain), size(size), parts(parts),
      share(mostSteps(domain, size, parts)), countsByte(firstByte),
      stepsByte(firstByte + 4 * domain.getBatch()) {}

Value ValidSteps::load(Value number, int64_t first) {
  return core.load(e.b.getI32Type(), core.shared(e.mul(number, 4), first), 4);
}

void ValidSteps::store(Value value, Value number, int64_t first) {
  core.store(value, core.shared(e.mul(number, 4), first), 4);
}

Value ValidSteps::countSteps(Value sequence) {
  Value rows = frame.validLength(domain.getFactor(), domain.getPositions(), sequence);
  Value steps = arith::CeilDivUIOp::create(e.b, rows, e.index(size));
  return e.toInteger(e.select(e.less(sequence, frame.rows), steps, e.index(0)));
}

Value ValidSteps::firstRow(Value number) {
  return arith::IndexCastOp::create(e.b, e.b.getIndexType(), load(number, stepsByte));
}

Value ValidSteps::list(Value part) {
  Value thread = e.add(e.mul(frame.warp, threadsPerWarp), frame.lane);
  Value sequences = e.index(domain.getBatch());
  e.loop(thread, sequences, frame.threads,
         [&](Value sequence) { store(countSteps(sequence), sequence, countsByte); });
  core.barrier();
  auto count = [&](Value sequence) -> Value {
    return arith::IndexCastOp::create(e.b, e.b.getIndexType(), load(sequence, countsByte));
  };
  Value all = e.loop(e.index(0), sequences, 1, {e.index(0)}, [&](Value sequence, ValueRange sum) {
    return Values{e.add(sum[0], count(sequence))};
  })[0];
  auto bound = [&](Value number) -> Value {
    return arith::DivUIOp::create(e.b, arith::MulIOp::create(e.b, all, number), e.index(parts));
  };
  Value first = bound(part), end = bound(e.add(part, 1));
  e.loop(e.index(0), sequences, 1, {e.index(0)}, [&](Value sequence, ValueRange before) {
    Value steps = count(sequence), row = e.mul(sequence, domain.getPositions());
    Value from = e.max(e.sub(first, before[0]), e.index(0));
    Value to = e.min(e.sub(end, before[0]), steps);
    e.loop(e.add(from, thread), to, frame.threads, [&](Value step) {
      Value place = e.sub(e.add(before[0], step), first);
      store(e.toInteger(e.add(row, e.mul(step, size))), place, stepsByte);
    });
    return Values{e.add(before[0], steps)};
  });
  core.barrier();
  return e.sub(end, first);
}
