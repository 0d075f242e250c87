// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arrival counters in global memory.
#include "Arrival.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

// One thread counts for its block. The first barrier orders the writes of the other threads before
// its fence, the second one orders their later reads after it. Fences are explicit because the
// NVPTX backend drops the ordering of atomicrmw. `uinc_wrap` counts, and resets the counter to zero
// at the last arrival.
Value cuda::isLastToArrive(Frame &frame, Value number, int64_t blocks, Value slot) {
  constexpr unsigned alignment = Kernel::counterBytes;
  ImplicitLocOpBuilder &b = frame.b;
  Emitter &e = frame.e;
  StringRef scope = "device";
  Value last = e.integer(blocks - 1);
  auto isZero = [&](Value index) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, index, e.index(0));
  };
  NVVM::Barrier0Op::create(b);
  e.when(e.both(isZero(frame.warp), isZero(frame.lane)), [&] {
    Value counter = frame.counter(number);
    LLVM::FenceOp::create(b, LLVM::AtomicOrdering::release, scope);
    Value before = LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::uinc_wrap, counter, last,
                                             LLVM::AtomicOrdering::monotonic, scope, alignment);
    LLVM::FenceOp::create(b, LLVM::AtomicOrdering::acquire, scope);
    LLVM::StoreOp::create(b, before, slot, alignment);
  });
  NVVM::Barrier0Op::create(b);
  Value arrived = LLVM::LoadOp::create(b, b.getI32Type(), slot, alignment);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, arrived, last);
}
