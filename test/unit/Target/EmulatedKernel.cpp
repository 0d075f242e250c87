// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs one generated CUDA kernel on the emulator.
#include "EmulatedKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Target/CPU/Kernel.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "gtest/gtest.h"
#include <cstring>

using namespace mlir;
using namespace sluice;
using namespace sluice::test;

static constexpr int64_t guardBytes = 1024;
static constexpr uint32_t garbage = 0x7149f2ca;

float sluice::test::roundedToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  float rounded;
  std::memcpy(&rounded, &bits, sizeof bits);
  return value == value ? rounded : value;
}

GeneratedKernel::GeneratedKernel(llvm::StringRef text, const CudaGenerator &generator) {
  generate(text, generator);
}

EmulatedKernel::EmulatedKernel(llvm::StringRef text, const CudaGenerator &generator)
    : GeneratedKernel(text, generator) {
  if (ready) {
    ready = false;
    describe();
    load();
  }
}
EmulatedKernel::~EmulatedKernel() = default;

/// The module with one kernel alone.
static std::string bitcodeOf(llvm::Module &module, StringRef name) {
  std::unique_ptr<llvm::Module> one = llvm::CloneModule(module);
  for (llvm::Function &function : llvm::make_early_inc_range(*one)) {
    if (!function.isDeclaration() && function.getName() != name) {
      function.eraseFromParent();
    }
  }
  std::string bitcode;
  llvm::raw_string_ostream stream(bitcode);
  llvm::WriteBitcodeToFile(*one, stream);
  return bitcode;
}

void GeneratedKernel::generate(llvm::StringRef text, const CudaGenerator &generator) {
  context = std::make_unique<MLIRContext>(MLIRContext::Threading::DISABLED);
  context->loadDialect<arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect, NVVM::NVVMDialect,
                       math::MathDialect, memref::MemRefDialect, scf::SCFDialect,
                       tensor::TensorDialect, vector::VectorDialect, dispatch::DispatchDialect>();
  source = parseSourceString<ModuleOp>(text, context.get());
  ASSERT_TRUE(source) << text.str();
  source->walk([&](Operation *op) {
    if (isa<dispatch::DispatchDialect>(op->getDialect()) && !dispatch_ &&
        op->getBlock()->getParentOp()->getName().getStringRef() == "func.func") {
      dispatch_ = op;
    }
  });
  ASSERT_TRUE(dispatch_);
  kernels = ModuleOp::create(UnknownLoc::get(context.get()));
  FailureOr<cuda::Kernel> generated = generator(dispatch_, *kernels, "kernel");
  ASSERT_TRUE(succeeded(generated));
  kernel_ = *generated;
  ASSERT_TRUE(succeeded(verify(*kernels)));
  ready = true;
}

void EmulatedKernel::describe() {
  operandCount = dispatch_->getNumOperands();
  for (unsigned i = 0; i < operandCount + dispatch_->getNumResults(); ++i) {
    Value value =
        i < operandCount ? dispatch_->getOperand(i) : dispatch_->getResult(i - operandCount);
    auto type = cast<RankedTensorType>(value.getType());
    int64_t width = type.getShape().back();
    slots.push_back({type.getNumElements() / width, width,
                     type.getRank() == 3 ? dispatch::paddedWidth(width) : width,
                     type.getElementType().isBF16()});
  }
}

void EmulatedKernel::load() {
  llvm::LLVMContext llvmContext;
  auto lowered = cuda::lowerToLLVM(*kernels, llvmContext);
  ASSERT_TRUE(lowered);
  if (llvm::Error error = cuda::prepare(*lowered, cuda::Target::sm80())) {
    FAIL() << llvm::toString(std::move(error));
  }
  for (cuda::Stage &stage : kernel_.stages) {
    StringRef name = stage.function.getName();
    auto created = emulator::Emulator::create(bitcodeOf(*lowered, name), name);
    ASSERT_TRUE(bool(created)) << llvm::toString(created.takeError());
    stages.push_back(std::move(*created));
  }
  ready = true;
}

void EmulatedKernel::write(uint8_t *to, const Slot &slot, const std::vector<float> &values) const {
  ASSERT_EQ(int64_t(values.size()), slot.rows * slot.width);
  for (int64_t i = 0; i < slot.rows * slot.width; ++i) {
    int64_t at = i / slot.width * slot.stride + i % slot.width;
    float value = slot.bf16 ? roundedToBf16(values[i]) : values[i];
    const char *bits = reinterpret_cast<const char *>(&value);
    std::memcpy(to + at * (slot.bf16 ? 2 : 4), slot.bf16 ? bits + 2 : bits, slot.bf16 ? 2 : 4);
  }
}

std::vector<float> EmulatedKernel::read(const uint8_t *from, const Slot &slot) const {
  std::vector<float> values(slot.rows * slot.width);
  for (int64_t i = 0; i < slot.rows * slot.width; ++i) {
    int64_t at = i / slot.width * slot.stride + i % slot.width;
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<char *>(&bits) + (slot.bf16 ? 2 : 0),
                from + at * (slot.bf16 ? 2 : 4), slot.bf16 ? 2 : 4);
    std::memcpy(&values[i], &bits, 4);
  }
  return values;
}

bool EmulatedKernel::isUntouched(float value, bool bf16) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bf16 ? bits >> 16 == garbage >> 16 || bits >> 16 == (garbage & 0xffff) : bits == garbage;
}

std::vector<std::vector<float>> EmulatedKernel::run(const CudaRun &run) {
  using emulator::Writes;
  EXPECT_EQ(run.operands.size(), operandCount);
  int64_t end = guardBytes;
  auto place = [&](int64_t bytes) {
    int64_t offset = end;
    end = int64_t(llvm::alignTo(end + bytes + guardBytes, 64));
    return offset;
  };
  std::vector<int64_t> arguments, scalars{run.length, run.rows, run.step, run.seed};
  for (const Slot &slot : slots) {
    arguments.push_back(place(slot.bytes()));
  }
  for (size_t i = 0; i < scalars.size(); ++i) {
    arguments.push_back(place(8));
  }
  arguments.push_back(run.firstStream);
  int64_t counterBytes = kernel_.counters * cuda::Kernel::counterBytes;
  int64_t counters = place(int64_t(llvm::alignTo(counterBytes, 64)) + kernel_.workspaceBytes);
  arguments.push_back(counters + int64_t(llvm::alignTo(counterBytes, 64)));
  std::vector<uint32_t> memory(size_t(end) / 4 + 32, garbage);
  auto *arena = reinterpret_cast<uint8_t *>(llvm::alignTo(uint64_t(memory.data()), 64));
  emulator::Launch launch;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (i < operandCount) {
      write(arena + arguments[i], slots[i], run.operands[i]);
    }
    launch.buffers.push_back(
        {"buffer " + std::to_string(i), arena + arguments[i], uint64_t(slots[i].bytes()),
         i < operandCount ? Writes::None : Writes::AtMostOnce, i < operandCount});
  }
  for (size_t i = 0; i < scalars.size(); ++i) {
    uint8_t *at = arena + arguments[slots.size() + i];
    std::memcpy(at, &scalars[i], 8);
    launch.buffers.push_back({"scalar " + std::to_string(i), at, 8});
  }
  launch.buffers.push_back({"arguments", arguments.data(), arguments.size() * 8});
  launch.arguments = {reinterpret_cast<uint64_t>(arena),
                      reinterpret_cast<uint64_t>(arguments.data())};
  uint8_t *firstCounter = arena + arguments.back() - counterBytes;
  std::memset(firstCounter, 0, size_t(counterBytes));
  launch.buffers.push_back({"counters", firstCounter, uint64_t(counterBytes), Writes::Any});
  reports.clear();
  for (auto [i, stage] : llvm::enumerate(kernel_.stages)) {
    emulator::Launch one = launch;
    if (kernel_.workspaceBytes > 0) {
      one.buffers.push_back({"workspace", arena + arguments.back(),
                             uint64_t(kernel_.workspaceBytes), Writes::AtMostOnce, i > 0});
    }
    one.grid = {uint32_t(stage.blocks), 1, 1};
    one.block = {uint32_t(stage.threads), 1, 1};
    one.dynamicSharedBytes = uint64_t(stage.sharedBytes);
    reports.push_back(stages[i]->launch(one, run.options));
    EXPECT_TRUE(reports.back().passed()) << reports.back().str();
  }
  EXPECT_TRUE(llvm::all_of(llvm::ArrayRef(firstCounter, size_t(counterBytes)), [](uint8_t byte) {
    return byte == 0;
  })) << "counters that are not zero after the launch";
  std::vector<std::vector<float>> results;
  for (size_t i = operandCount; i < slots.size(); ++i) {
    results.push_back(read(arena + arguments[i], slots[i]));
  }
  return results;
}
