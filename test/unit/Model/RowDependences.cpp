// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "RowDependences.h"
#include "sluice/Analysis/ReadGraph.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

std::vector<std::vector<bool>> sluice::testing::computeRowDependences(const std::string &text,
                                                                      int64_t length) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<SluiceDialect, dispatch::DispatchDialect, func::FuncDialect,
                      arith::ArithDialect, math::MathDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
  ReadGraph graph(module->lookupSymbol<func::FuncOp>("evaluate"));
  RowColumns columns(graph, length);
  RowSets sets = computeClosure(graph, length, columns);
  size_t losses = *graph.find("output 0");
  std::vector<std::vector<bool>> seen;
  for (int64_t row = 0; row < length; ++row) {
    std::vector<bool> &tokens = seen.emplace_back();
    for (int64_t token = 0; token < length; ++token) {
      auto column = static_cast<unsigned>(*columns.find("tokens", token));
      tokens.push_back(sets[losses][static_cast<size_t>(row)].test(column));
    }
  }
  return seen;
}
