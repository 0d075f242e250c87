// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Runs one generated CPU kernel in a test.
#include "KernelHarness.h"

#include "MissingInstructions.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/InitAllDialects.h"
#include "mlir/Parser/Parser.h"
#include "sluice/Support/Processor.h"
#include "sluice/Target/CPU/Object/Link.h"
#include "sluice/Target/CPU/Object/Object.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/TargetParser/Host.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <numeric>
#include <random>
#include <thread>

using namespace mlir;
using namespace sluice;
using namespace sluice::test;

static constexpr int64_t guardBytes = 1024;
static constexpr float garbage = 1e30f;

std::vector<LoadedKernel::Slot> LoadedKernel::describe(Operation *dispatch) const {
  std::vector<Slot> result;
  unsigned operands = dispatch->getNumOperands();
  for (unsigned i = 0; i < operands + dispatch->getNumResults(); ++i) {
    Value value = i < operands ? dispatch->getOperand(i) : dispatch->getResult(i - operands);
    auto type = cast<RankedTensorType>(value.getType());
    Slot slot;
    slot.shape.assign(type.getShape().begin(), type.getShape().end());
    slot.width = slot.shape.empty() ? 1 : slot.shape.back();
    slot.rows = type.getNumElements() / slot.width;
    slot.stride = type.getRank() == 3 ? dispatch::paddedWidth(slot.width) : slot.width;
    Type element = type.getElementType();
    slot.type = element.isF32()         ? 'f'
                : element.isBF16()      ? 'h'
                : element.isF64()       ? 'd'
                : element.isInteger(64) ? 'l'
                : element.isInteger(8)  ? 'b'
                                        : 'i';
    result.push_back(slot);
  }
  return result;
}

void *test::loadObjects(ArrayRef<std::string> objects) {
  SmallVector<StringRef> parts(objects.begin(), objects.end());
  llvm::Expected<std::string> bytes = cpu::linkSharedObject(parts);
  if (!bytes) {
    ADD_FAILURE() << llvm::toString(bytes.takeError());
    return nullptr;
  }
  SmallString<128> path;
  int file = -1;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile("sluice-test", "so", file, path)) {
    ADD_FAILURE() << code.message();
    return nullptr;
  }
  llvm::raw_fd_ostream(file, /*shouldClose=*/true) << *bytes;
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    ADD_FAILURE() << dlerror();
  }
  llvm::sys::fs::remove(path);
  return library;
}

/// Loads an object into this process. The program ld.lld, which links artifacts, takes a seventh of
/// the time of a test of kernels.
static llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> loadObject(StringRef object) {
  cpu::initializeBackend();
  auto loader = llvm::orc::LLJITBuilder().create();
  if (!loader) {
    return loader.takeError();
  }
  auto copy = llvm::MemoryBuffer::getMemBufferCopy(object, "kernel");
  if (llvm::Error error = (*loader)->addObjectFile(std::move(copy))) {
    return std::move(error);
  }
  return loader;
}

LoadedKernel::LoadedKernel(StringRef text, const cpu::Target &target,
                           const KernelGenerator &generator) {
  load(text, target, generator);
}

void LoadedKernel::load(StringRef text, const cpu::Target &target,
                        const KernelGenerator &generator) {
  DialectRegistry registry;
  registerAllDialects(registry);
  registry.insert<dispatch::DispatchDialect>();
  context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  source = parseSourceString<ModuleOp>(text, context.get());
  ASSERT_TRUE(source) << text.str();
  Operation *dispatch = nullptr;
  source->walk([&](Operation *op) {
    bool isKernel =
        op->getName().getDialectNamespace() == "dispatch" && isa<func::FuncOp>(op->getParentOp());
    dispatch = isKernel && !dispatch ? op : dispatch;
  });
  ASSERT_TRUE(dispatch) << "no dispatch op in " << text.str();
  dispatch_ = dispatch;
  slots = describe(dispatch);
  operandCount = dispatch->getNumOperands();
  kernels = ModuleOp::create(UnknownLoc::get(context.get()));
  FailureOr<cpu::Kernel> kernel = generator(dispatch, *kernels, "kernel", target);
  ASSERT_TRUE(succeeded(kernel));
  ASSERT_TRUE(succeeded(verify(*kernels)));
  kernel_ = *kernel;
  items_ = kernel->items;
  kernels->walk([&](Operation *op) {
    bool allocates = isa<memref::AllocOp, memref::AllocaOp, memref::CopyOp>(op);
    EXPECT_FALSE(allocates) << "kernels neither allocate nor copy: "
                            << op->getName().getStringRef().str();
  });
  std::string object;
  ASSERT_TRUE(succeeded(cpu::lowerToObject(*kernels, target, object)));
  auto loaded = loadObject(object);
  ASSERT_TRUE(bool(loaded)) << llvm::toString(loaded.takeError());
  loader = std::move(*loaded);
  auto entry = loader->lookup("kernel");
  ASSERT_TRUE(bool(entry)) << llvm::toString(entry.takeError());
  function = entry->toPtr<void (*)(uint8_t *, const int64_t *, int64_t, uint8_t *)>();
}

std::vector<int64_t> LoadedKernel::bufferBytes() const {
  std::vector<int64_t> result;
  for (const Slot &slot : slots) {
    result.push_back(slot.bytes());
  }
  return result;
}

LoadedKernel::~LoadedKernel() = default;

/// Calls `visit(index in the dense array, byte offset in the buffer)` for each logical element.
template <typename Slot, typename Visit> static void forElements(const Slot &slot, Visit visit) {
  for (int64_t row = 0; row < slot.rows; ++row) {
    for (int64_t column = 0; column < slot.width; ++column) {
      visit(row * slot.width + column, (row * slot.stride + column) * slot.size());
    }
  }
}

template <typename T> static void put(uint8_t *at, T value) {
  std::memcpy(at, &value, sizeof value);
}
template <typename T> static T get(const uint8_t *at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// By integer arithmetic on the number, since kernels work on its bits.
float test::toBf16(float number) {
  if (!std::isfinite(number)) {
    return number;
  }
  int exponent = 0;
  std::frexp(number, &exponent);
  double unit = std::ldexp(1.0, std::max(exponent, -125) - 8);
  return float(std::nearbyint(number / unit) * unit);
}

static void store(uint8_t *at, char type, float value) {
  switch (type) {
  case 'h':
    value = toBf16(value);
    return put(at, uint16_t(get<uint32_t>(reinterpret_cast<uint8_t *>(&value)) >> 16));
  case 'f':
    return put(at, value);
  case 'd':
    return put(at, double(value));
  case 'l':
    return put(at, int64_t(value));
  case 'b':
    return put(at, int8_t(value));
  default:
    return put(at, int32_t(value));
  }
}

static float load(const uint8_t *at, char type) {
  switch (type) {
  case 'h': {
    uint32_t bits = uint32_t(get<uint16_t>(at)) << 16;
    return get<float>(reinterpret_cast<uint8_t *>(&bits));
  }
  case 'f':
    return get<float>(at);
  case 'd':
    return float(get<double>(at));
  case 'l':
    return float(get<int64_t>(at));
  case 'b':
    return float(get<int8_t>(at));
  default:
    return float(get<int32_t>(at));
  }
}

/// Memory aligned as the runtime aligns the arena, filled with garbage numbers.
static std::unique_ptr<uint8_t, decltype(&std::free)> makeMemory(int64_t bytes) {
  int64_t rounded = (bytes + 63) / 64 * 64 + 64;
  auto *memory = static_cast<uint8_t *>(std::aligned_alloc(64, rounded));
  std::fill_n(reinterpret_cast<float *>(memory), rounded / 4, garbage);
  return {memory, std::free};
}

std::vector<std::vector<float>> LoadedKernel::run(const KernelInputs &launch) const {
  if (!loaded() || launch.operands.size() != operandCount) {
    ADD_FAILURE() << "expected " << operandCount << " operands, found " << launch.operands.size();
    return {};
  }
  const int64_t scalars[] = {launch.length, launch.rows, launch.step, launch.seed};
  std::vector<int64_t> arguments(slots.size() + std::size(scalars) + 2);
  auto lengths = int64_t(launch.lengths.size());
  int64_t used = guardBytes;
  auto reserve = [&](int64_t bytes) {
    int64_t offset = used;
    used += (bytes + 63) / 64 * 64 + guardBytes;
    return offset;
  };
  for (size_t i = 0; i < slots.size(); ++i) {
    auto shared = i < operandCount ? launch.shares.end() : launch.shares.find(i - operandCount);
    if (shared != launch.shares.end() && shared->second >= operandCount) {
      ADD_FAILURE() << "result " << i - operandCount << " shares no operand";
      return {};
    }
    arguments[i] =
        shared != launch.shares.end() ? arguments[shared->second] : reserve(slots[i].bytes());
  }
  for (size_t i = 0; i < std::size(scalars); ++i) {
    arguments[slots.size() + i] = reserve(8 * (i == 0 ? std::max<int64_t>(1, lengths) : 1));
  }
  arguments[slots.size() + std::size(scalars)] = launch.firstStream;
  int64_t counterBytes = (kernel_.counters * cpu::Kernel::counterBytes + 63) / 64 * 64;
  int64_t counters = reserve(counterBytes + kernel_.workspaceBytes);
  int64_t workspace = arguments.back() = counters + counterBytes;
  auto arena = makeMemory(used);
  std::fill_n(arena.get() + counters, counterBytes, uint8_t(0));
  for (size_t i = 0; i < std::size(scalars); ++i) {
    put(arena.get() + arguments[slots.size() + i], scalars[i]);
  }
  for (int64_t i = 0; i < lengths; ++i) {
    put(arena.get() + arguments[slots.size()] + 8 * i, launch.lengths[i]);
  }
  for (unsigned i = 0; i < operandCount; ++i) {
    if (int64_t(launch.operands[i].size()) != slots[i].rows * slots[i].width) {
      ADD_FAILURE() << "operand " << i << ": expected " << slots[i].rows * slots[i].width
                    << " elements, found " << launch.operands[i].size();
      return {};
    }
    forElements(slots[i], [&](int64_t index, int64_t offset) {
      store(arena.get() + arguments[i] + offset, slots[i].type, launch.operands[i][index]);
    });
  }
  std::vector<uint8_t> before(arena.get(), arena.get() + used);
  std::vector<int64_t> order(items_);
  std::iota(order.begin(), order.end(), 0);
  int64_t each = items_ / kernel_.phases; // items of a phase, in any order
  if (launch.shuffle) {
    std::mt19937 random(launch.shuffle);
    for (int64_t first = 0; first < items_; first += each) {
      std::shuffle(order.begin() + first, order.begin() + first + each, random);
    }
  }
  std::barrier phase(launch.threads);
  auto work = [&](unsigned thread) {
    auto scratch = makeMemory(kernel_.scratchBytes);
    for (int64_t first = 0; first < items_; first += each, phase.arrive_and_wait()) {
      for (int64_t i = thread; i < each; i += launch.threads) {
        function(arena.get(), arguments.data(), order[size_t(first + i)], scratch.get());
      }
    }
    EXPECT_EQ(get<float>(scratch.get() + (kernel_.scratchBytes + 63) / 64 * 64), garbage)
        << "scratch overrun";
  };
  std::vector<std::thread> helpers;
  for (unsigned thread = 1; thread < launch.threads; ++thread) {
    helpers.emplace_back(work, thread);
  }
  work(0);
  for (std::thread &helper : helpers) {
    helper.join();
  }
  if (observer) {
    std::vector<const void *> given, made;
    for (size_t i = 0; i < slots.size(); ++i) {
      bool isOperand = i < operandCount;
      (isOperand ? given : made)
          .push_back((isOperand ? before.data() : arena.get()) + arguments[i]);
    }
    observer(given, made);
  }
  std::vector<std::vector<float>> results;
  for (size_t i = operandCount; i < slots.size(); ++i) {
    results.emplace_back(slots[i].rows * slots[i].width);
    forElements(slots[i], [&](int64_t index, int64_t offset) {
      results.back()[index] = ::load(arena.get() + arguments[i] + offset, slots[i].type);
    });
    std::copy_n(arena.get() + arguments[i], slots[i].bytes(), before.begin() + arguments[i]);
  }
  std::copy_n(arena.get() + workspace, kernel_.workspaceBytes, before.begin() + workspace);
  auto differing = std::mismatch(before.begin(), before.end(), arena.get());
  EXPECT_TRUE(differing.first == before.end())
      << "a write outside the results, at arena byte " << differing.first - before.begin();
  return results;
}

bool LoadedKernel::runs(const cpu::Target &target) {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  for (const char *feature : {"avx2", "fma", "bmi2"}) {
    if (!features.lookup(feature)) {
      return false;
    }
  }
  if (target.lanes < 16) {
    return true;
  }
  for (const char *feature : {"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd"}) {
    if (!features.lookup(feature)) {
      return false;
    }
  }
  SmallVector<StringRef> names;
  target.features.split(names, ',');
  return llvm::all_of(
      names, [&](StringRef name) { return !name.consume_front("+") || features.lookup(name); });
}

std::vector<const cpu::Target *> test::pairTargets() {
  if (!LoadedKernel::runs(cpu::Target::avx512())) {
    return {};
  }
  if (hasTiles() && !requestTiles()) {
    return {&cpu::Target::avx512Bf16()};
  }
  emulateMissingInstructions();
  return {&cpu::Target::avx512Bf16(), &cpu::Target::amx()};
}

bool test::hasPairs() { return llvm::sys::getHostCPUFeatures().lookup("avx512bf16"); }

std::vector<const cpu::Target *> test::wholeTargets() {
  std::vector<const cpu::Target *> result = targets();
  if (LoadedKernel::runs(cpu::Target::avx512Vnni())) {
    result.push_back(&cpu::Target::avx512Vnni());
  }
  return result;
}

std::vector<const cpu::Target *> test::targets() {
  std::vector<const cpu::Target *> result;
  for (const cpu::Target *target : {&cpu::Target::avx2(), &cpu::Target::avx512()}) {
    if (LoadedKernel::runs(*target)) {
      result.push_back(target);
    }
  }
  return result;
}

void test::expectEqualForAnyL2(llvm::StringRef text, const KernelInputs &launch,
                               const KernelGenerator &generator) {
  for (const cpu::Target *target : targets()) {
    cpu::Target small = *target, large = *target;
    small.l2Bytes = 256 << 10;
    large.l2Bytes = 2 << 20;
    LoadedKernel first(text, small, generator), other(text, large, generator);
    ASSERT_TRUE(first.loaded() && other.loaded());
    EXPECT_GT(first.items(), other.items());
    EXPECT_TRUE(first.run(launch) == other.run(launch)) << target->name.str();
  }
}
