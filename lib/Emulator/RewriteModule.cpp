// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The module of a GPU kernel, made native: parameters, shared memory, tables, the way in.
#include "Rewriter.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"

using namespace llvm;
using namespace sluice::emulator;

void Rewriter::describeKernel() {
  program.kernel = kernel->getName().str();
  for (Argument &argument : kernel->args()) {
    Parameter parameter;
    parameter.name = argument.hasName() ? argument.getName().str()
                                        : "parameter " + std::to_string(argument.getArgNo());
    parameter.pointer = argument.getType()->isPointerTy() && !argument.hasByValAttr();
    parameter.noAlias = argument.hasNoAliasAttr();
    parameter.readOnly = argument.onlyReadsMemory();
    parameter.align = argument.getParamAlign().valueOrOne().value();
    program.parameters.push_back(std::move(parameter));
  }
  for (StringRef part : split(kernel->getFnAttribute("nvvm.reqntid").getValueAsString(), ',')) {
    uint32_t threads = 0;
    if (!part.empty() && !part.trim().getAsInteger(10, threads)) {
      program.requiredThreads.push_back(threads);
    }
  }
}

/// Other kernels of the module need not be emulable.
void Rewriter::dropOthers() {
  SetVector<Function *> reached;
  reached.insert(kernel);
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
  functions.assign(reached.begin(), reached.end());
  for (const char *list : {"llvm.used", "llvm.compiler.used"}) {
    if (GlobalVariable *used = module.getNamedGlobal(list)) {
      used->eraseFromParent();
    }
  }
}

/// Every global is at an odd multiple of the alignment that it claims, a gap after the one
/// before: an access that claims more is caught, and so is one that runs into the next global.
Error Rewriter::placeShared() {
  constexpr uint64_t gap = 16, mostStatic = 48 * 1024;
  SmallVector<GlobalVariable *> globals;
  auto sizeOf = [&](GlobalVariable *global) {
    return module.getDataLayout().getTypeAllocSize(global->getValueType()).getFixedValue();
  };
  for (bool dynamic : {false, true}) {
    for (GlobalVariable &global : module.globals()) {
      if (global.getAddressSpace() == 3 && !global.use_empty() &&
          (sizeOf(&global) == 0) == dynamic) {
        globals.push_back(&global);
      }
    }
  }
  uint64_t cursor = 0, total = 0;
  for (GlobalVariable *global : globals) {
    uint64_t bytes = sizeOf(global);
    uint64_t align = module.getDataLayout()
                         .getValueOrABITypeAlignment(global->getAlign(), global->getValueType())
                         .value();
    cursor = alignTo(cursor + gap, align);
    cursor += cursor / align % 2 == 0 ? align : 0;
    total += bytes;
    program.shared.push_back(
        {global->getName().str(), bytes, align, bytes == 0, arena.begin() + cursor});
    global->replaceAllUsesWith(ConstantExpr::getIntToPtr(
        ConstantInt::get(wide(), arena.begin() + cursor), global->getType()));
    cursor += bytes;
  }
  if (llvm::count_if(program.shared, [](const SharedGlobal &g) { return g.dynamic; }) > 1) {
    return createStringError("kernel '" + program.kernel +
                             "': expected one array of dynamic shared memory: on a GPU several lie "
                             "at one address");
  }
  if (total > mostStatic || cursor > SharedArena::bytes) {
    return createStringError("kernel '" + program.kernel + "': expected at most " +
                             Twine(mostStatic) + " bytes of static shared memory, found " +
                             Twine(total) + "; use dynamic shared memory");
  }
  return Error::success();
}

void Rewriter::exposeTables() {
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

/// Inline: a call would cost more than most blocks do. One thread of the machine runs a launch, so
/// that plain additions count.
void Rewriter::countBlocks() {
  auto *type = ArrayType::get(wide(), program.blocks.size());
  auto *counts = new GlobalVariable(module, type, false, GlobalValue::ExternalLinkage,
                                    ConstantAggregateZero::get(type), countsName);
  uint64_t number = 0;
  for (Function *function : functions) {
    for (BasicBlock &block : *function) {
      IRBuilder<> builder(&block, block.getFirstInsertionPt());
      Value *count = builder.CreateConstInBoundsGEP2_64(type, counts, 0, number++);
      builder.CreateStore(builder.CreateAdd(builder.CreateLoad(wide(), count), builder.getInt64(1)),
                          count);
    }
  }
}

void Rewriter::addEntry() {
  LLVMContext &context = module.getContext();
  auto *type = FunctionType::get(Type::getVoidTy(context), {PointerType::get(context, 0)}, false);
  Function *entry = Function::Create(type, GlobalValue::ExternalLinkage, entryName, module);
  IRBuilder<> builder(BasicBlock::Create(context, "", entry));
  SmallVector<Value *> arguments;
  for (auto [i, argument] : enumerate(kernel->args())) {
    Value *slot = builder.CreateConstInBoundsGEP1_64(wide(), entry->getArg(0), i);
    if (argument.getType()->isPointerTy()) {
      arguments.push_back(
          builder.CreateIntToPtr(builder.CreateLoad(wide(), slot), argument.getType()));
    } else {
      arguments.push_back(builder.CreateLoad(argument.getType(), slot));
    }
  }
  builder.CreateCall(kernel, arguments);
  builder.CreateRetVoid();
}

/// Attributes for the NVPTX backend, or such that would let this machine's backend assume the
/// properties under test.
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

Expected<Program> Rewriter::run(StringRef kernelName) {
  kernel = module.getFunction(kernelName);
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
  for (ArrayRef<Builtin> family : builtins()) {
    for (const Builtin &builtin : family) {
      known[builtin.name] = &builtin;
    }
  }
  program.sites.emplace_back();
  describeKernel();
  dropOthers();
  slots = std::make_unique<ModuleSlotTracker>(&module, false);
  for (Function *function : functions) {
    if (Error error = rewriteFunction(*function)) {
      return std::move(error);
    }
  }
  if (Error error = placeShared()) {
    return std::move(error);
  }
  exposeTables();
  countBlocks();
  addEntry();
  for (Function *function : functions) {
    strip(*function);
  }
  module.setModuleInlineAsm("");
  return std::move(program);
}

Expected<Program> sluice::emulator::rewrite(Module &module, StringRef kernel,
                                            const SharedArena &arena) {
  return Rewriter(module, arena).run(kernel);
}
