// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CudaHarness.h"

#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Target/CPU/Kernel.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <iostream>
#include <random>

using namespace mlir;
using namespace sluice;
using namespace sluice::test;

static constexpr int64_t guardBytes = 1024, bufferAlignment = 64;

static std::unique_ptr<MLIRContext> makeContext() {
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

EmulatedKernel::EmulatedKernel(const std::string &text) { make(text); }

void EmulatedKernel::make(const std::string &text) {
  context = makeContext();
  source = parseSourceString<ModuleOp>(text, context.get());
  ASSERT_TRUE(source) << text;
  dispatch = findDispatch(*source);
  ASSERT_TRUE(dispatch) << text;
  describe();
  module = ModuleOp::create(UnknownLoc::get(context.get()));
  FailureOr<cuda::Kernel> made = cuda::generateKernel(dispatch, *module, "kernel");
  ASSERT_TRUE(succeeded(made)) << text;
  ASSERT_TRUE(succeeded(verify(*module)));
  generated = *made;
  std::vector<std::unique_ptr<emulator::Emulator>> stages;
  for (cuda::Stage &stage : generated.stages) {
    auto llvmContext = std::make_unique<llvm::LLVMContext>();
    auto lowered = cuda::lowerToLLVM(*module, *llvmContext);
    ASSERT_TRUE(lowered);
    if (llvm::Error error = cuda::prepare(*lowered, cuda::Target::sm80())) {
      FAIL() << llvm::toString(std::move(error));
    }
    auto created = emulator::Emulator::create(std::move(lowered), std::move(llvmContext),
                                              stage.function.getName());
    ASSERT_TRUE(bool(created)) << llvm::toString(created.takeError());
    stages.push_back(std::move(*created));
  }
  emulators = std::move(stages);
}

void EmulatedKernel::describe() {
  auto add = [&](Value value) {
    auto type = cast<RankedTensorType>(value.getType());
    Slot slot;
    slot.width = type.getRank() == 0 ? 1 : type.getShape().back();
    slot.rows = type.getNumElements() / slot.width;
    slot.stride = type.getRank() == 3 ? dispatch::paddedWidth(slot.width) : slot.width;
    slot.bytes = type.getElementTypeBitWidth() / 8;
    slot.type = type.getElementType().isF32() ? 'f' : type.getElementType().isBF16() ? 'b' : 'i';
    slots.push_back(slot);
  };
  for (Value operand : dispatch->getOperands()) {
    add(operand);
  }
  for (Value result : dispatch->getResults()) {
    add(result);
  }
}

float test::roundedToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

void EmulatedKernel::put(uint8_t *memory, const Slot &slot, const std::vector<float> &values) {
  ASSERT_EQ(int64_t(values.size()), slot.rows * slot.width);
  for (int64_t i = 0; i < slot.rows * slot.width; ++i) {
    uint8_t *at = memory + (i / slot.width * slot.stride + i % slot.width) * slot.bytes;
    float value = slot.type == 'b' ? roundedToBf16(values[i]) : values[i];
    auto integer = static_cast<int32_t>(value);
    const auto *bits = reinterpret_cast<const uint8_t *>(&value);
    const void *from = slot.type == 'i'   ? static_cast<const void *>(&integer)
                       : slot.type == 'b' ? bits + 2
                                          : bits;
    std::memcpy(at, from, size_t(slot.bytes));
  }
}

std::vector<float> EmulatedKernel::get(const uint8_t *memory, const Slot &slot) {
  std::vector<float> values(size_t(slot.rows * slot.width));
  for (int64_t i = 0; i < slot.rows * slot.width; ++i) {
    const uint8_t *at = memory + (i / slot.width * slot.stride + i % slot.width) * slot.bytes;
    uint32_t bits = 0;
    std::memcpy(&bits, at, size_t(slot.bytes));
    bits = slot.type == 'b' ? bits << 16 : bits;
    std::memcpy(&values[size_t(i)], &bits, sizeof bits);
  }
  return values;
}

std::vector<std::vector<float>> EmulatedKernel::run(const CudaRun &run) {
  using emulator::Writes;
  size_t operands = dispatch->getNumOperands();
  if (!made() || run.operands.size() != operands) {
    ADD_FAILURE() << "expected " << operands << " operands, found " << run.operands.size();
    return {};
  }
  std::vector<int64_t> arguments;
  std::vector<std::pair<int64_t, int64_t>> writable;
  int64_t used = guardBytes;
  auto reserve = [&](int64_t bytes) {
    arguments.push_back(used);
    used += (bytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment + guardBytes;
  };
  for (size_t i = 0; i < slots.size(); ++i) {
    auto shared = i < operands ? run.shares.end() : run.shares.find(unsigned(i - operands));
    if (shared != run.shares.end()) {
      arguments.push_back(arguments[shared->second]);
    } else {
      reserve(slots[i].size());
    }
  }
  const int64_t scalars[] = {run.length, run.rows, run.step, run.seed};
  for (size_t i = 0; i < std::size(scalars); ++i) {
    reserve(8);
  }
  arguments.push_back(run.firstStream);
  int64_t counterBytes = generated.counters * cuda::Kernel::counterBytes;
  used += (counterBytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment;
  reserve(generated.workspaceBytes);
  std::unique_ptr<uint8_t, decltype(&std::free)> arena(
      static_cast<uint8_t *>(std::aligned_alloc(1024, size_t(used + 1023) / 1024 * 1024)),
      std::free);
  std::memset(arena.get(), 0xff, size_t(used));
  for (size_t i = 0; i < operands; ++i) {
    put(arena.get() + arguments[i], slots[i], run.operands[i]);
  }
  std::vector<emulator::Buffer> buffers;
  for (size_t i = 0; i < slots.size(); ++i) {
    buffers.push_back({"buffer " + std::to_string(i), arena.get() + arguments[i],
                       uint64_t(slots[i].size()), i < operands ? Writes::None : Writes::AtMostOnce,
                       i < operands || run.shares.count(unsigned(i - operands)) > 0});
  }
  for (size_t i = 0; i < std::size(scalars); ++i) {
    uint8_t *at = arena.get() + arguments[slots.size() + i];
    std::memcpy(at, &scalars[i], 8);
    buffers.push_back({"scalar " + std::to_string(i), at, 8});
  }
  buffers.push_back({"workspace", arena.get() + arguments.back(),
                     uint64_t(generated.workspaceBytes), Writes::Any, true});
  uint8_t *firstCounter = arena.get() + arguments.back() - counterBytes;
  std::memset(firstCounter, 0, size_t(counterBytes));
  buffers.push_back({"counters", firstCounter, uint64_t(counterBytes), Writes::Any});
  buffers.push_back({"arguments", arguments.data(), arguments.size() * 8});
  std::vector<uint8_t> before(arena.get(), arena.get() + used);
  counters.clear();
  for (size_t i = 0; i < emulators.size(); ++i) {
    const cuda::Stage &stage = generated.stages[i];
    emulator::Launch launch;
    launch.grid = {static_cast<uint32_t>(stage.blocks), 1, 1};
    launch.block = {static_cast<uint32_t>(stage.threads), 1, 1};
    launch.dynamicSharedBytes = static_cast<uint64_t>(stage.sharedBytes);
    launch.arguments = {reinterpret_cast<uint64_t>(arena.get()),
                        reinterpret_cast<uint64_t>(arguments.data())};
    launch.buffers = buffers;
    for (emulator::Buffer &buffer : launch.buffers) {
      buffer.initialized |= i > 0; // Stages read what earlier ones wrote, else NaN.
    }
    emulator::Report report = emulators[i]->launch(launch, run.options);
    EXPECT_TRUE(report.passed()) << "stage " << i << "\n" << report.str();
    counters.push_back(report.counters);
  }
  std::vector<std::vector<float>> results;
  for (size_t i = operands; i < slots.size(); ++i) {
    results.push_back(get(arena.get() + arguments[i], slots[i]));
    std::copy_n(arena.get() + arguments[i], slots[i].size(), before.begin() + arguments[i]);
  }
  std::copy_n(arena.get() + arguments.back(), generated.workspaceBytes,
              before.begin() + arguments.back());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), arena.get()))
      << "a write outside the results";
  return results;
}

std::string EmulatedKernel::ptx(const cuda::Target &target) {
  llvm::LLVMContext llvmContext;
  auto lowered = cuda::lowerToLLVM(*module, llvmContext);
  EXPECT_TRUE(lowered);
  auto ptx = cuda::emitPTX(std::move(lowered), target);
  if (!ptx) {
    ADD_FAILURE() << llvm::toString(ptx.takeError());
    return "";
  }
  return *ptx;
}

void EmulatedKernel::checkAssembly(const std::string &instruction) {
  ASSERT_TRUE(made());
  for (const cuda::Target *target : {&cuda::Target::sm80(), &cuda::Target::sm90a()}) {
    std::string text = ptx(*target);
    EXPECT_NE(text.find(".version 8.0"), std::string::npos);
    EXPECT_NE(text.find(".target " + target->chip.str() + "\n"), std::string::npos);
    EXPECT_NE(text.find(instruction), std::string::npos);
    EXPECT_EQ(text.find("call"), std::string::npos) << "a kernel calls a function";
    auto binary = cuda::assemble(text, *target);
    ASSERT_TRUE(bool(binary)) << llvm::toString(binary.takeError());
    if (!*binary) {
      std::cout << "no ptxas: PTX only\n";
      continue;
    }
    ASSERT_EQ((*binary)->usage.size(), generated.stages.size());
    for (const cuda::Usage &usage : (*binary)->usage) {
      const cuda::Stage *stage = nullptr;
      for (const cuda::Stage &other : generated.stages) {
        cuda::Stage copy = other;
        stage = copy.function.getName() == usage.kernel ? &other : stage;
      }
      ASSERT_TRUE(stage) << usage.kernel;
      int64_t registers = (usage.registers + 7) / 8 * 8;
      int64_t sharedLimit = target == &cuda::Target::sm80() ? 163 << 10 : 227 << 10;
      int64_t blocks =
          std::min<int64_t>(65536 / (registers * stage->threads), 2048 / stage->threads);
      blocks = std::min(blocks, sharedLimit / (stage->sharedBytes + 1024));
      std::cout << target->name.str() << " " << usage.kernel << ": " << usage.registers
                << " registers, " << stage->threads << " threads, " << stage->sharedBytes
                << " bytes of shared memory, " << blocks << " blocks a multiprocessor\n";
      EXPECT_EQ(usage.stackBytes, 0) << usage.kernel;
      EXPECT_EQ(usage.spillBytes, 0) << usage.kernel;
      EXPECT_GE(blocks, 1);
    }
  }
}

std::string test::cudaRefusal(const std::string &text) {
  auto context = makeContext();
  std::string message;
  ScopedDiagnosticHandler handler(context.get(),
                                  [&](Diagnostic &diagnostic) { message += diagnostic.str(); });
  OwningOpRef<ModuleOp> source = parseSourceString<ModuleOp>(text, context.get());
  if (!source) {
    return "not parsed: " + message;
  }
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(context.get()));
  EXPECT_TRUE(failed(cuda::generateKernel(findDispatch(*source), *module, "kernel")));
  EXPECT_TRUE(module->getBody()->empty());
  return message;
}

std::vector<float> test::bf16Numbers(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  std::generate(values.begin(), values.end(),
                [&] { return roundedToBf16(distribution(generator)); });
  return values;
}

std::vector<float> test::smallIntegers(int64_t count, unsigned seed, int most) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> distribution(-most, most);
  std::vector<float> values(static_cast<size_t>(count));
  std::generate(values.begin(), values.end(), [&] { return float(distribution(generator)); });
  return values;
}
