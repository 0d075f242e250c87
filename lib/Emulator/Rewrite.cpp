// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rewrites the module of a GPU kernel to native code: parameters, shared memory, tables, the entry.
#include "Rewrite.h"

#include "FunctionRewriter.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"

using namespace llvm;
using namespace sluice::emulator;

static IntegerType *getWideType(Module &module) { return Type::getInt64Ty(module.getContext()); }

static void describeKernel(const Function &kernel, Program &program) {
  program.kernel = kernel.getName().str();
  for (const Argument &argument : kernel.args()) {
    Parameter parameter;
    parameter.name = argument.hasName() ? argument.getName().str()
                                        : "parameter " + std::to_string(argument.getArgNo());
    parameter.pointer = argument.getType()->isPointerTy() && !argument.hasByValAttr();
    parameter.noAlias = argument.hasNoAliasAttr();
    parameter.readOnly = argument.onlyReadsMemory();
    parameter.align = argument.getParamAlign().valueOrOne().value();
    program.parameters.push_back(std::move(parameter));
  }
  for (StringRef part : split(kernel.getFnAttribute("nvvm.reqntid").getValueAsString(), ',')) {
    uint32_t threads = 0;
    if (!part.empty() && !part.trim().getAsInteger(10, threads)) {
      program.requiredThreads.push_back(threads);
    }
  }
}

/// Deletes other kernels, which the emulator may not support. Returns the kernel and the functions
/// that it calls.
static SmallVector<Function *> dropOthers(Module &module, Function &kernel) {
  SetVector<Function *> reached;
  reached.insert(&kernel);
  for (size_t i = 0; i < reached.size(); ++i) {
    for (Instruction &instruction : instructions(*reached[i])) {
      auto *call = dyn_cast<CallBase>(&instruction);
      Function *callee = call ? call->getCalledFunction() : nullptr;
      if (callee && !callee->isDeclaration()) {
        reached.insert(callee);
      }
    }
  }
  for (Function &function : module) {
    if (!function.isDeclaration() && !reached.contains(&function)) {
      function.deleteBody();
    }
  }
  for (const char *list : {"llvm.used", "llvm.compiler.used"}) {
    if (GlobalVariable *used = module.getNamedGlobal(list)) {
      used->eraseFromParent();
    }
  }
  return SmallVector<Function *>(reached.begin(), reached.end());
}

/// Places every global at an odd multiple of its declared alignment, with a gap between globals.
/// This detects accesses that assume a greater alignment, or that reach the next global.
static Error placeShared(Module &module, const SharedArena &arena, Program &program) {
  constexpr uint64_t gap = 16, mostStatic = 48 * 1024;
  SmallVector<GlobalVariable *> globals;
  auto getSize = [&](GlobalVariable *global) {
    return module.getDataLayout().getTypeAllocSize(global->getValueType()).getFixedValue();
  };
  for (bool dynamic : {false, true}) {
    for (GlobalVariable &global : module.globals()) {
      if (global.getAddressSpace() == 3 && !global.use_empty() &&
          (getSize(&global) == 0) == dynamic) {
        globals.push_back(&global);
      }
    }
  }
  uint64_t cursor = 0, total = 0;
  for (GlobalVariable *global : globals) {
    uint64_t bytes = getSize(global);
    uint64_t align = module.getDataLayout()
                         .getValueOrABITypeAlignment(global->getAlign(), global->getValueType())
                         .value();
    cursor = alignTo(cursor + gap, align);
    cursor += cursor / align % 2 == 0 ? align : 0;
    total += bytes;
    program.shared.push_back(
        {global->getName().str(), bytes, align, bytes == 0, arena.begin() + cursor});
    global->replaceAllUsesWith(ConstantExpr::getIntToPtr(
        ConstantInt::get(getWideType(module), arena.begin() + cursor), global->getType()));
    cursor += bytes;
  }
  if (llvm::count_if(program.shared, [](const SharedGlobal &g) { return g.dynamic; }) > 1) {
    return createStringError(
        "kernel '" + program.kernel +
        "': expected one array of dynamic shared memory: on a GPU several have one address");
  }
  if (total > mostStatic || cursor > SharedArena::bytes) {
    return createStringError("kernel '" + program.kernel + "': expected at most " +
                             Twine(mostStatic) + " bytes of static shared memory, found " +
                             Twine(total) + "; use dynamic shared memory");
  }
  return Error::success();
}

/// Gives constant tables external symbols.
static void exposeTables(Module &module, Program &program) {
  for (GlobalVariable &global : module.globals()) {
    if (global.getAddressSpace() == 3 || global.isDeclaration() || global.use_empty()) {
      continue;
    }
    std::string symbol = "emulator.table." + std::to_string(program.tables.size());
    program.tables.push_back(
        {global.getName().str(), symbol,
         module.getDataLayout().getTypeAllocSize(global.getValueType()).getFixedValue(),
         global.isConstant()});
    global.setName(symbol);
    global.setLinkage(GlobalValue::ExternalLinkage);
    global.setVisibility(GlobalValue::DefaultVisibility);
  }
}

/// Counts entries of basic blocks, inline: a call would cost more than most blocks. One thread of
/// the machine runs a launch, so plain additions suffice.
static void countBlocks(Module &module, ArrayRef<Function *> functions, size_t blocks) {
  auto *type = ArrayType::get(getWideType(module), blocks);
  auto *counts = new GlobalVariable(module, type, false, GlobalValue::ExternalLinkage,
                                    ConstantAggregateZero::get(type), countsName);
  uint64_t number = 0;
  for (Function *function : functions) {
    for (BasicBlock &block : *function) {
      IRBuilder<> builder(&block, block.getFirstInsertionPt());
      Value *count = builder.CreateConstInBoundsGEP2_64(type, counts, 0, number++);
      builder.CreateStore(
          builder.CreateAdd(builder.CreateLoad(getWideType(module), count), builder.getInt64(1)),
          count);
    }
  }
}

/// Adds a function that calls the kernel with arguments from an array of 64-bit values.
static void addEntry(Module &module, Function &kernel) {
  LLVMContext &context = module.getContext();
  auto *type = FunctionType::get(Type::getVoidTy(context), {PointerType::get(context, 0)}, false);
  Function *entry = Function::Create(type, GlobalValue::ExternalLinkage, entryName, module);
  IRBuilder<> builder(BasicBlock::Create(context, "", entry));
  SmallVector<Value *> arguments;
  for (auto [i, argument] : enumerate(kernel.args())) {
    Value *slot = builder.CreateConstInBoundsGEP1_64(getWideType(module), entry->getArg(0), i);
    if (argument.getType()->isPointerTy()) {
      arguments.push_back(builder.CreateIntToPtr(builder.CreateLoad(getWideType(module), slot),
                                                 argument.getType()));
    } else {
      arguments.push_back(builder.CreateLoad(argument.getType(), slot));
    }
  }
  builder.CreateCall(&kernel, arguments);
  builder.CreateRetVoid();
}

/// Removes hints for the NVPTX backend, and attributes that would let this machine's backend assume
/// properties that the emulator checks.
static void strip(Function &function) {
  function.setAttributes(AttributeList());
  function.setCallingConv(CallingConv::C);
  function.setComdat(nullptr);
  for (Instruction &instruction : instructions(function)) {
    auto *call = dyn_cast<CallInst>(&instruction);
    if (call && call->getCalledFunction() && !call->getCalledFunction()->isDeclaration()) {
      call->setAttributes(AttributeList());
      call->setCallingConv(CallingConv::C);
      call->setTailCallKind(CallInst::TCK_None);
    }
  }
}

Expected<Program> sluice::emulator::rewrite(Module &module, StringRef kernelName,
                                            const SharedArena &arena) {
  Function *kernel = module.getFunction(kernelName);
  if (!kernel || kernel->isDeclaration()) {
    return createStringError("expected a module that defines kernel '" + kernelName +
                             "', found none");
  }
  for (Argument &argument : kernel->args()) {
    if (module.getDataLayout().getTypeStoreSize(argument.getType()) > 8) {
      return createStringError("kernel '" + kernelName +
                               "': expected parameters of at most 8 bytes, or pointers");
    }
  }
  Program program;
  program.sites.emplace_back();
  describeKernel(*kernel, program);
  SmallVector<Function *> functions = dropOthers(module, *kernel);
  FunctionRewriter rewriter(module, program);
  for (Function *function : functions) {
    if (Error error = rewriter.rewrite(*function)) {
      return std::move(error);
    }
  }
  if (Error error = placeShared(module, arena, program)) {
    return std::move(error);
  }
  exposeTables(module, program);
  countBlocks(module, functions, program.blocks.size());
  addEntry(module, *kernel);
  for (Function *function : functions) {
    strip(*function);
  }
  module.setModuleInlineAsm("");
  return program;
}
