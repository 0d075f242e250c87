// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// State of rewriting a module.
#pragma once

#include "Builtins.h"
#include "Program.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/ModuleSlotTracker.h"

namespace sluice::emulator {

/// Rewrite.cpp goes from instruction to instruction, RewriteModule.cpp rewrites their surroundings.
class Rewriter {
public:
  Rewriter(llvm::Module &module, const SharedArena &arena) : module(module), arena(arena) {}
  llvm::Expected<Program> run(llvm::StringRef kernelName);

private:
  // RewriteModule.cpp
  void describeKernel();
  void dropOthers();
  llvm::Error placeShared();
  void exposeTables();
  void countBlocks();
  void addEntry();

  // Rewrite.cpp
  void describeBlock(llvm::BasicBlock &block);
  llvm::Error checkStack(llvm::Function &function);
  llvm::Error rewriteFunction(llvm::Function &function);
  llvm::Error rewriteInstruction(llvm::Instruction &instruction);
  llvm::Error rewriteCall(llvm::CallBase &call);
  void callBuiltin(llvm::CallBase &call, const Builtin &builtin);
  void announceRange(llvm::MemIntrinsic &intrinsic);
  void announce(llvm::Instruction &instruction, llvm::Value *pointer, llvm::Type *type,
                llvm::Align align);
  void announceFence(llvm::FenceInst &fence);
  Scope scopeOf(llvm::SyncScope::ID scope) const;
  uint32_t addSite(llvm::Instruction &instruction);

  llvm::Error refuse(const llvm::Instruction &instruction, const llvm::Twine &expected) {
    return llvm::createStringError("kernel '" + program.kernel + "': expected " + expected +
                                   ", found '" + text(instruction) + "'");
  }
  const std::string &text(const llvm::Instruction &instruction) { return texts[&instruction]; }
  llvm::IntegerType *wide() { return llvm::Type::getInt64Ty(module.getContext()); }
  llvm::IntegerType *narrow() { return llvm::Type::getInt32Ty(module.getContext()); }

  llvm::Module &module;
  const SharedArena &arena;
  Program program;
  llvm::Function *kernel = nullptr;
  llvm::SmallVector<llvm::Function *> functions; ///< the kernel and its callees
  std::unique_ptr<llvm::ModuleSlotTracker> slots;
  llvm::DenseMap<const llvm::Instruction *, std::string> texts;
  llvm::StringMap<const Builtin *> known;
};

} // namespace sluice::emulator
