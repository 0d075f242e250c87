// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A C interface to the emulator and to the oracle of launches, for the runtime, which does not link
// LLVM.
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Emulator/Emulator.h"
#include "sluice/Oracle/Oracle.h"
#include "sluice/Runtime/Device/Emulator/EmulatorPlugin.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

#include <cstring>

using namespace sluice::emulator;

#define SLUICE_EXPORT extern "C" __attribute__((visibility("default")))

static void tell(char **message, const std::string &text) { *message = ::strdup(text.c_str()); }

SLUICE_EXPORT int sluice_emulator_abi(void) { return sluiceEmulatorAbi; }

SLUICE_EXPORT void *sluice_emulator_create(const void *bitcode, size_t bytes, const char *kernel,
                                           char **message) {
  auto made = Emulator::create(llvm::StringRef(static_cast<const char *>(bitcode), bytes), kernel);
  if (!made) {
    tell(message, llvm::toString(made.takeError()));
    return nullptr;
  }
  return made->release();
}

static void add(const Counters &counters, SluiceEmulatorCounts &counts) {
  counts.instructions += counters.instructions;
  counts.tensorInstructions += counters.tensorInstructions;
  counts.barriers += counters.barriers;
  counts.readBytes += counters.distinctReadBytes;
  counts.writtenBytes += counters.distinctWrittenBytes;
  counts.sectors += counters.globalSectors;
  counts.leastSectors += counters.leastSectors;
  counts.passes += counters.sharedPasses;
  counts.leastPasses += counters.leastPasses;
}

SLUICE_EXPORT int sluice_emulator_launch(void *kernel, const SluiceEmulatorLaunch *request,
                                         char **message) {
  EmulatedLaunch launch;
  launch.grid = {request->blocks, 1, 1};
  launch.block = {request->threads, 1, 1};
  launch.dynamicSharedBytes = request->sharedBytes;
  launch.arguments.assign(request->arguments, request->arguments + request->argumentCount);
  for (size_t i = 0; i < request->bufferCount; ++i) {
    const SluiceEmulatorBuffer &buffer = request->buffers[i];
    launch.buffers.push_back({buffer.name, buffer.data, buffer.bytes,
                              buffer.written ? Writes::Any : Writes::None,
                              buffer.initialized != 0});
  }
  Options options;
  options.seed = request->seed;
  options.schedule = Schedule::WarpAlone;
  options.countTraffic = request->counts != nullptr;
  Report report = static_cast<Emulator *>(kernel)->launch(launch, options);
  if (request->counts) {
    add(report.counters, *request->counts);
  }
  if (!report.passed()) {
    tell(message, report.str());
  }
  return static_cast<int>(report.violations.size());
}

SLUICE_EXPORT void sluice_emulator_destroy(void *kernel) { delete static_cast<Emulator *>(kernel); }

namespace {

/// A dispatch and its context.
struct Judged {
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Operation *dispatch = nullptr;
  bool wasBiased = false; ///< in the launch before
};

/// Converts an expectation, with the layout of its result.
SluiceExpectation describe(mlir::Operation *dispatch,
                           const sluice::oracle::ExpectedElement &found) {
  auto type = llvm::cast<mlir::RankedTensorType>(dispatch->getResult(found.result).getType());
  mlir::Type element = type.getElementType();
  int64_t columns = type.getRank() == 0 ? 1 : type.getShape().back();
  SluiceExpectation told{};
  told.result = found.result;
  told.row = found.row;
  told.column = found.column;
  told.rows = type.getNumElements() / std::max<int64_t>(1, columns);
  told.stride = type.getRank() == 3 ? sluice::dispatch::paddedWidth(columns) : columns;
  told.type = element.isF32() ? 'f' : element.isBF16() ? 'b' : element.isInteger(32) ? 'i' : 'l';
  told.value = found.value;
  told.bound = found.bound;
  return told;
}

} // namespace

SLUICE_EXPORT void *sluice_judge_create(const char *text, size_t bytes, char **message) {
  auto made = std::make_unique<Judged>();
  made->context
      .loadDialect<sluice::dispatch::DispatchDialect, mlir::arith::ArithDialect,
                   mlir::func::FuncDialect, mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  std::string said;
  mlir::ScopedDiagnosticHandler handler(
      &made->context, [&](mlir::Diagnostic &diagnostic) { said += diagnostic.str() + "\n"; });
  // The function around the dispatch has no terminator, so it is not verified.
  mlir::ParserConfig config(&made->context, /*verifyAfterParse=*/false);
  made->module = mlir::parseSourceString<mlir::ModuleOp>(llvm::StringRef(text, bytes), config);
  if (made->module) {
    made->module->walk([&](mlir::Operation *op) {
      if (llvm::isa_and_nonnull<mlir::func::FuncOp>(op->getParentOp()) &&
          llvm::isa<sluice::dispatch::KernelInterface>(op)) {
        made->dispatch = op;
      }
    });
  }
  if (!made->dispatch) {
    tell(message, said.empty() ? "expected a dispatch, found none" : said);
    return nullptr;
  }
  return made.release();
}

SLUICE_EXPORT int sluice_judge_launch(void *judge, const SluiceJudgedLaunch *request,
                                      char **message) {
  auto *judged = static_cast<Judged *>(judge);
  size_t operands = judged->dispatch->getNumOperands(), results = judged->dispatch->getNumResults();
  if (request->bufferCount != operands + results) {
    tell(message, "expected " + std::to_string(operands + results) + " buffers, found " +
                      std::to_string(request->bufferCount));
    return 1;
  }
  const void *const *first = request->buffers;
  sluice::oracle::OracleLaunch launch;
  launch.operands.assign(first, first + operands);
  launch.results.assign(first + operands, first + operands + results);
  launch.length = request->length;
  launch.rows = request->rows;
  launch.step = request->step;
  launch.seed = request->seed;
  launch.firstStream = request->firstStream;
  launch.drawRows = request->drawRows;
  launch.lengths = request->lengths;
  if (request->observe) {
    launch.observe = [&](const sluice::oracle::ExpectedElement &found) {
      SluiceExpectation told = describe(judged->dispatch, found);
      request->observe(request->context, &told);
    };
  }
  std::string said;
  mlir::ScopedDiagnosticHandler handler(
      &judged->context, [&](mlir::Diagnostic &diagnostic) { said += diagnostic.str() + "\n"; });
  auto judgement = sluice::oracle::judge(judged->dispatch, launch);
  if (mlir::failed(judgement)) {
    tell(message, said);
    return 1;
  }
  // The mean of one of thousands of launches may deviate by chance; a wrong rounding deviates each
  // time.
  bool biasedTwice = judgement->isBiased() && judged->wasBiased;
  judged->wasBiased = judgement->isBiased();
  if (judgement->isWrong() || biasedTwice) {
    tell(message, judgement->str());
    return 1;
  }
  return 0;
}

SLUICE_EXPORT void sluice_judge_destroy(void *judge) { delete static_cast<Judged *>(judge); }

SLUICE_EXPORT void sluice_emulator_free(char *message) { ::free(message); }
