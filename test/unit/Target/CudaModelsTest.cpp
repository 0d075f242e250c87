// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every rows and scatter_rows dispatch of tiny specs, in all entries (evaluation, training, update,
// initialization, prediction, generation by steps), on the emulator.
#include "EmulatedKernel.h"
#include "RowsText.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Driver/Driver.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

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

/// The dispatch alone in a function, as text: equal up to names and labels.
std::string alone(mlir::Operation *op) {
  mlir::OpBuilder builder(op->getContext());
  auto module = mlir::OwningOpRef<mlir::ModuleOp>(mlir::ModuleOp::create(builder.getUnknownLoc()));
  builder.setInsertionPointToEnd(module->getBody());
  auto type = builder.getFunctionType(op->getOperandTypes(), {});
  auto function = mlir::func::FuncOp::create(builder, builder.getUnknownLoc(), "f", type);
  builder.setInsertionPointToStart(function.addEntryBlock());
  auto copy = mlir::cast<sluice::dispatch::KernelInterface>(builder.clone(*op));
  copy->setOperands(function.getArguments());
  copy.setLabelAttr({});
  copy.setBackward(false);
  copy.setGuardAttr({});
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

/// Calls `visit(op, text)` for each rows and scatter dispatch that is not in `seen`.
void forEachDispatch(const std::string &spec, llvm::StringSet<> &seen,
                     llvm::function_ref<void(mlir::Operation *, const std::string &)> visit) {
  driver::CompileRequest request;
  request.spec = spec;
  request.targets = {"cpu"};
  request.emit = "dispatches";
  driver::Outcome outcome = driver::compile(request);
  ASSERT_EQ(outcome.status, 0) << spec << ": " << outcome.message;
  auto context = makeModelContext();
  auto source = mlir::parseSourceString<mlir::ModuleOp>(outcome.output, context.get());
  ASSERT_TRUE(source) << spec;
  source->walk([&](mlir::Operation *op) {
    if (llvm::isa<dispatch::RowsOp, dispatch::ScatterRowsOp>(op)) {
      std::string text = alone(op);
      if (seen.insert(text).second) {
        visit(op, text);
      }
    }
  });
}

/// Operands of any type: numbers in [0.5, 1), tokens of the minimum vocabulary, small counts.
CudaRun buildLaunch(mlir::Operation *op, int64_t shortened) {
  auto rows = llvm::dyn_cast<dispatch::RowsOp>(op);
  auto domain = rows ? rows.getDomain() : llvm::cast<dispatch::ScatterRowsOp>(op).getDomain();
  CudaRun launch;
  auto model = op->getParentOfType<mlir::ModuleOp>();
  launch.length = model->getAttrOfType<mlir::IntegerAttr>("sluice.context").getInt() - shortened;
  launch.rows = std::max<int64_t>(domain.getBatch() - (shortened ? 1 : 0), 1);
  for (int64_t b = 0; domain.getAxis() && b < domain.getBatch(); ++b) {
    int64_t whole = domain.getPositions() * std::max<int64_t>(domain.getFactor(), 1);
    launch.lengths.push_back(std::max<int64_t>(whole - shortened - (shortened ? b % 3 : 0), 0));
  }
  for (mlir::Type operand : op->getOperandTypes()) {
    auto type = llvm::cast<mlir::RankedTensorType>(operand);
    int64_t count = type.getNumElements();
    launch.operands.push_back(llvm::isa<mlir::FloatType>(type.getElementType())
                                  ? randomFloats(count, unsigned(count), 0.5f, 1)
                                  : randomIntegers(count, unsigned(count), 100));
  }
  for (int64_t b = 0; domain.getScheduled() && b < domain.getBatch(); ++b) {
    int64_t count = std::max<int64_t>(domain.getPositions() - b - shortened, 0), start = 3 * b;
    auto run = launch.operands.back().begin() + 3 * b;
    run[0] = float(start);
    run[1] = float(count);
    run[2] = float((start + count) * std::max<int64_t>(domain.getFactor(), 1));
  }
  if (rows && rows.getAliases()) {
    for (auto [result, operand] : llvm::enumerate(*rows.getAliases())) {
      if (operand >= 0) {
        launch.shares[unsigned(result)] = unsigned(operand);
      }
    }
  }
  return launch;
}

/// None of them has a violation: at full length, and at a shorter one with invalid rows, with
/// results at the offsets of the plan.
TEST(CudaModels, RowsAndScatterOfTinySpecsHaveNoViolation) {
  llvm::StringSet<> seen;
  for (const std::string &spec : specsIn("tiny")) {
    forEachDispatch(spec, seen, [&](mlir::Operation *op, const std::string &text) {
      EmulatedKernel cuda(text);
      ASSERT_TRUE(cuda.made()) << text;
      for (int64_t shortened : {0, 5}) {
        cuda.run(buildLaunch(op, shortened));
        ASSERT_FALSE(testing::Test::HasFailure()) << text;
      }
    });
  }
  EXPECT_GT(seen.size(), 20u);
}

} // namespace
