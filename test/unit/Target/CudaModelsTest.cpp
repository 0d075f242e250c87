// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every rows and scatter_rows dispatch of shipped specs, in all entries (evaluation, training,
// update, initialization, prediction), as PTX and, where ptxas is present, as cubins.
#include "CudaRowsHarness.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Driver/Driver.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <iostream>

using namespace sluice;
using namespace sluice::test;

namespace {

std::vector<std::string> specsIn(const std::string &folder) {
  std::vector<std::string> paths;
  std::error_code code;
  std::string root = std::string(SLUICE_SOURCE_DIR) + "/models/" + folder;
  for (llvm::sys::fs::directory_iterator at(root, code), end; at != end && !code;
       at.increment(code)) {
    if (llvm::sys::path::extension(at->path()) == ".json") {
      paths.push_back(at->path());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// The dispatch alone in a function, as text: what differs in names and labels alone is the same.
std::string alone(mlir::Operation *op) {
  mlir::OpBuilder builder(op->getContext());
  auto module = mlir::OwningOpRef<mlir::ModuleOp>(mlir::ModuleOp::create(builder.getUnknownLoc()));
  builder.setInsertionPointToEnd(module->getBody());
  auto type = builder.getFunctionType(op->getOperandTypes(), {});
  auto function = mlir::func::FuncOp::create(builder, builder.getUnknownLoc(), "f", type);
  builder.setInsertionPointToStart(function.addEntryBlock());
  mlir::Operation *copy = builder.clone(*op);
  copy->setOperands(function.getArguments());
  for (const char *name : {"label", "plan.phase", "plan.guard"}) {
    copy->removeAttr(name);
  }
  mlir::func::ReturnOp::create(builder, builder.getUnknownLoc());
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}

std::unique_ptr<mlir::MLIRContext> makeModelContext() {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  registry.insert<SluiceDialect, dispatch::DispatchDialect, plan::PlanDialect>();
  auto context =
      std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

/// Assembles what `seen` does not hold yet.
void assembleDispatchesOf(const std::string &spec, llvm::StringSet<> &seen) {
  driver::CompileRequest request;
  request.spec = spec;
  request.targets = {"cpu"};
  request.emit = "dispatches";
  driver::Outcome outcome = driver::compile(request);
  ASSERT_EQ(outcome.status, 0) << spec << ": " << outcome.message;
  auto context = makeModelContext();
  auto source = mlir::parseSourceString<mlir::ModuleOp>(outcome.output, context.get());
  ASSERT_TRUE(source) << spec;
  int64_t made = 0, registers = 0;
  source->walk([&](mlir::Operation *op) {
    if (!llvm::isa<dispatch::RowsOp, dispatch::ScatterRowsOp>(op)) {
      return;
    }
    std::string text = alone(op);
    if (!seen.insert(text).second) {
      return;
    }
    auto module = mlir::OwningOpRef<mlir::ModuleOp>(mlir::ModuleOp::create(op->getLoc()));
    auto kernel = generateRowsOrScatter(op, *module);
    ASSERT_TRUE(mlir::succeeded(kernel)) << text;
    registers = std::max(registers, checkAssembly(*module, text));
    ++made;
  });
  std::cout << spec << ": " << made << " more kernels, at most " << registers << " registers\n";
}

TEST(CudaModels, RowsAndScatterOfShippedSpecsAssemble) {
  llvm::StringSet<> seen;
  for (const char *folder : {"tiny", "small"}) {
    for (const std::string &spec : specsIn(folder)) {
      assembleDispatchesOf(spec, seen);
    }
  }
  EXPECT_GT(seen.size(), 50u);
}

} // namespace
