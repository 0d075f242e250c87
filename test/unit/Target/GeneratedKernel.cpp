// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles the text of a dispatch op to MLIR, PTX and cubins.
#include "GeneratedKernel.h"

#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Target/CPU/Kernel.h"
#include "sluice/Target/CUDA/Chip.h"
#include "sluice/Target/CUDA/PTX/Assemble.h"
#include "gtest/gtest.h"
#include <iostream>

using namespace mlir;
using namespace sluice;
using namespace sluice::test;

std::unique_ptr<MLIRContext> test::makeDispatchContext() {
  DialectRegistry registry;
  registerAllDialects(registry);
  registry.insert<dispatch::DispatchDialect>();
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

static Operation *findDispatch(ModuleOp module) {
  Operation *found = nullptr;
  module.walk([&](Operation *op) {
    bool isKernel =
        op->getName().getDialectNamespace() == "dispatch" && isa<func::FuncOp>(op->getParentOp());
    found = isKernel && !found ? op : found;
  });
  return found;
}

GeneratedKernel::GeneratedKernel(const std::string &text, const cuda::Target &target)
    : context(makeDispatchContext()), target(target) {
  generate(text);
}

void GeneratedKernel::generate(const std::string &text) {
  source = parseSourceString<ModuleOp>(text, context.get());
  ASSERT_TRUE(source) << text;
  dispatch = findDispatch(*source);
  ASSERT_TRUE(dispatch) << text;
  kernels = ModuleOp::create(UnknownLoc::get(context.get()));
  cuda::setTarget(*kernels, target);
  FailureOr<cuda::Kernel> made = cuda::generateKernel(dispatch, *kernels, "kernel");
  ASSERT_TRUE(succeeded(made)) << text;
  ASSERT_TRUE(succeeded(verify(*kernels)));
  generated = *made;
  ready = true;
}

int64_t test::countLaunchBlocks(const cuda::KernelStage &stage, const cuda::Usage &usage,
                                const cuda::Target &target) {
  int64_t registers = (usage.registers + 7) / 8 * 8;
  int64_t sharedLimit = &target == &cuda::Target::sm80() ? 163 << 10 : 227 << 10;
  int64_t blocks = std::min<int64_t>(65536 / (std::max<int64_t>(registers, 8) * stage.threads),
                                     2048 / stage.threads);
  return std::min(blocks, sharedLimit / (stage.sharedBytes + 1024));
}

static void checkUsage(const cuda::Kernel &kernel, const cuda::Usage &usage,
                       const cuda::Target &target) {
  EXPECT_EQ(usage.stackBytes, 0) << usage.kernel;
  EXPECT_EQ(usage.spillBytes, 0) << usage.kernel;
  EXPECT_FALSE(usage.serialized) << usage.kernel;
  const auto *stage = llvm::find_if(kernel.stages, [&](cuda::KernelStage each) {
    return each.function.getName() == usage.kernel;
  });
  ASSERT_NE(stage, kernel.stages.end()) << usage.kernel;
  int64_t blocks = countLaunchBlocks(*stage, usage, target);
  EXPECT_GE(blocks, 1) << usage.kernel;
  std::cout << target.name.str() << " " << usage.kernel << ": " << usage.registers << " registers, "
            << stage->threads << " threads, " << stage->sharedBytes << " bytes of shared memory, "
            << blocks << " blocks a multiprocessor\n";
}

static std::string compileModuleToPtx(ModuleOp module, const cuda::Target &target) {
  llvm::LLVMContext context;
  auto lowered = cuda::lowerToLLVM(module, context);
  if (!lowered) {
    ADD_FAILURE() << "not lowered";
    return "";
  }
  auto ptx = cuda::emitPTX(std::move(lowered), target);
  if (!ptx) {
    ADD_FAILURE() << llvm::toString(ptx.takeError());
    return "";
  }
  return *ptx;
}

std::string GeneratedKernel::ptx(const cuda::Target &target) const {
  EXPECT_TRUE(ready);
  return ready ? compileModuleToPtx(*kernels, target) : "";
}

void GeneratedKernel::checkAssembly(const std::vector<std::string> &instructions) {
  ASSERT_TRUE(ready);
  std::vector<const cuda::Target *> targets{&cuda::Target::sm90a()};
  if (&target == &cuda::Target::sm80()) {
    targets.push_back(&target);
  }
  for (const cuda::Target *target : targets) {
    std::string ptx = compileModuleToPtx(*kernels, *target);
    if (ptx.empty()) {
      return;
    }
    EXPECT_NE(ptx.find(".version 8.0"), std::string::npos);
    EXPECT_NE(ptx.find(".target " + target->chip.str() + "\n"), std::string::npos);
    for (const std::string &instruction : instructions) {
      EXPECT_NE(ptx.find(instruction), std::string::npos) << instruction;
    }
    EXPECT_EQ(ptx.find("call"), std::string::npos) << "a kernel calls a function";
    auto binary = cuda::assemble(ptx, *target);
    if (!binary) {
      ADD_FAILURE() << llvm::toString(binary.takeError());
      return;
    }
    if (!*binary) {
      std::cout << "no ptxas: PTX only\n";
      continue;
    }
    EXPECT_EQ((*binary)->usage.size(), generated.stages.size());
    for (const cuda::Usage &usage : (*binary)->usage) {
      checkUsage(generated, usage, *target);
    }
  }
}
