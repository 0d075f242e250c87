// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs passes over MLIR files: for tests and developers.
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "sluice/Analysis/LoweredCausality.h"
#include "sluice/Conversion/Passes.h"
#include "sluice/Dialect/Dispatch/Dispatch.h"
#include "sluice/Dialect/Plan/Plan.h"
#include "sluice/Dialect/Sluice/Sluice.h"
#include "sluice/Dialect/Spec/Spec.h"
#include "sluice/Editor/IrMessages.h"
#include "sluice/Target/Artifact/Pipeline.h"
#include "sluice/Target/Passes.h"
#include "sluice/Transforms/Passes.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

static llvm::cl::opt<bool> verifyEachCausality(
    "verify-each-causality",
    llvm::cl::desc("After every pass, read dependences again and compare them with what the module "
                   "promised: model IR, whose values are named meanwhile"));

namespace {

using SharedWatch = std::shared_ptr<std::optional<sluice::LoweringWatch>>;

/// Runs before the first pass, with an empty `after`, and after each.
struct WatchPass : PassWrapper<WatchPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WatchPass)
  WatchPass(SharedWatch watch, std::string after, bool isLast)
      : watch(std::move(watch)), after(std::move(after)), isLast(isLast) {}

  void runOnOperation() override {
    markAllAnalysesPreserved(); // a plan depends on cached kernels and memory
    if (after.empty()) {
      watch->emplace(getOperation());
      return;
    }
    Location place = getOperation().getLoc();
    if (auto added = (*watch)->find(getOperation(), after, &place)) {
      emitError(place) << "internal error: " << *added;
      signalPassFailure();
    }
    if (isLast) {
      sluice::LoweringWatch::finish(getOperation());
    }
  }

  SharedWatch watch;
  std::string after;
  bool isLast;
};

} // namespace

/// Adds the passes of the command line, each followed by a check of its result.
static LogicalResult addWatchedPasses(const MlirOptMainConfig &config, PassManager &manager) {
  PassManager named(manager.getContext());
  if (failed(config.setupPassPipeline(named))) {
    return failure();
  }
  auto watch = std::make_shared<std::optional<sluice::LoweringWatch>>();
  manager.addPass(std::make_unique<WatchPass>(watch, "", false));
  for (size_t left = named.size(); Pass &pass : named.getPasses()) {
    // A pass that belongs to another manager is rebuilt from its text.
    std::string text;
    llvm::raw_string_ostream stream(text);
    pass.printAsTextualPipeline(stream);
    if (failed(parsePassPipeline(text, manager))) {
      return failure();
    }
    std::string name = StringRef(text).take_until([](char c) { return c == '{'; }).str();
    manager.addPass(std::make_unique<WatchPass>(watch, name, --left == 0));
  }
  return success();
}

/// Reads the input here, because MLIR's parser would overflow its stack on text that nests too
/// deep.
static LogicalResult run(StringRef inputName, StringRef outputName, DialectRegistry &registry) {
  MlirOptMainConfig named = MlirOptMainConfig::createFromCLOptions();
  MlirOptMainConfig config = named;
  if (verifyEachCausality) {
    config.setPassPipelineSetupFn(
        [&](PassManager &manager) { return addWatchedPasses(named, manager); });
  }
  std::string message;
  auto input = openInputFile(inputName, &message);
  auto output = input ? openOutputFile(outputName, &message) : nullptr;
  if (!output) {
    llvm::errs() << message << "\n";
    return failure();
  }
  StringRef text = input->getBuffer();
  if (auto tooDeep = isBytecode(*input) ? std::nullopt : sluice::editor::refuseDeepText(text)) {
    llvm::errs() << inputName << ": error: " << *tooDeep << "\n";
    return failure();
  }
  if (failed(MlirOptMain(output->os(), std::move(input), registry, config))) {
    return failure();
  }
  output->keep();
  return success();
}

int main(int argc, char **argv) {
  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllPasses();
  sluice::registerSluiceConversionPasses();
  sluice::registerSluiceTransformsPasses();
  sluice::registerSluiceTargetPasses();
  sluice::registerSluicePipelines();
  registry.insert<sluice::SluiceDialect, sluice::dispatch::DispatchDialect,
                  sluice::plan::PlanDialect, sluice::spec::SpecDialect>();
  llvm::InitLLVM init(argc, argv);
  auto [input, output] = registerAndParseCLIOptions(argc, argv, "Sluice's pass driver\n", registry);
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  bool lists = config.shouldListPasses() || config.shouldShowDialects();
  return asMainReturnCode(lists ? MlirOptMain(argc, argv, input, output, registry)
                                : run(input, output, registry));
}
