// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the CUDA kernel of a dispatch op on the emulator.
#include "EmulatedKernel.h"
#include "RowsText.h"

#include "sluice/Target/CPU/Generate.h"
#include "sluice/Target/CUDA/PTX/Assemble.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include <random>

using namespace mlir;
using namespace sluice;
using namespace sluice::test;

static constexpr int64_t guardBytes = 1024, bufferAlignment = 64, arenaAlignment = 1024;

CudaRun test::getRun(const KernelInputs &launch) {
  return {.operands = launch.operands,
          .length = launch.length,
          .rows = launch.rows,
          .step = launch.step,
          .seed = launch.seed,
          .firstStream = launch.firstStream,
          .shares = launch.shares,
          .lengths = launch.lengths};
}

EmulatedKernel::EmulatedKernel(const std::string &text, Edit edit, const cuda::Target &target)
    : GeneratedKernel(text, target), edit(edit) {
  if (ready) {
    ready = false;
    describe();
    load();
  }
}

void EmulatedKernel::describe() {
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
}

/// The module with only one kernel.
static std::string printBitcode(llvm::Module &module, StringRef name) {
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

void EmulatedKernel::load() {
  llvm::LLVMContext llvmContext;
  auto lowered = cuda::lowerToLLVM(*kernels, llvmContext);
  ASSERT_TRUE(lowered);
  if (llvm::Error error = cuda::prepare(*lowered, target)) {
    FAIL() << llvm::toString(std::move(error));
  }
  if (edit) {
    edit(*lowered);
  }
  for (cuda::KernelStage &stage : generated.stages) {
    StringRef name = stage.function.getName();
    auto created = emulator::Emulator::create(printBitcode(*lowered, name), name);
    ASSERT_TRUE(bool(created)) << llvm::toString(created.takeError());
    emulators.push_back(std::move(*created));
  }
  ready = true;
}

void EmulatedKernel::put(uint8_t *at, const Slot &slot, float value) const {
  if (!slot.floats) {
    auto integer = static_cast<int64_t>(value);
    std::memcpy(at, &integer, size_t(slot.bytes));
    return;
  }
  float stored = slot.bytes == 2 ? roundedToBf16(value) : value;
  std::memcpy(at, reinterpret_cast<uint8_t *>(&stored) + (4 - slot.bytes), size_t(slot.bytes));
}

float EmulatedKernel::get(const uint8_t *at, const Slot &slot) const {
  int64_t integer = 0;
  if (!slot.floats) {
    std::memcpy(&integer, at, size_t(slot.bytes));
    return slot.bytes == 4   ? float(int32_t(integer))
           : slot.bytes == 1 ? float(int8_t(integer))
                             : float(integer);
  }
  float value = 0;
  std::memcpy(reinterpret_cast<uint8_t *>(&value) + (4 - slot.bytes), at, size_t(slot.bytes));
  return value;
}

/// The memory of one run.
struct EmulatedKernel::Arena {
  std::vector<int64_t> arguments; ///< of the launches: operands, results, scalars, ..., workspace
  std::unique_ptr<uint8_t, decltype(&std::free)> memory{nullptr, std::free};
  int64_t bytes = guardBytes;
  std::vector<emulator::Buffer> buffers; ///< the workspace last

  void reserve(int64_t size) {
    arguments.push_back(bytes);
    bytes += int64_t(llvm::alignTo(size, bufferAlignment)) + guardBytes;
  }
  uint8_t *at(size_t argument) const { return memory.get() + arguments[argument]; }
};

static constexpr size_t scalarCount = 4;

void EmulatedKernel::lay(Arena &arena, const CudaRun &run) const {
  size_t operands = dispatch->getNumOperands();
  for (size_t i = 0; i < slots.size(); ++i) {
    auto shared = i < operands ? run.shares.end() : run.shares.find(unsigned(i - operands));
    if (shared != run.shares.end()) {
      ASSERT_LT(shared->second, operands) << "result " << i - operands << " shares no operand";
      arena.arguments.push_back(arena.arguments[shared->second]);
    } else {
      arena.reserve(slots[i].size());
    }
  }
  for (size_t i = 0; i < scalarCount; ++i) {
    arena.reserve(8 * (i == 0 ? std::max<int64_t>(1, int64_t(run.lengths.size())) : 1));
  }
  arena.arguments.push_back(run.firstStream);
  arena.bytes += int64_t(llvm::alignTo(uint64_t(counterBytes()), bufferAlignment));
  arena.reserve(generated.workspaceBytes);
  arena.memory.reset(static_cast<uint8_t *>(
      std::aligned_alloc(arenaAlignment, llvm::alignTo(uint64_t(arena.bytes), arenaAlignment))));
  std::memset(arena.memory.get(), 0xff, size_t(arena.bytes));
}

/// Writes operands, scalars and the initial contents of results, and names the buffers.
void EmulatedKernel::fill(Arena &arena, const CudaRun &run) const {
  using emulator::Writes;
  size_t operands = dispatch->getNumOperands();
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot &slot = slots[i];
    bool shared = i >= operands && run.shares.count(unsigned(i - operands)) > 0;
    int64_t count = slot.rows * slot.width;
    if (i < operands) {
      ASSERT_EQ(int64_t(run.operands[i].size()), count) << "operand " << i;
    }
    for (int64_t n = 0; n < count && !shared && (i < operands || slot.floats); ++n) {
      put(arena.at(i) + (n / slot.width * slot.stride + n % slot.width) * slot.bytes, slot,
          i < operands ? run.operands[i][size_t(n)] : untouched);
    }
    arena.buffers.push_back({"buffer " + std::to_string(i), arena.at(i), uint64_t(slot.size()),
                             i < operands ? Writes::None : Writes::AtMostOnce,
                             i < operands || shared});
  }
  const int64_t scalars[scalarCount] = {run.length, run.rows, run.step, run.seed};
  for (size_t i = 0; i < scalarCount; ++i) {
    uint8_t *at = arena.at(slots.size() + i);
    std::memcpy(at, &scalars[i], 8);
    size_t bytes = 8;
    if (i == 0 && !run.lengths.empty()) {
      bytes = run.lengths.size() * sizeof(int64_t);
      std::memcpy(at, run.lengths.data(), bytes);
    }
    arena.buffers.push_back({"scalar " + std::to_string(i), at, bytes});
  }
  arena.buffers.push_back({"arguments", arena.arguments.data(), arena.arguments.size() * 8});
  // Counters of arrived blocks precede the workspace, and are zeros between launches.
  uint8_t *counters = arena.at(arena.arguments.size() - 1) - counterBytes();
  std::memset(counters, 0, size_t(counterBytes()));
  arena.buffers.push_back({"counters", counters, uint64_t(counterBytes()), Writes::Any});
  // Parts of sums may be padded, and the last of a row written twice equally; attention's numbers
  // of each query are read with any contents.
  bool whole = isa<dispatch::AttentionBackwardOp>(dispatch);
  arena.buffers.push_back({"workspace", arena.at(arena.arguments.size() - 1),
                           uint64_t(generated.workspaceBytes), whole ? Writes::Once : Writes::Any,
                           false});
}

void EmulatedKernel::launch(Arena &arena, const emulator::Options &options) {
  for (size_t i = 0; i < emulators.size(); ++i) {
    const cuda::KernelStage &stage = generated.stages[i];
    emulator::EmulatedLaunch launch;
    launch.grid = {static_cast<uint32_t>(stage.blocks), 1, 1};
    launch.block = {static_cast<uint32_t>(stage.threads), 1, 1};
    launch.dynamicSharedBytes = uint64_t(stage.sharedBytes);
    launch.arguments = {reinterpret_cast<uint64_t>(arena.memory.get()),
                        reinterpret_cast<uint64_t>(arena.arguments.data())};
    launch.buffers = arena.buffers;
    if (i > 0) {
      // The later launches read the workspace of the first; launches of cross-entropy and of
      // recurrences its results, too.
      launch.buffers.back().writes = emulator::Writes::None;
      launch.buffers.back().initialized = true;
      for (emulator::Buffer &buffer : launch.buffers) {
        buffer.initialized |= isa<dispatch::CrossEntropyOp, dispatch::RecurrenceOp>(dispatch);
      }
    }
    reports.push_back(emulators[i]->launch(launch, options));
    EXPECT_TRUE(edit || reports.back().passed()) << "launch " << i << "\n" << reports.back().str();
  }
}

std::vector<std::vector<float>> EmulatedKernel::run(const CudaRun &run) {
  size_t operands = dispatch ? dispatch->getNumOperands() : 0;
  if (!made() || run.operands.size() != operands) {
    ADD_FAILURE() << "expected " << operands << " operands, found " << run.operands.size();
    return {};
  }
  Arena arena;
  lay(arena, run);
  fill(arena, run);
  std::vector<uint8_t> before(arena.memory.get(), arena.memory.get() + arena.bytes);
  reports.clear();
  ++runs;
  using emulator::Schedule;
  launch(arena, run.options.value_or(emulator::Options{
                    .seed = runs, .schedule = runs % 2 ? Schedule::WarpAlone : Schedule::Random}));
  const uint8_t *counters = arena.at(arena.arguments.size() - 1) - counterBytes();
  EXPECT_TRUE(edit || std::all_of(counters, counters + counterBytes(),
                                  [](uint8_t byte) { return byte == 0; }))
      << "counters that are not zero after the launch";
  std::vector<std::vector<float>> results;
  auto forgive = [&](size_t argument, int64_t bytes) {
    std::copy_n(arena.at(argument), bytes, before.begin() + arena.arguments[argument]);
  };
  for (size_t i = operands; i < slots.size(); ++i) {
    const Slot &slot = slots[i];
    results.emplace_back();
    for (int64_t n = 0; n < slot.rows * slot.width; ++n) {
      int64_t place = n / slot.width * slot.stride + n % slot.width;
      results.back().push_back(get(arena.at(i) + place * slot.bytes, slot));
    }
    forgive(i, slot.size());
  }
  forgive(arena.arguments.size() - 1, generated.workspaceBytes);
  std::copy_n(counters, counterBytes(), before.begin() + (counters - arena.memory.get()));
  EXPECT_TRUE(edit || std::equal(before.begin(), before.end(), arena.memory.get()))
      << "a write outside the results";
  return results;
}

bool test::isUntouched(float value) {
  return value == untouched || value == roundedToBf16(untouched);
}

float test::roundedToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  float rounded;
  std::memcpy(&rounded, &bits, sizeof bits);
  return value == value ? rounded : value;
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
