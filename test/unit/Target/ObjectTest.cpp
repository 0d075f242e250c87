// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Kernels on the way to objects and shared objects: fused operations, reductions,
// and errors.
#include "Elementwise.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Target/CPU/Object/Link.h"
#include "sluice/Target/CPU/Object/Object.h"
#include "sluice/Target/CPU/Object/SharedBodies.h"
#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstdlib>
#include <dlfcn.h>

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

TEST(Object, FusesMultiplyAddOnlyWhereTheKernelAllows) {
  std::vector<float> x(count, 1.0f + 0x1p-12f);
  for (const cpu::Target *target : targets()) {
    for (bool fused : {false, true}) {
      Emit emit = [=](ImplicitLocOpBuilder &b, Value v) { return emitPolynomial(b, v, fused); };
      LoadedKernel kernel(text, *target, elementwise(emit));
      EXPECT_EQ(kernel.run({.operands = {x}})[0], std::vector<float>(count, fused ? 0x1p-24f : 0));
    }
  }
}

/// A pairwise sum: ((x0 + x4) + (x2 + x6)) + ((x1 + x5) + (x3 + x7)) for eight lanes.
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

TEST(Object, RejectsLibraryCalls) {
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

/// A kernel that adds `summand` to column `column` of its rows.
struct AddToColumn {
  int64_t rows, columns;
  const char *summand;
  int64_t column;

  std::string print(StringRef name) const {
    return llvm::formatv(R"(
func.func @{0}(%arena: memref<1152921504606846976xi8>, %arguments: memref<1152921504606846976xi64>,
               %item: i64, %scratch: memref<1152921504606846976xi8>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = arith.constant {1} : index
  %column = arith.constant {4} : index
  %summand = arith.constant {3} : f32
  %x = memref.view %arena[%c0][] : memref<1152921504606846976xi8> to memref<{1}x{2}xf32>
  scf.for %row = %c0 to %rows step %c1 {{
    %before = memref.load %x[%row, %column] : memref<{1}x{2}xf32>
    %after = arith.addf %before, %summand : f32
    memref.store %after, %x[%row, %column] : memref<{1}x{2}xf32>
  }
  return
})",
                         name, rows, columns, summand, column);
  }

  std::vector<float> expected() const {
    std::vector<float> x(24);
    for (int64_t row = 0; row < rows; ++row) {
      x[row * columns + column] = std::stof(summand);
    }
    return x;
  }
};

TEST(SharedBodies, KernelsDifferOnlyInRowsAndIndices) {
  const AddToColumn kernels[] = {{3, 4, "1.0", 2}, {6, 4, "1.0", 1}, {3, 5, "1.0", 2},
                                 {3, 4, "2.0", 2}, {3, 4, "1.0", 2}, {1, 5, "1.0", 2}};
  std::string text;
  for (auto [i, kernel] : llvm::enumerate(kernels)) {
    text += kernel.print("kernel" + std::to_string(i));
  }
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, func::FuncDialect, memref::MemRefDialect, scf::SCFDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  auto module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);

  std::vector<std::string> objects;
  cpu::ObjectRequest request{*module, &cpu::Target::avx2()};
  KernelCache cache;
  ASSERT_TRUE(succeeded(cpu::lowerToObjects(request, objects, cache)));
  ASSERT_EQ(objects.size(), 3u);
  void *library = loadObjects(objects);
  ASSERT_TRUE(library);
  for (auto [i, kernel] : llvm::enumerate(kernels)) {
    auto run = reinterpret_cast<void (*)(float *, const int64_t *, int64_t, uint8_t *)>(
        dlsym(library, ("kernel" + std::to_string(i)).c_str()));
    ASSERT_TRUE(run);
    std::vector<float> x(24);
    run(x.data(), nullptr, 0, nullptr);
    EXPECT_EQ(x, kernel.expected()) << "kernel " << i;
  }
  EXPECT_EQ(dlsym(library, "kernel0_body"), nullptr) << "bodies are no symbols of an artifact";
  dlclose(library);

  // 0, 1 and 4 share a body, and 2 with 5: other columns are other strides, 3 adds another number.
  EXPECT_EQ(cpu::shareBodies(*module), 3);
  std::vector<std::string> callees;
  module->walk([&](func::CallOp call) { callees.push_back(call.getCallee().str()); });
  EXPECT_EQ(callees, std::vector<std::string>({"kernel0_body", "kernel0_body", "kernel2_body",
                                               "kernel0_body", "kernel2_body"}));
  EXPECT_TRUE(succeeded(verify(*module)));
}

TEST(Link, ReportsMissingParts) {
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
