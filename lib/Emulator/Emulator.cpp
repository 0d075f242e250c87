// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles a module to a kernel that runs, and turns a launch into a report.
#include "sluice/Emulator/Emulator.h"

#include "Builtins/Builtins.h"
#include "Machine.h"
#include "Rewrite.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/Verifier.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include <mutex>

using namespace sluice;
using namespace sluice::emulator;
using llvm::orc::ExecutorAddr;
using llvm::orc::LLJIT;

struct Emulator::Implementation {
  std::unique_ptr<SharedArena> arena;
  Program program;
  std::unique_ptr<LLJIT> jit;
  void (*entry)(const uint64_t *) = nullptr;
  uint64_t *counts = nullptr;
  std::vector<Buffer> tables;
};

/// Creates a JIT for the host without its bf16 instructions, which flush subnormal numbers.
static llvm::Expected<std::unique_ptr<LLJIT>> makeJit() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  auto machine = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!machine) {
    return machine.takeError();
  }
  machine->addFeatures({"-avx512bf16", "-avxneconvert", "-avx10.2"});
  machine->getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  // Disables optimization: a kernel's IR is optimized already, and mostly calls builtins. Better
  // machine code would take longer to compile than it saves, even in tests whose blocks run for
  // seconds.
  machine->setCodeGenOptLevel(llvm::CodeGenOptLevel::None);
  auto jit = llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(*machine)).create();
  if (!jit) {
    return jit.takeError();
  }
  llvm::orc::SymbolMap symbols;
  for (llvm::ArrayRef<Builtin> family : builtins()) {
    for (const Builtin &builtin : family) {
      std::string symbol =
          builtin.name.starts_with("__") ? builtin.name.str() : ("emulator." + builtin.name).str();
      symbols[(*jit)->mangleAndIntern(symbol)] = {ExecutorAddr::fromPtr(builtin.function),
                                                  llvm::JITSymbolFlags::Exported};
    }
  }
  if (llvm::Error error = (*jit)->getMainJITDylib().define(llvm::orc::absoluteSymbols(symbols))) {
    return std::move(error);
  }
  return jit;
}

template <typename T> static llvm::Error find(LLJIT &jit, llvm::StringRef symbol, T &result) {
  auto address = jit.lookup(symbol);
  if (!address) {
    return address.takeError();
  }
  result = address->toPtr<T>();
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<Emulator>>
Emulator::create(std::unique_ptr<llvm::Module> module, std::unique_ptr<llvm::LLVMContext> context,
                 llvm::StringRef kernel) {
  // Owns both in the right order: a module is destroyed before its context.
  llvm::orc::ThreadSafeModule owner(std::move(module), std::move(context));
  llvm::Module &rewritten = *owner.getModuleUnlocked();
  auto made = std::make_unique<Implementation>();
  auto arena = SharedArena::create();
  if (!arena) {
    return arena.takeError();
  }
  made->arena = std::move(*arena);
  if (rewritten.getDataLayout().getPointerSizeInBits(3) != 64) {
    return llvm::createStringError(
        "expected a module whose shared pointers have 64 bits, found 32: build it without "
        "nvptx-short-ptr");
  }
  auto jit = makeJit();
  if (!jit) {
    return jit.takeError();
  }
  made->jit = std::move(*jit);
  rewritten.setDataLayout(made->jit->getDataLayout());
  rewritten.setTargetTriple(made->jit->getTargetTriple());
  auto program = rewrite(rewritten, kernel, *made->arena);
  if (!program) {
    return program.takeError();
  }
  made->program = std::move(*program);
  std::string wrong;
  llvm::raw_string_ostream stream(wrong);
  if (llvm::verifyModule(rewritten, &stream)) {
    return llvm::createStringError("the emulator made a wrong module: " + wrong);
  }
  if (llvm::Error error = made->jit->addIRModule(std::move(owner))) {
    return std::move(error);
  }
  if (llvm::Error error = find(*made->jit, entryName, made->entry)) {
    return std::move(error);
  }
  if (llvm::Error error = find(*made->jit, countsName, made->counts)) {
    return std::move(error);
  }
  for (const Table &table : made->program.tables) {
    void *data = nullptr;
    if (llvm::Error error = find(*made->jit, table.symbol, data)) {
      return std::move(error);
    }
    made->tables.push_back(
        {table.name, data, table.bytes, table.constant ? Writes::None : Writes::Any});
  }
  return std::unique_ptr<Emulator>(new Emulator(std::move(made)));
}

llvm::Expected<std::unique_ptr<Emulator>> Emulator::create(llvm::StringRef ir,
                                                           llvm::StringRef kernel) {
  auto context = std::make_unique<llvm::LLVMContext>();
  llvm::SMDiagnostic diagnostic;
  auto module = llvm::parseIR(llvm::MemoryBufferRef(ir, "kernel"), diagnostic, *context);
  if (!module) {
    std::string message;
    llvm::raw_string_ostream stream(message);
    diagnostic.print("", stream, false);
    return llvm::createStringError("expected LLVM IR or its bitcode: " + message);
  }
  return create(std::move(module), std::move(context), kernel);
}

Emulator::Emulator(std::unique_ptr<Implementation> implementation)
    : implementation(std::move(implementation)) {}
Emulator::~Emulator() = default;

Report Emulator::launch(const EmulatedLaunch &launch, const Options &options) {
  Implementation &it = *implementation;
  Machine machine(it.program, *it.arena, launch, options, it.entry);
  return machine.run(it.tables, {it.counts, it.program.blocks.size()});
}

llvm::StringRef emulator::name(ViolationKind kind) {
  switch (kind) {
  case ViolationKind::OutOfBounds:
    return "out of bounds";
  case ViolationKind::Misaligned:
    return "misaligned";
  case ViolationKind::Uninitialized:
    return "uninitialized";
  case ViolationKind::WrittenTwice:
    return "written twice";
  case ViolationKind::NeverWritten:
    return "never written";
  case ViolationKind::Race:
    return "race";
  case ViolationKind::BlockConflict:
    return "conflict between blocks";
  case ViolationKind::UnwaitedCopy:
    return "copy not waited for";
  case ViolationKind::PendingCopy:
    return "copies pending";
  case ViolationKind::UnwaitedProduct:
    return "product not waited for";
  case ViolationKind::UnfencedProduct:
    return "product without a fence";
  case ViolationKind::PendingProduct:
    return "products pending";
  case ViolationKind::Descriptor:
    return "matrix descriptor";
  case ViolationKind::BarrierDivergence:
    return "barrier divergence";
  case ViolationKind::AbsentLane:
    return "absent lane";
  case ViolationKind::Mbarrier:
    return "mbarrier";
  case ViolationKind::AliasedArguments:
    return "aliased arguments";
  case ViolationKind::Limit:
    return "limit";
  case ViolationKind::Argument:
    return "argument";
  }
  llvm_unreachable("a new kind of violation");
}

static std::string str(const Dim3 &index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
         std::to_string(index.z) + ")";
}

std::string Violation::str() const {
  std::string result = name(kind).str() + ": kernel '" + kernel + "'";
  if (!instruction.empty()) {
    result +=
        ", block " + ::str(block) + ", thread " + ::str(thread) + ", at '" + instruction + "'";
  }
  result += location.empty() ? "" : " (" + location + ")";
  result += address.empty() ? "" : ", address " + address;
  return result + ": " + message;
}

std::string Report::str() const {
  std::string result;
  for (const Violation &violation : violations) {
    result += violation.str() + "\n";
  }
  return result;
}
