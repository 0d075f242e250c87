// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CudaRowsHarness.h"

#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"
#include <iostream>

using namespace mlir;
using namespace sluice;
using namespace sluice::test;

static constexpr int64_t guardBytes = 1024;

std::unique_ptr<MLIRContext> test::makeDispatchContext() {
  DialectRegistry registry;
  registerAllDialects(registry);
  registry.insert<dispatch::DispatchDialect>();
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

FailureOr<cuda::Kernel> test::generateRowsOrScatter(Operation *op, ModuleOp module) {
  if (auto rows = dyn_cast<dispatch::RowsOp>(op)) {
    return cuda::generateRows(rows, module, "kernel");
  }
  return cuda::generateScatterRows(cast<dispatch::ScatterRowsOp>(op), module, "kernel");
}

float test::roundedToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

EmulatedRows::EmulatedRows(const std::string &text, Edit edit)
    : context(makeDispatchContext()), edit(edit) {
  make(text);
}

void EmulatedRows::make(const std::string &text) {
  source = parseSourceString<ModuleOp>(text, context.get());
  ASSERT_TRUE(source) << text;
  source->walk([&](Operation *op) {
    bool isKernel = isa<dispatch::RowsOp, dispatch::ScatterRowsOp>(op);
    dispatch = isKernel && !dispatch ? op : dispatch;
  });
  ASSERT_TRUE(dispatch) << text;
  for (Value value : llvm::concat<Value>(llvm::to_vector(dispatch->getOperands()),
                                         llvm::to_vector_of<Value>(dispatch->getResults()))) {
    auto type = cast<RankedTensorType>(value.getType());
    Slot slot;
    slot.width = type.getRank() == 0 ? 1 : type.getShape().back();
    slot.rows = type.getNumElements() / slot.width;
    slot.stride = type.getRank() == 3 ? dispatch::paddedWidth(slot.width) : slot.width;
    slot.bytes = type.getElementTypeBitWidth() / 8;
    slot.floats = isa<FloatType>(type.getElementType());
    slots.push_back(slot);
  }
  module = ModuleOp::create(UnknownLoc::get(context.get()));
  FailureOr<cuda::Kernel> made = generateRowsOrScatter(dispatch, *module);
  ASSERT_TRUE(succeeded(made)) << text;
  ASSERT_TRUE(succeeded(verify(*module)));
  kernel = *made;
  std::vector<std::unique_ptr<emulator::Emulator>> launches;
  for (cuda::Stage &stage : kernel.stages) {
    auto llvmContext = std::make_unique<llvm::LLVMContext>();
    auto lowered = cuda::lowerToLLVM(*module, *llvmContext);
    ASSERT_TRUE(lowered);
    if (llvm::Error error = cuda::prepare(*lowered, cuda::Target::sm80())) {
      FAIL() << llvm::toString(std::move(error));
    }
    if (edit) {
      edit(*lowered);
    }
    auto created = emulator::Emulator::create(std::move(lowered), std::move(llvmContext),
                                              stage.function.getName());
    ASSERT_TRUE(bool(created)) << llvm::toString(created.takeError());
    launches.push_back(std::move(*created));
  }
  emulators = std::move(launches);
}

void EmulatedRows::put(uint8_t *at, const Slot &slot, float value) const {
  if (!slot.floats) {
    auto integer = static_cast<int64_t>(value);
    std::memcpy(at, &integer, size_t(slot.bytes));
    return;
  }
  float stored = slot.bytes == 2 ? roundedToBf16(value) : value;
  std::memcpy(at, reinterpret_cast<uint8_t *>(&stored) + (4 - slot.bytes), size_t(slot.bytes));
}

float EmulatedRows::get(const uint8_t *at, const Slot &slot) const {
  int64_t integer = 0;
  if (!slot.floats) {
    std::memcpy(&integer, at, size_t(slot.bytes));
    return slot.bytes == 4 ? float(int32_t(integer)) : float(integer);
  }
  float value = 0;
  std::memcpy(reinterpret_cast<uint8_t *>(&value) + (4 - slot.bytes), at, size_t(slot.bytes));
  return value;
}

std::vector<Floats> EmulatedRows::run(const Launch &launch) {
  using emulator::Writes;
  size_t operands = dispatch->getNumOperands();
  if (!made() || launch.operands.size() != operands) {
    ADD_FAILURE() << "expected " << operands << " operands, found " << launch.operands.size();
    return {};
  }
  std::vector<int64_t> arguments;
  int64_t used = guardBytes;
  auto reserve = [&](int64_t bytes) {
    arguments.push_back(used);
    used += (bytes + 63) / 64 * 64 + guardBytes;
  };
  for (size_t i = 0; i < slots.size(); ++i) {
    auto shared = i < operands ? launch.shares.end() : launch.shares.find(unsigned(i - operands));
    if (shared != launch.shares.end()) {
      arguments.push_back(arguments[shared->second]);
    } else {
      reserve(slots[i].size());
    }
  }
  const int64_t scalars[] = {launch.length, launch.rows, launch.step, launch.seed};
  for (size_t i = 0; i < std::size(scalars); ++i) {
    reserve(8);
  }
  arguments.push_back(launch.firstStream);
  int64_t counterBytes = kernel.counters * cuda::Kernel::counterBytes;
  used += (counterBytes + 64 - 1) / 64 * 64;
  reserve(kernel.workspaceBytes);
  std::unique_ptr<uint8_t, decltype(&std::free)> arena(
      static_cast<uint8_t *>(std::aligned_alloc(64, size_t(used))), std::free);
  std::fill_n(reinterpret_cast<float *>(arena.get()), used / 4, untouched);
  auto each = [&](size_t i, auto visit) {
    const Slot &slot = slots[i];
    for (int64_t n = 0; n < slot.rows * slot.width; ++n) {
      int64_t place = n / slot.width * slot.stride + n % slot.width;
      visit(size_t(n), arena.get() + arguments[i] + place * slot.bytes);
    }
  };
  std::vector<emulator::Buffer> buffers;
  for (size_t i = 0; i < slots.size(); ++i) {
    bool result = i >= operands;
    if (!result) {
      EXPECT_EQ(int64_t(launch.operands[i].size()), slots[i].rows * slots[i].width);
      each(i, [&](size_t n, uint8_t *at) { put(at, slots[i], launch.operands[i][n]); });
    } else if (!launch.shares.count(unsigned(i - operands))) {
      each(i, [&](size_t, uint8_t *at) {
        if (slots[i].floats) {
          put(at, slots[i], untouched);
        }
      });
    }
    buffers.push_back({"buffer " + std::to_string(i), arena.get() + arguments[i],
                       uint64_t(slots[i].size()), result ? Writes::AtMostOnce : Writes::None,
                       !result || launch.shares.count(unsigned(i - operands)) > 0});
  }
  for (size_t i = 0; i < std::size(scalars); ++i) {
    uint8_t *at = arena.get() + arguments[slots.size() + i];
    std::memcpy(at, &scalars[i], 8);
    buffers.push_back({"scalar " + std::to_string(i), at, 8});
  }
  buffers.push_back({"arguments", arguments.data(), arguments.size() * 8});
  uint8_t *firstCounter = arena.get() + arguments.back() - counterBytes;
  std::memset(firstCounter, 0, size_t(counterBytes));
  buffers.push_back({"counters", firstCounter, uint64_t(counterBytes), Writes::Any});
  buffers.push_back({"workspace", arena.get() + arguments.back(), uint64_t(kernel.workspaceBytes),
                     Writes::Any, false});
  std::vector<uint8_t> before(arena.get(), arena.get() + used);
  reports.clear();
  ++runs;
  for (size_t i = 0; i < emulators.size(); ++i) {
    const cuda::Stage &stage = kernel.stages[i];
    emulator::Launch each;
    each.grid = {static_cast<uint32_t>(stage.blocks), 1, 1};
    each.block = {static_cast<uint32_t>(stage.threads), 1, 1};
    each.dynamicSharedBytes = uint64_t(stage.sharedBytes);
    each.arguments = {reinterpret_cast<uint64_t>(arena.get()),
                      reinterpret_cast<uint64_t>(arguments.data())};
    each.buffers = buffers;
    each.buffers.back().initialized = i > 0; // what an earlier launch left there
    emulator::Options options;
    options.seed = runs;
    options.schedule = runs % 2 ? emulator::Schedule::WarpAlone : emulator::Schedule::Random;
    reports.push_back(emulators[i]->launch(each, options));
    EXPECT_TRUE(edit || reports.back().passed()) << reports.back().str();
  }
  std::vector<Floats> results;
  for (size_t i = operands; i < slots.size(); ++i) {
    results.emplace_back(size_t(slots[i].rows * slots[i].width));
    each(i, [&](size_t n, uint8_t *at) { results.back()[n] = get(at, slots[i]); });
    std::copy_n(arena.get() + arguments[i], slots[i].size(), before.begin() + arguments[i]);
  }
  std::copy_n(arena.get() + arguments.back(), kernel.workspaceBytes,
              before.begin() + arguments.back());
  EXPECT_TRUE(edit || std::equal(before.begin(), before.end(), arena.get()))
      << "a write outside the results";
  return results;
}

EmulatedRows::Traffic EmulatedRows::rowTraffic() const {
  Traffic traffic;
  for (const emulator::Report &report : reports) {
    for (const emulator::SiteTraffic &site : report.counters.sites) {
      bool vectors = site.instruction.find(" x float>") != std::string::npos ||
                     site.instruction.find(" x bfloat>") != std::string::npos;
      bool global = site.instruction.find("addrspace(3)") == std::string::npos;
      if (vectors && global) {
        traffic.bytes += 32.0 * double(site.units);
        traffic.least += 32.0 * double(site.leastUnits);
      }
    }
  }
  return traffic;
}

int64_t test::checkAssembly(ModuleOp module, const std::string &what) {
  int64_t registers = 0;
  for (const cuda::Target *target : {&cuda::Target::sm80(), &cuda::Target::sm90a()}) {
    llvm::LLVMContext context;
    auto lowered = cuda::lowerToLLVM(module, context);
    if (!lowered) {
      ADD_FAILURE() << "not lowered: " << what;
      return 0;
    }
    auto ptx = cuda::emitPTX(std::move(lowered), *target);
    if (!ptx) {
      ADD_FAILURE() << llvm::toString(ptx.takeError()) << what;
      return 0;
    }
    EXPECT_NE(ptx->find(".version 8.0"), std::string::npos);
    EXPECT_NE(ptx->find(".target " + target->chip.str() + "\n"), std::string::npos);
    EXPECT_EQ(ptx->find("call"), std::string::npos) << "a kernel calls a function: " << what;
    auto binary = cuda::assemble(*ptx, *target);
    if (!binary) {
      ADD_FAILURE() << llvm::toString(binary.takeError()) << what;
      return 0;
    }
    if (!*binary) {
      continue;
    }
    for (const cuda::Usage &usage : (*binary)->usage) {
      registers = std::max(registers, usage.registers);
      EXPECT_EQ(usage.stackBytes, 0) << usage.kernel << " of " << what;
      EXPECT_EQ(usage.spillBytes, 0) << usage.kernel << " of " << what;
    }
  }
  return registers;
}
