// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Errors are never lost: an unknown number may be any number, and is marked as unknown.
#include "../../../lib/Oracle/Number.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Oracle/Oracle.h"
#include "gtest/gtest.h"

using namespace sluice;
using namespace sluice::oracle;

TEST(Number, UnboundedErrorsPropagate) {
  Number unknown{1, INFINITY};
  for (Number made : {multiply({0, 0}, unknown), multiply({2, 0}, unknown), add(unknown, {1, 0}),
                      divide({1, 0}, unknown), monotone(unknown, std::exp)}) {
    EXPECT_TRUE(made.error == 0 || std::isinf(made.error)) << made.error;
  }
  EXPECT_EQ(multiply({0, 0}, unknown).error, 0); // nothing times anything
  EXPECT_TRUE(std::isinf(multiply({2, 0}, unknown).error));
  EXPECT_TRUE(std::isinf(monotone({1, NAN}, std::exp).error));
  ProductSum sum;
  sum.add(unknown);
  sum.add({3, 0}, {0, INFINITY});
  EXPECT_TRUE(std::isinf(sum.total().error));
}

/// Sums over rows whose parts are not numbers, or cancel.
TEST(Columns, PartsMustMatchTheirTerms) {
  mlir::MLIRContext context;
  context
      .loadDialect<dispatch::DispatchDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect>();
  const char *text = R"(
#own = #dispatch.access<row>
#sums = #dispatch.access<columns>
func.func @f(%x: tensor<1x2x1xf32>) {
  %y = dispatch.rows %x attributes {domain = #dispatch.domain<batch = 1, positions = 2, factor = 0>, accesses = [#own], result_accesses = [#sums]} {
  ^bb0(%row: tensor<1xf32>):
    dispatch.yield %row : tensor<1xf32>
  } : (tensor<1x2x1xf32>) -> tensor<3x1xf32>
  return
})";
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  mlir::Operation *op = nullptr;
  module->walk([&](dispatch::RowsOp rows) { op = rows; });
  std::vector<float> x(size_t(2 * dispatch::paddedWidth(1)), NAN);
  x[0] = 1;
  x[size_t(dispatch::paddedWidth(1))] = 2;
  auto passes = [&](std::vector<float> parts) {
    auto judged = judge(op, {{x.data()}, {parts.data()}, 2, 1});
    return mlir::succeeded(judged) && judged->passed();
  };
  EXPECT_TRUE(passes({1, 2, 0}));
  EXPECT_TRUE(passes({0, 3, 0}));
  EXPECT_FALSE(passes({1, 2, 1}));
  EXPECT_FALSE(passes({NAN, NAN, NAN}));
  EXPECT_FALSE(passes({3, NAN, 0}));
  EXPECT_FALSE(passes({-INFINITY, INFINITY, 3}));
  EXPECT_FALSE(passes({3 + 1e30f, -1e30f, 0}));
}
