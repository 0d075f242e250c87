// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arrivals at a counter in global memory.
#include "Arrival.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace sluice;
using namespace sluice::cuda;

// One thread counts for its block: what the others wrote, the barrier puts before its fence, and
// what they read after, the second barrier puts behind it. The order is in fences because the NVPTX
// backend leaves it out of atomicrmw. `uinc_wrap` gives the count and makes it zero at its end.
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
