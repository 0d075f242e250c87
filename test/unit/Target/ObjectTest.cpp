// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// What becomes of kernels on the way to objects and shared objects: fused operations, reductions,
// and errors.
#include "Elementwise.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Diagnostics.h"
#include "sluice/Target/CPU/Link.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstdlib>

using namespace mlir;
using namespace sluice;
using namespace sluice::test;

namespace {

/// (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24 exactly, and 0 when the product is rounded to f32 first.
Value emitPolynomial(ImplicitLocOpBuilder &b, Value x, bool fused) {
  TypedAttr splat = DenseElementsAttr::get(cast<ShapedType>(x.getType()), -(1.0f + 0x1p-11f));
  Value z = arith::ConstantOp::create(b, splat);
  if (fused) {
    return vector::FMAOp::create(b, x, x, z);
  }
  Value product = arith::MulFOp::create(b, x, x);
  return arith::AddFOp::create(b, product, z);
}

TEST(Object, MultipliesAndAddsAreFusedOnlyWhereTheKernelSaysSo) {
  std::vector<float> x(count, 1.0f + 0x1p-12f);
  for (const cpu::Target *target : targets()) {
    for (bool fused : {false, true}) {
      Emit emit = [=](ImplicitLocOpBuilder &b, Value v) { return emitPolynomial(b, v, fused); };
      LoadedKernel kernel(text, *target, elementwise(emit));
      EXPECT_EQ(kernel.run({.operands = {x}})[0], std::vector<float>(count, fused ? 0x1p-24f : 0));
    }
  }
}

/// A sum by halves: ((x0 + x4) + (x2 + x6)) + ((x1 + x5) + (x3 + x7)) for eight lanes.
float sumByHalves(std::vector<float> x) {
  for (size_t half = x.size() / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) {
      x[i] += x[i + half];
    }
  }
  return x[0];
}

TEST(Object, ReductionsAreTreesOfHalves) {
  std::vector<float> x(count);
  for (int64_t i = 0; i < count; ++i) {
    x[i] = std::sin(float(i)) * std::pow(10.0f, float(i % 7));
  }
  Emit emit = [](ImplicitLocOpBuilder &b, Value v) -> Value {
    Value sum = vector::ReductionOp::create(b, vector::CombiningKind::ADD, v);
    return vector::BroadcastOp::create(b, v.getType(), sum);
  };
  for (const cpu::Target *target : targets()) {
    LoadedKernel kernel(text, *target, elementwise(emit));
    std::vector<float> y = kernel.run({.operands = {x}})[0];
    for (int64_t i = 0; i < count; i += target->lanes) {
      ASSERT_EQ(y[i], sumByHalves({x.begin() + i, x.begin() + i + target->lanes}));
    }
  }
}

TEST(Object, CallsOfLibrariesAreErrors) {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  OpBuilder builder(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  ImplicitLocOpBuilder b(builder.getUnknownLoc(), &context);
  b.setInsertionPointToEnd(module->getBody());
  Type f64 = b.getF64Type();
  auto function = func::FuncOp::create(b, "kernel", b.getFunctionType({f64}, {f64}));
  b.setInsertionPointToStart(function.addEntryBlock());
  Value y = math::TanhOp::create(b, function.getArgument(0));
  func::ReturnOp::create(b, y);
  std::string message, object = "before";
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message += diagnostic.str();
    return success();
  });
  EXPECT_TRUE(failed(cpu::lowerToObject(*module, cpu::Target::avx2(), object)));
  EXPECT_NE(message.find("expected kernels that call no library, found a call of 'tanh'"),
            std::string::npos)
      << message;
  EXPECT_EQ(object, "before");
}

/// Objects of 6 functions of some 1,000 multiplications each, lowered for both targets.
static std::vector<std::string> lowerSeveral(MLIRContext::Threading threading, KernelCache &cache) {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, func::FuncDialect>();
  MLIRContext context(registry, threading);
  context.loadAllAvailableDialects();
  OpBuilder builder(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  ImplicitLocOpBuilder b(builder.getUnknownLoc(), &context);
  Type type = b.getF32Type();
  for (int64_t i = 0; i < 6; ++i) {
    b.setInsertionPointToEnd(module->getBody());
    auto function = func::FuncOp::create(b, "kernel" + std::to_string(i),
                                         b.getFunctionType({type, type}, {type}));
    b.setInsertionPointToStart(function.addEntryBlock());
    Value y = function.getArgument(0);
    for (int64_t step = 0; step < 1000 + i; ++step) {
      y = arith::MulFOp::create(b, y, function.getArgument(1));
    }
    func::ReturnOp::create(b, y);
  }
  std::vector<std::string> objects;
  cpu::ObjectRequest requests[] = {{*module, &cpu::Target::avx2()},
                                   {*module, &cpu::Target::avx512()}};
  EXPECT_TRUE(succeeded(cpu::lowerToObjects(requests, objects, cache)));
  return objects;
}

TEST(Object, ThreadsDoNotChangeTheBytes) {
  KernelCache none;
  std::vector<std::string> alone = lowerSeveral(MLIRContext::Threading::DISABLED, none);
  EXPECT_EQ(alone.size(), 12u);
  EXPECT_EQ(alone, lowerSeveral(MLIRContext::Threading::ENABLED, none));
  for (int i = 0; i < 6; ++i) {
    std::string name = "kernel" + std::to_string(i);
    EXPECT_EQ(llvm::count_if(alone, [&](StringRef bytes) { return bytes.contains(name); }), 2);
  }
}

TEST(Link, SaysWhatIsMissing) {
  std::string path = getenv("PATH");
  setenv("PATH", "/nonexistent", 1);
  std::string message = llvm::toString(cpu::linkSharedObject({}).takeError());
  setenv("PATH", path.c_str(), 1);
  EXPECT_NE(message.find("expected the linker ld.lld"), std::string::npos) << message;
}

TEST(Link, PassesOnTheLinkersMessage) {
  std::string message = llvm::toString(cpu::linkSharedObject({"not an object"}).takeError());
  EXPECT_NE(message.find("failed"), std::string::npos) << message;
  EXPECT_NE(message.find("unknown directive: not"), std::string::npos) << message;
}

} // namespace
