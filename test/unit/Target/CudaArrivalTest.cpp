// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The last block to arrive, in a shipped kernel: every ordering step between one block's writes and
// another's sum is necessary, and the emulator detects each missing one.
#include "EmulatedKernel.h"
#include "RowsText.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Instructions = std::vector<llvm::Instruction *>;

bool isBarrier(const llvm::Instruction &instruction) {
  auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
  return call && call->getCalledFunction() &&
         call->getCalledFunction()->getName().starts_with("llvm.nvvm.barrier.cta.sync");
}

/// Barrier, fence, arrival, fence, barrier.
Instructions collectInstructions(llvm::Module &module) {
  Instructions all, chain;
  for (llvm::Function &function : module) {
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      if (isBarrier(instruction) || llvm::isa<llvm::FenceInst, llvm::AtomicRMWInst>(instruction)) {
        all.push_back(&instruction);
      }
    }
  }
  for (size_t i = 2; i + 2 < all.size(); ++i) {
    if (llvm::isa<llvm::AtomicRMWInst>(all[i])) {
      chain.assign(all.begin() + ptrdiff_t(i) - 2, all.begin() + ptrdiff_t(i) + 3);
    }
  }
  EXPECT_EQ(chain.size(), 5u);
  return chain;
}

template <size_t Link> void remove(llvm::Module &module) {
  Instructions chain = collectInstructions(module);
  ASSERT_GT(chain.size(), Link);
  ASSERT_TRUE(chain[Link]->use_empty());
  chain[Link]->eraseFromParent();
}

/// Fences and the arrival have block scope only.
template <size_t Link> void narrow(llvm::Module &module) {
  llvm::SyncScope::ID block = module.getContext().getOrInsertSyncScopeID("block");
  Instructions chain = collectInstructions(module);
  ASSERT_GT(chain.size(), Link);
  if (auto *fence = llvm::dyn_cast<llvm::FenceInst>(chain[Link])) {
    fence->setSyncScopeID(block);
  } else {
    llvm::cast<llvm::AtomicRMWInst>(chain[Link])->setSyncScopeID(block);
  }
}

/// The counter wraps one block too late, or too early.
template <int Change> void shift(llvm::Module &module) {
  Instructions chain = collectInstructions(module);
  ASSERT_EQ(chain.size(), 5u);
  auto *arrival = llvm::cast<llvm::AtomicRMWInst>(chain[2]);
  auto *last = llvm::cast<llvm::ConstantInt>(arrival->getValOperand());
  arrival->setOperand(1,
                      llvm::ConstantInt::getSigned(last->getType(), last->getSExtValue() + Change));
}

/// Sums over 3000 rows of 24 columns, in two parts of several blocks each.
std::string sumText() {
  std::string row = tensor({24});
  return rowsText({1, 3000, 0}, {{tensor({1, 3000, 24}), TextAccess{}, row}},
                  {{tensor({2, 24}), TextAccess{.kind = "columns"}}}, "dispatch.yield %a0 : ROW",
                  row);
}

KernelInputs buildLaunch() {
  return {.operands = {randomIntegers(3000 * 24, 1, 9)}, .length = 3000, .rows = 1};
}

Floats expected() {
  Floats rows = buildLaunch().operands[0], sums(48);
  for (size_t i = 0; i < rows.size(); ++i) {
    sums[i / (1500 * 24) * 24 + i % 24] += rows[i];
  }
  return sums;
}

TEST(CudaArrival, LastBlockAddsAllPartialSums) {
  EmulatedKernel cuda(sumText());
  ASSERT_TRUE(cuda.made());
  ASSERT_EQ(cuda.kernel().counters, 2);
  ASSERT_GE(cuda.kernel().stages[0].blocks, 6);
  for (int time = 0; time < 5; ++time) { // each with the blocks in another order
    EXPECT_EQ(cuda.run(getRun(buildLaunch()))[0], expected());
  }
}

TEST(CudaArrival, EveryOrderingStepIsNeeded) {
  for (EmulatedKernel::Edit edit :
       {remove<0>, remove<1>, remove<3>, remove<4>, narrow<1>, narrow<2>, narrow<3>}) {
    EmulatedKernel cuda(sumText(), edit);
    ASSERT_TRUE(cuda.made());
    cuda.run(getRun(buildLaunch()));
    EXPECT_TRUE(llvm::any_of(cuda.reports[0].violations, [](const emulator::Violation &violation) {
      return violation.kind == emulator::ViolationKind::BlockConflict;
    })) << cuda.reports[0].str();
  }
}

TEST(CudaArrival, WrongCounterWrapGivesNoSum) {
  for (EmulatedKernel::Edit edit : {shift<-1>, shift<-2>}) {
    EmulatedKernel cuda(sumText(), edit);
    ASSERT_TRUE(cuda.made());
    EXPECT_NE(cuda.run(getRun(buildLaunch()))[0], expected());
  }
}

} // namespace
