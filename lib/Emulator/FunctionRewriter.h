// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replaces the instructions of a GPU kernel that this machine cannot execute.
#pragma once

#include "Builtins/Builtins.h"
#include "ProductAssembly.h"
#include "Program.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/ModuleSlotTracker.h"

namespace sluice::emulator {

/// Makes functions of a module executable on the host: intrinsics and inline assembly become calls
/// of builtins, and a call precedes each memory access. Adds their sites and blocks to a program.
class FunctionRewriter {
public:
  FunctionRewriter(llvm::Module &module, Program &program);
  llvm::Error rewrite(llvm::Function &function);

private:
  void describeBlock(llvm::BasicBlock &block);
  llvm::Error checkStack(llvm::Function &function);
  llvm::Error rewriteInstruction(llvm::Instruction &instruction);
  llvm::Error rewriteCall(llvm::CallBase &call);
  llvm::Error checkProducts(llvm::Function &function);
  void callProduct(llvm::CallBase &call, const ProductAssembly &form);
  llvm::CallInst *createCall(llvm::IRBuilder<> &builder, const std::string &name,
                             llvm::Type *returned, llvm::ArrayRef<llvm::Value *> arguments);
  void callBuiltin(llvm::CallBase &call, const Builtin &builtin);
  void announceRange(llvm::MemIntrinsic &intrinsic);
  void announce(llvm::Instruction &instruction, llvm::Value *pointer, llvm::Type *type,
                llvm::Align align);
  void announceFence(llvm::FenceInst &fence);
  uint32_t addSite(llvm::Instruction &instruction);
  llvm::Error refuse(const llvm::Instruction &instruction, const llvm::Twine &expected);
  llvm::IntegerType *getWideType() { return llvm::Type::getInt64Ty(module.getContext()); }
  llvm::IntegerType *getNarrowType() { return llvm::Type::getInt32Ty(module.getContext()); }

  llvm::Module &module;
  Program &program;
  llvm::ModuleSlotTracker slots;
  llvm::DenseMap<const llvm::Instruction *, std::string> texts;
  llvm::StringMap<const Builtin *> known;
};

} // namespace sluice::emulator
