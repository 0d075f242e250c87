// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CUDA threads as threads of this machine.
#include "CudaEmulator.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/Support/TargetSelect.h"
#include "gtest/gtest.h"
#include <barrier>
#include <bit>
#include <thread>

using namespace sluice;
using namespace sluice::test;

namespace {

struct Lane {
  uint32_t a[4], b[2];
  float value;
};

struct Warp {
  std::barrier<> meet{cuda::threadsPerWarp};
  Lane lanes[cuda::threadsPerWarp];
};

thread_local Warp *warp = nullptr;
thread_local int32_t thread = 0, block = 0;

int32_t threadNumber() { return thread; }
int32_t blockNumber() { return block; }
void meet(uint32_t) { warp->meet.arrive_and_wait(); }

float shuffle(uint32_t, float value, uint32_t distance, uint32_t) {
  uint32_t lane = thread % cuda::threadsPerWarp;
  warp->lanes[lane].value = value;
  warp->meet.arrive_and_wait();
  float other = warp->lanes[lane ^ distance].value;
  warp->meet.arrive_and_wait();
  return other;
}

float half(uint32_t two, int which) {
  return std::bit_cast<float>(which ? two & 0xffff0000u : two << 16);
}

/// A[row, k] and B[k, column] of m16n8k16, from the lanes and registers that hold them.
float elementA(int row, int k) {
  return half(warp->lanes[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2], k % 2);
}
float elementB(int k, int column) {
  return half(warp->lanes[column * 4 + k % 8 / 2].b[k / 8], k % 2);
}

void multiply(float *out, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
              uint32_t b1, float c0, float c1, float c2, float c3) {
  int lane = thread % cuda::threadsPerWarp;
  warp->lanes[lane] = {{a0, a1, a2, a3}, {b0, b1}, 0};
  warp->meet.arrive_and_wait();
  const float sums[4] = {c0, c1, c2, c3};
  for (int i = 0; i < 4; ++i) {
    out[i] = sums[i];
    for (int k = 0; k < 16; ++k) {
      out[i] += elementA(lane / 4 + i / 2 * 8, k) * elementB(k, lane % 4 * 2 + i % 2);
    }
  }
  warp->meet.arrive_and_wait();
}

/// What x86 without bf16 instructions calls: to nearest, ties to even.
__bf16 truncate(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  bits += 0x7fff + (bits >> 16 & 1);
  return std::bit_cast<__bf16>(static_cast<uint16_t>(bits >> 16));
}

struct Replacement {
  llvm::Intrinsic::ID intrinsic;
  const char *name;
  void *function;
};

const Replacement replacements[] = {
    {llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, "emulated_thread",
     reinterpret_cast<void *>(threadNumber)},
    {llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, "emulated_block",
     reinterpret_cast<void *>(blockNumber)},
    {llvm::Intrinsic::nvvm_bar_warp_sync, "emulated_meet", reinterpret_cast<void *>(meet)},
    {llvm::Intrinsic::nvvm_shfl_sync_bfly_f32, "emulated_shuffle",
     reinterpret_cast<void *>(shuffle)},
    {llvm::Intrinsic::nvvm_mma_m16n8k16_row_col_bf16, "emulated_multiply",
     reinterpret_cast<void *>(multiply)}};

/// Calls `name` instead. A struct comes back through memory, for C and LLVM return structs
/// differently.
void replaceCalls(llvm::Function &intrinsic, const char *name) {
  llvm::FunctionType *type = intrinsic.getFunctionType();
  auto *aggregate = llvm::dyn_cast<llvm::StructType>(type->getReturnType());
  llvm::SmallVector<llvm::Type *> parameters(type->params());
  if (aggregate) {
    parameters.insert(parameters.begin(), llvm::PointerType::get(type->getContext(), 0));
    type = llvm::FunctionType::get(llvm::Type::getVoidTy(type->getContext()), parameters, false);
  }
  llvm::FunctionCallee callee = intrinsic.getParent()->getOrInsertFunction(name, type);
  for (llvm::User *user : llvm::make_early_inc_range(intrinsic.users())) {
    auto *call = llvm::cast<llvm::CallInst>(user);
    llvm::IRBuilder<> builder(call);
    llvm::SmallVector<llvm::Value *> arguments(call->args());
    llvm::Value *result = nullptr;
    if (aggregate) {
      llvm::IRBuilder<> entry(&call->getFunction()->getEntryBlock().front());
      llvm::Value *memory = entry.CreateAlloca(aggregate);
      arguments.insert(arguments.begin(), memory);
      builder.CreateCall(callee, arguments);
      result = builder.CreateLoad(aggregate, memory);
    } else {
      result = builder.CreateCall(callee, arguments);
    }
    call->replaceAllUsesWith(result);
    call->eraseFromParent();
  }
  intrinsic.eraseFromParent();
}

llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>>
compile(std::unique_ptr<llvm::Module> module, std::unique_ptr<llvm::LLVMContext> context) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit) {
    return jit.takeError();
  }
  llvm::orc::SymbolMap symbols;
  auto define = [&](const char *name, void *function) {
    symbols[(*jit)->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function),
                                              llvm::JITSymbolFlags::Exported};
  };
  for (const Replacement &replacement : replacements) {
    define(replacement.name, replacement.function);
  }
  define("__truncsfbf2", reinterpret_cast<void *>(truncate));
  if (llvm::Error error = (*jit)->getMainJITDylib().define(llvm::orc::absoluteSymbols(symbols))) {
    return error;
  }
  if (llvm::Error error =
          (*jit)->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context)))) {
    return error;
  }
  return jit;
}

} // namespace

EmulatedKernel::EmulatedKernel(std::unique_ptr<llvm::Module> module,
                               std::unique_ptr<llvm::LLVMContext> context, llvm::StringRef name) {
  load(std::move(module), std::move(context), name);
}

EmulatedKernel::~EmulatedKernel() = default;

void EmulatedKernel::load(std::unique_ptr<llvm::Module> module,
                          std::unique_ptr<llvm::LLVMContext> context, llvm::StringRef name) {
  for (llvm::Function &function : llvm::make_early_inc_range(*module)) {
    const auto *found = llvm::find_if(replacements, [&](const Replacement &each) {
      return each.intrinsic == function.getIntrinsicID();
    });
    if (function.isIntrinsic() && found != std::end(replacements)) {
      replaceCalls(function, found->name);
    } else {
      ASSERT_FALSE(function.getName().starts_with("llvm.nvvm."))
          << "not emulated: " << function.getName().str();
    }
  }
  auto compiled = compile(std::move(module), std::move(context));
  ASSERT_TRUE(bool(compiled)) << llvm::toString(compiled.takeError());
  jit = std::move(*compiled);
  auto address = jit->lookup(name);
  ASSERT_TRUE(bool(address)) << llvm::toString(address.takeError());
  entry = address->toPtr<decltype(entry)>();
}

void EmulatedKernel::runBlock(int64_t number, uint8_t *arena, const int64_t *arguments) const {
  Warp warps[cuda::threadsPerBlock / cuda::threadsPerWarp];
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < cuda::threadsPerBlock; ++i) {
    threads.emplace_back([this, number, arena, arguments, i, &warps] {
      warp = &warps[i / cuda::threadsPerWarp];
      thread = i;
      block = static_cast<int32_t>(number);
      entry(arena, arguments);
    });
  }
  for (std::thread &each : threads) {
    each.join();
  }
}
