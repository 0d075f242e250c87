// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Kernels that apply one piece of code to every element: for tests of the layers below the
// generators.
#pragma once

#include "KernelHarness.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "sluice/Target/CPU/Frame.h"

namespace sluice::test {

inline constexpr int64_t count = 4096;

inline const std::string text = R"(
#flat = #dispatch.access<flat>
func.func @f(%x: tensor<4096xf32>) -> tensor<4096xf32> {
  %y = dispatch.rows %x attributes {domain = #dispatch.domain<batch = 1, positions = 4096, factor = 0>,
     accesses = [#flat], result_accesses = [#flat]} {
  ^bb0(%a: f32):
    dispatch.yield %a : f32
  } : (tensor<4096xf32>) -> tensor<4096xf32>
  return %y : tensor<4096xf32>
})";

using Emit = std::function<mlir::Value(mlir::ImplicitLocOpBuilder &, mlir::Value)>;

/// A kernel of `count / 64` items that applies `emit` to vectors, or to numbers in f64 if
/// `isDouble`.
inline KernelGenerator elementwise(const Emit &emit, bool isDouble = false) {
  return [=](mlir::Operation *op, mlir::ModuleOp module, llvm::StringRef name,
             const cpu::Target &target) -> mlir::FailureOr<cpu::Kernel> {
    cpu::Frame frame(op, module, name, target);
    mlir::ImplicitLocOpBuilder &b = frame.builder();
    mlir::Value from = frame.buffer(0), to = frame.buffer(1);
    mlir::Value first = mlir::arith::MulIOp::create(b, frame.item(), frame.index(64));
    mlir::Value last = mlir::arith::AddIOp::create(b, first, frame.index(64));
    auto loop = mlir::scf::ForOp::create(b, first, last, frame.index(isDouble ? 1 : target.lanes));
    b.setInsertionPointToStart(loop.getBody());
    mlir::Value i = loop.getInductionVar();
    if (isDouble) {
      mlir::Value narrow = mlir::memref::LoadOp::create(b, from, i);
      mlir::Value x = mlir::arith::ExtFOp::create(b, b.getF64Type(), narrow);
      mlir::memref::StoreOp::create(b, mlir::arith::TruncFOp::create(b, b.getF32Type(), emit(b, x)),
                                    to, i);
    } else {
      auto type = mlir::VectorType::get({target.lanes}, b.getF32Type());
      mlir::Value x = mlir::vector::LoadOp::create(b, type, from, i);
      mlir::vector::StoreOp::create(b, emit(b, x), to, i);
    }
    b.setInsertionPointAfter(loop);
    frame.finish();
    return cpu::Kernel{frame.function(), count / 64, frame.scratchBytes(), "stream"};
  };
}

template <typename Op> mlir::Value emitOp(mlir::ImplicitLocOpBuilder &b, mlir::Value x) {
  return Op::create(b, x);
}

} // namespace sluice::test
