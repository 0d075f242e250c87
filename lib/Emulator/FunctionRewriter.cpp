// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rewrites the instructions of a GPU kernel for the host.
#include "FunctionRewriter.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace sluice::emulator;

namespace {

/// Inline assembly that MLIR's NVVM dialect emits (LLVM 22), with white space folded.
struct Assembly {
  StringRef text, constraints, builtin;
};
const Assembly knownAssembly[] = {
    {"bar.arrive $0, $1;", "r,r", "barrier.cta.arrive.aligned.count"},
    {"bar.arrive 0, $0;", "r", "asm.barrier.arrive.0"},
    {"{ .reg .pred P1; LAB_WAIT: mbarrier.try_wait.parity.shared.b64 P1, [$0], $1, $2; @P1 "
     "bra.uni DONE; bra.uni LAB_WAIT; DONE: }",
     "r,r,r", "asm.mbarrier.wait.parity"},
    {"{ .reg .pred P1; LAB_WAIT: mbarrier.try_wait.parity.b64 P1, [$0], $1, $2; @P1 bra.uni "
     "DONE; bra.uni LAB_WAIT; DONE: }",
     "l,r,r", "asm.mbarrier.wait.parity"},
};

} // namespace

static std::string print(const Instruction &instruction, ModuleSlotTracker &slots) {
  std::string result;
  raw_string_ostream stream(result);
  instruction.print(stream, slots);
  StringRef line(result);
  return line.substr(0, line.find(", !")).trim().str();
}

FunctionRewriter::FunctionRewriter(Module &module, Program &program)
    : module(module), program(program), slots(&module, false) {
  for (ArrayRef<Builtin> family : builtins()) {
    for (const Builtin &builtin : family) {
      known[builtin.name] = &builtin;
    }
  }
}

Error FunctionRewriter::refuse(const Instruction &instruction, const Twine &expected) {
  return createStringError("kernel '" + program.kernel + "': expected " + expected + ", found '" +
                           texts[&instruction] + "'");
}

uint32_t FunctionRewriter::addSite(Instruction &instruction) {
  Site site;
  site.text = texts[&instruction];
  if (const DebugLoc &at = instruction.getDebugLoc()) {
    site.location = (cast<DIScope>(at->getScope())->getFilename() + ":" + Twine(at->getLine()) +
                     ":" + Twine(at->getColumn()))
                        .str();
  }
  program.sites.push_back(std::move(site));
  return static_cast<uint32_t>(program.sites.size() - 1);
}

static AtomicOrdering getOrdering(const Instruction &instruction) {
  if (const auto *load = dyn_cast<LoadInst>(&instruction)) {
    return load->getOrdering();
  }
  if (const auto *store = dyn_cast<StoreInst>(&instruction)) {
    return store->getOrdering();
  }
  if (const auto *update = dyn_cast<AtomicRMWInst>(&instruction)) {
    return update->getOrdering();
  }
  return cast<AtomicCmpXchgInst>(instruction).getMergedOrdering();
}

/// Returns the scope of an atomic or fence. The emulator has no clusters: their scope is a block.
static Scope getScope(const LLVMContext &context, SyncScope::ID scope) {
  SmallVector<StringRef> names;
  context.getSyncScopeNames(names);
  StringRef name = names[scope];
  return name.empty() || name == "device" ? Scope::Device
         : name == "singlethread"         ? Scope::Thread
                                          : Scope::Block;
}

/// Inserts a call before every access that may leave the thread's own stack.
void FunctionRewriter::announce(Instruction &instruction, Value *pointer, Type *type, Align align) {
  if (isa<AllocaInst>(getUnderlyingObject(pointer))) {
    return;
  }
  uint32_t number = addSite(instruction);
  Site &site = program.sites[number];
  site.bytes = static_cast<uint32_t>(module.getDataLayout().getTypeStoreSize(type));
  site.align = static_cast<uint32_t>(align.value());
  site.reads = !isa<StoreInst>(instruction);
  site.writes = !isa<LoadInst>(instruction);
  AtomicOrdering ordering = getOrdering(instruction);
  if (std::optional<SyncScope::ID> scope = getAtomicSyncScopeID(&instruction)) {
    site.scope = getScope(module.getContext(), *scope);
  }
  site.atomic = isStrongerThanUnordered(ordering) && site.scope != Scope::Thread;
  site.acquires = site.atomic && isAcquireOrStronger(ordering) && site.reads;
  site.releases = site.atomic && isReleaseOrStronger(ordering) && site.writes;
  IRBuilder<> builder(&instruction);
  FunctionCallee callee = module.getOrInsertFunction("emulator.access", builder.getVoidTy(),
                                                     getWideType(), getNarrowType());
  builder.CreateCall(callee,
                     {builder.CreatePtrToInt(pointer, getWideType()), builder.getInt32(number)});
}

void FunctionRewriter::announceFence(FenceInst &fence) {
  uint32_t number = addSite(fence);
  Site &site = program.sites[number];
  site.scope = getScope(module.getContext(), fence.getSyncScopeID());
  site.acquires = isAcquireOrStronger(fence.getOrdering());
  site.releases = isReleaseOrStronger(fence.getOrdering());
  IRBuilder<> builder(&fence);
  FunctionCallee callee =
      module.getOrInsertFunction("emulator.fence", builder.getVoidTy(), getNarrowType());
  builder.CreateCall(callee, {builder.getInt32(number)});
}

void FunctionRewriter::announceRange(MemIntrinsic &intrinsic) {
  IRBuilder<> builder(&intrinsic);
  FunctionCallee callee = module.getOrInsertFunction("emulator.range", builder.getVoidTy(),
                                                     getWideType(), getWideType(), getNarrowType());
  auto add = [&](Value *pointer, MaybeAlign align, bool writes) {
    uint32_t number = addSite(intrinsic);
    Site &site = program.sites[number];
    site.align = static_cast<uint32_t>(align.valueOrOne().value());
    site.reads = !writes;
    site.writes = writes;
    builder.CreateCall(callee, {builder.CreatePtrToInt(pointer, getWideType()),
                                builder.CreateZExtOrTrunc(intrinsic.getLength(), getWideType()),
                                builder.getInt32(number)});
  };
  if (auto *transfer = dyn_cast<MemTransferInst>(&intrinsic)) {
    add(transfer->getRawSource(), transfer->getSourceAlign(), false);
  }
  add(intrinsic.getRawDest(), intrinsic.getDestAlign(), true);
}

/// Converts a value to the type that C passes: see Builtins.h.
static Value *toArgument(IRBuilder<> &builder, Value *value) {
  Type *type = value->getType();
  if (type->isPointerTy()) {
    return builder.CreatePtrToInt(value, builder.getInt64Ty());
  }
  if (type->isVectorTy() || type->isHalfTy() || type->isBFloatTy()) {
    value = builder.CreateBitCast(value, builder.getIntNTy(type->getPrimitiveSizeInBits()));
  }
  if (value->getType()->isIntegerTy() && value->getType()->getIntegerBitWidth() < 32) {
    return builder.CreateZExt(value, builder.getInt32Ty());
  }
  return value;
}

static Type *resultType(IRBuilder<> &builder, Type *type) {
  if (type->isVoidTy() || type->isFloatTy() || type->isDoubleTy()) {
    return type;
  }
  return type->isPointerTy() || type->getPrimitiveSizeInBits() == 64 ? builder.getInt64Ty()
                                                                     : builder.getInt32Ty();
}

static Value *fromResult(IRBuilder<> &builder, Value *value, Type *type) {
  if (value->getType() == type) {
    return value;
  }
  if (type->isPointerTy()) {
    return builder.CreateIntToPtr(value, type);
  }
  Type *bits = builder.getIntNTy(type->getPrimitiveSizeInBits());
  return builder.CreateBitCast(builder.CreateTrunc(value, bits), type);
}

CallInst *FunctionRewriter::createCall(IRBuilder<> &builder, const std::string &name,
                                       Type *returned, ArrayRef<Value *> arguments) {
  SmallVector<Type *> types(llvm::map_range(arguments, [](Value *v) { return v->getType(); }));
  FunctionCallee callee =
      module.getOrInsertFunction(name, FunctionType::get(returned, types, false));
  CallInst *call = builder.CreateCall(callee, arguments);
  // Prevents duplication of the call, because the threads of a warp must meet at one call site.
  call->addFnAttr(Attribute::Convergent);
  call->addFnAttr(Attribute::NoDuplicate);
  return call;
}

/// Calls `builtin` instead. Returns a struct through memory, because C and LLVM return structs
/// differently.
void FunctionRewriter::callBuiltin(CallBase &call, const Builtin &builtin) {
  IRBuilder<> builder(&call);
  SmallVector<Value *> arguments{builder.getInt32(addSite(call))};
  Value *memory = nullptr;
  if (call.getType()->isStructTy()) {
    IRBuilder<> entry(&call.getFunction()->getEntryBlock().front());
    memory = entry.CreateAlloca(call.getType());
    arguments.push_back(memory);
  }
  for (Value *argument : call.args()) {
    if (!argument->getType()->isMetadataTy()) {
      arguments.push_back(toArgument(builder, argument));
    }
  }
  Type *returned = memory ? builder.getVoidTy() : resultType(builder, call.getType());
  CallInst *replacement =
      createCall(builder, ("emulator." + builtin.name).str(), returned, arguments);
  if (memory) {
    call.replaceAllUsesWith(builder.CreateLoad(call.getType(), memory));
  } else if (!call.getType()->isVoidTy()) {
    call.replaceAllUsesWith(fromResult(builder, replacement, call.getType()));
  }
  call.eraseFromParent();
}

/// Calls the builtin of a product, fence or wait. Sums pass through memory, in which a product adds
/// to them.
void FunctionRewriter::callProduct(CallBase &call, const ProductAssembly &form) {
  IRBuilder<> builder(&call), entry(&call.getFunction()->getEntryBlock().front());
  Value *memory = entry.CreateAlloca(call.getType());
  for (unsigned i = 0; i < form.sums; ++i) {
    builder.CreateStore(call.getArgOperand(i), builder.CreateStructGEP(call.getType(), memory, i));
  }
  SmallVector<Value *> arguments{builder.getInt32(addSite(call))};
  StringRef name = "wgmma.fence.sync.aligned";
  if (form.kind == ProductAssembly::Wait) {
    name = "wgmma.wait_group.sync.aligned";
    arguments.push_back(builder.getInt64(form.pending));
  } else if (form.kind == ProductAssembly::Multiply) {
    name = "asm.wgmma.mma_async";
    arguments.append(
        {builder.CreatePtrToInt(memory, getWideType()), call.getArgOperand(form.sums),
         call.getArgOperand(form.sums + 1), builder.getInt32(2 * form.sums),
         builder.getInt32(unsigned(form.aLinesAreInner) | unsigned(form.bLinesAreInner) << 1)});
  }
  createCall(builder, ("emulator." + name).str(), builder.getVoidTy(), arguments);
  call.replaceAllUsesWith(builder.CreateLoad(call.getType(), memory));
  call.eraseFromParent();
}

Error FunctionRewriter::rewriteCall(CallBase &call) {
  if (auto *assembly = dyn_cast<InlineAsm>(call.getCalledOperand())) {
    std::string folded = foldSpace(assembly->getAsmString());
    for (const Assembly &form : knownAssembly) {
      if (form.text == folded && form.constraints == assembly->getConstraintString()) {
        callBuiltin(call, *known.lookup(form.builtin));
        return Error::success();
      }
    }
    if (std::optional<ProductAssembly> form = parseProductAssembly(call, folded)) {
      callProduct(call, *form);
      return Error::success();
    }
    return refuse(call, "inline assembly of a form that the emulator knows");
  }
  Function *callee = call.getCalledFunction();
  if (!callee) {
    return refuse(call, "calls of known functions");
  }
  StringRef name = callee->getName();
  if (!name.consume_front("llvm.nvvm.")) {
    if (!callee->isIntrinsic() && callee->isDeclaration()) {
      return refuse(call, "a kernel that calls no library");
    }
    if (auto *intrinsic = dyn_cast<MemIntrinsic>(&call)) {
      announceRange(*intrinsic);
    }
    return Error::success();
  }
  const Builtin *builtin = known.lookup(name);
  if (!builtin) {
    StringRef base = Intrinsic::getBaseName(callee->getIntrinsicID());
    base.consume_front("llvm.nvvm.");
    builtin = known.lookup(base);
  }
  if (!builtin) {
    return refuse(call, "intrinsics that the emulator knows");
  }
  if (builtin->function) {
    callBuiltin(call, *builtin);
  } else {
    call.eraseFromParent(); // a hint for the backend
  }
  return Error::success();
}

Error FunctionRewriter::rewriteInstruction(Instruction &instruction) {
  if (auto *load = dyn_cast<LoadInst>(&instruction)) {
    announce(*load, load->getPointerOperand(), load->getType(), load->getAlign());
  } else if (auto *store = dyn_cast<StoreInst>(&instruction)) {
    announce(*store, store->getPointerOperand(), store->getValueOperand()->getType(),
             store->getAlign());
  } else if (auto *update = dyn_cast<AtomicRMWInst>(&instruction)) {
    if (isStrongerThanMonotonic(update->getOrdering())) {
      return refuse(*update, "atomicrmw of monotonic order with fences, for the NVPTX backend "
                             "leaves a stronger order out");
    }
    announce(*update, update->getPointerOperand(), update->getValOperand()->getType(),
             update->getAlign());
  } else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&instruction)) {
    announce(*exchange, exchange->getPointerOperand(), exchange->getNewValOperand()->getType(),
             exchange->getAlign());
  } else if (auto *fence = dyn_cast<FenceInst>(&instruction)) {
    announceFence(*fence);
  } else if (auto *call = dyn_cast<CallBase>(&instruction)) {
    return rewriteCall(*call);
  }
  return Error::success();
}

void FunctionRewriter::describeBlock(BasicBlock &block) {
  BlockCount count;
  raw_string_ostream stream(count.name);
  stream << block.getParent()->getName() << ':';
  block.printAsOperand(stream, false, slots);
  count.instructions = block.size();
  for (Instruction &instruction : block) {
    auto *call = dyn_cast<CallBase>(&instruction);
    Function *callee = call ? call->getCalledFunction() : nullptr;
    StringRef name = callee ? callee->getName() : "";
    count.barriers += name.starts_with("llvm.nvvm.barrier.cta.");
    auto *assembly = call ? dyn_cast<InlineAsm>(call->getCalledOperand()) : nullptr;
    count.tensorInstructions +=
        name.starts_with("llvm.nvvm.mma.") ||
        (assembly && StringRef(assembly->getAsmString()).contains("wgmma.mma_async"));
  }
  program.blocks.push_back(std::move(count));
}

/// Checks that local arrays fit the small stacks of fibers, each with a guard page below.
Error FunctionRewriter::checkStack(Function &function) {
  constexpr uint64_t mostBytes = 64 * 1024;
  uint64_t bytes = 0;
  for (Instruction &instruction : instructions(function)) {
    auto *local = dyn_cast<AllocaInst>(&instruction);
    if (!local) {
      continue;
    }
    std::optional<TypeSize> size = local->getAllocationSize(module.getDataLayout());
    bytes += size ? size->getFixedValue() : mostBytes + 1;
    if (bytes > mostBytes) {
      return refuse(*local, "at most 64 KB of local arrays, of constant size");
    }
  }
  return Error::success();
}

/// Checks that the sums of products are used only after a wait.
Error FunctionRewriter::checkProducts(Function &function) {
  for (Instruction &instruction : instructions(function)) {
    auto *call = dyn_cast<CallBase>(&instruction);
    auto *assembly = call ? dyn_cast<InlineAsm>(call->getCalledOperand()) : nullptr;
    if (!assembly) {
      continue;
    }
    auto form = parseProductAssembly(*call, foldSpace(assembly->getAsmString()));
    if (!form || form->kind != ProductAssembly::Multiply) {
      continue;
    }
    if (const Instruction *use = findEarlyUse(*call)) {
      return createStringError("kernel '" + program.kernel +
                               "': expected sums of a product to be used after a wgmma.wait_group "
                               "of 0 alone, found '" +
                               print(*use, slots) + "'");
    }
  }
  return Error::success();
}

Error FunctionRewriter::rewrite(Function &function) {
  slots.incorporateFunction(function);
  SmallVector<Instruction *> original;
  for (Instruction &instruction : instructions(function)) {
    original.push_back(&instruction);
    // Instructions are printed before any insertion, because inserted instructions have no numbers.
    if (instruction.mayReadOrWriteMemory() || isa<CallBase, AllocaInst>(instruction)) {
      texts[&instruction] = print(instruction, slots);
    }
  }
  for (BasicBlock &block : function) {
    describeBlock(block);
  }
  if (Error error = checkStack(function)) {
    return error;
  }
  if (Error error = checkProducts(function)) {
    return error;
  }
  for (Instruction *instruction : original) {
    if (Error error = rewriteInstruction(*instruction)) {
      return error;
    }
  }
  return Error::success();
}
