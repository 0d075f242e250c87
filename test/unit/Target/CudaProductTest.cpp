// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contractions that are exactly a matrix product.
#include "RowsText.h"
#include "sluice/Target/CUDA/Product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"

using mlir::DialectRegistry;
using mlir::MLIRContext;
using mlir::ModuleOp;
using mlir::OwningOpRef;
using namespace sluice;
using namespace sluice::test;

namespace {

/// Three sequences of 22 tokens, at a scale of 4: 18 rows of 40 times 40 x 24.
struct ProductCase {
  int64_t batch = 3, positions = 6, factor = 4;
  bool byInput = false, bias = false;
  std::string type = "bf16", result = "bf16", results = "";
  std::string body = "dispatch.yield %acc : f32";

  std::string text() const {
    std::string x = test::tensor({batch, positions, 40}, type),
                w = byInput ? test::tensor({40, 24}, type) : test::tensor({24, 40}, type),
                b = test::tensor({24}), y = test::tensor({batch, positions, 24}, result);
    std::string row = test::TextAccess{.factor = factor},
                vector = test::TextAccess{.kind = "vector", .factor = 0};
    return "func.func @f(%x: " + x + ", %w: " + w + ", %b: " + b + ") {\n  %y" +
           (results.empty() ? "" : ":2") + " = dispatch.contract %x, %w" + (bias ? ", %b" : "") +
           " attributes {domain = #dispatch.domain<batch = " + std::to_string(batch) +
           ", positions = " + std::to_string(positions) + ", factor = " + std::to_string(factor) +
           ">" + (byInput ? ", by_input" : "") + ", accesses = [" + (bias ? vector : "") +
           "], result_accesses = [" + row + (results.empty() ? "" : ", " + row) +
           "]} {\n^bb0(%acc: f32" + (bias ? ", %bias: f32" : "") + "):\n" + body + "\n} : (" + x +
           ", " + w + (bias ? ", " + b : "") + ") -> (" + y + (results.empty() ? "" : ", " + y) +
           ")\n  return\n}\n";
  }

  std::optional<cuda::Product> find(int64_t length = 22, int64_t sequences = 3) const {
    DialectRegistry registry;
    registry
        .insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, dispatch::DispatchDialect>();
    MLIRContext context(registry, MLIRContext::Threading::DISABLED);
    OwningOpRef<ModuleOp> module = mlir::parseSourceString<ModuleOp>(text(), &context);
    EXPECT_TRUE(module) << text();
    std::optional<cuda::Product> product;
    if (module) {
      module->walk(
          [&](dispatch::ContractOp op) { product = cuda::findProduct(op, length, sequences); });
    }
    return product;
  }
};

TEST(CudaProduct, RequiresSumStoredUnchanged) {
  for (bool byInput : {false, true}) {
    for (const char *result : {"bf16", "f32"}) {
      ProductCase c;
      c.byInput = byInput;
      c.result = result;
      std::optional<cuda::Product> product = c.find();
      ASSERT_TRUE(product);
      EXPECT_EQ(product->rows, 18);
      EXPECT_EQ(product->columns, 24);
      EXPECT_EQ(product->depth, 40);
      EXPECT_EQ(product->byInput, byInput);
      EXPECT_EQ(product->isF32, std::string(result) == "f32");
      EXPECT_EQ(product->inputStride, 48); // rows start at multiples of 16 elements
      EXPECT_EQ(product->weightStride, byInput ? 24 : 40);
      EXPECT_EQ(product->resultStride, 32);
    }
  }
}

TEST(CudaProduct, RejectsEpilogue) {
  EXPECT_FALSE(
      (ProductCase{.body = "%y = arith.addf %acc, %acc : f32\ndispatch.yield %y : f32"}.find()));
  EXPECT_FALSE(
      (ProductCase{.body = "%y = arith.constant 1.0 : f32\ndispatch.yield %y : f32"}.find()));
  EXPECT_FALSE((ProductCase{.bias = true}.find())); // though not read
  EXPECT_FALSE((ProductCase{.bias = true,
                            .body = "%y = arith.addf %acc, %bias : f32\ndispatch.yield %y : f32"}
                    .find()));
  EXPECT_FALSE(
      (ProductCase{.results = "two", .body = "dispatch.yield %acc, %acc : f32, f32"}.find()));
}

TEST(CudaProduct, RequiresBf16) { EXPECT_FALSE((ProductCase{.type = "f32"}.find())); }

// If some rows are invalid at full length and batch, a product would write too many.
TEST(CudaProduct, RequiresValidRows) {
  EXPECT_TRUE(ProductCase{}.find(24)); // all six groups of four
  EXPECT_FALSE(ProductCase{}.find(20));
  EXPECT_FALSE(ProductCase{}.find(22, 2));
  EXPECT_TRUE((ProductCase{.factor = 0}.find(1, 1)));
}

} // namespace
