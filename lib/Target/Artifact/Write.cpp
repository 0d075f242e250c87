// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Links an ELF shared object with its data, and appends the trailer that is checked before it is
// loaded.
#include "sluice/Support/Trailer.h"
#include "sluice/Target/Artifact.h"
#include "sluice/Target/CPU/Object/Link.h"
#include "sluice/Target/CPU/Object/Object.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

static Error problem(const Twine &message) {
  return createStringError(inconvertibleErrorCode(), message);
}

static void addBytes(Module &module, StringRef name, ArrayRef<char> bytes) {
  auto *data = ConstantDataArray::getString(
      module.getContext(), StringRef(bytes.data(), bytes.size()), /*AddNull=*/false);
  auto *global = new GlobalVariable(module, data->getType(), /*isConstant=*/true,
                                    GlobalValue::ExternalLinkage, data, name);
  global->setAlignment(Align(64));
}

static void addNumber(Module &module, StringRef name, uint64_t value) {
  auto *number = ConstantInt::get(Type::getInt64Ty(module.getContext()), value);
  new GlobalVariable(module, number->getType(), true, GlobalValue::ExternalLinkage, number, name);
}

/// Creates an object file of the plan, the constants and GPU code.
static Expected<std::string> makeDataObject(StringRef planText, ArrayRef<char> constants,
                                            ArrayRef<sluice::Blob> blobs) {
  sluice::cpu::initializeBackend(); // not yet initialized if the cache had every kernel
  LLVMContext context;
  Module module("data", context);
  addBytes(module, "sluice_plan", ArrayRef<char>(planText.data(), planText.size()));
  addNumber(module, "sluice_plan_size", planText.size());
  addBytes(module, "sluice_constants", constants.empty() ? ArrayRef<char>("\0", 1) : constants);
  for (const sluice::Blob &blob : blobs) {
    addBytes(module, blob.symbol, ArrayRef<char>(blob.bytes.data(), blob.bytes.size()));
    addNumber(module, blob.symbol + "_size", blob.bytes.size());
  }
  Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const Target *backend = TargetRegistry::lookupTarget(triple, error);
  if (!backend) {
    return problem("no x86-64 backend: " + error);
  }
  std::unique_ptr<TargetMachine> machine(
      backend->createTargetMachine(triple, "x86-64-v3", "", TargetOptions(), Reloc::PIC_));
  module.setTargetTriple(triple);
  module.setDataLayout(machine->createDataLayout());
  SmallString<0> bytes;
  raw_svector_ostream stream(bytes);
  legacy::PassManager emission;
  if (machine->addPassesToEmitFile(emission, stream, nullptr, CodeGenFileType::ObjectFile)) {
    return problem("the x86-64 backend writes no object files");
  }
  emission.run(module);
  return std::string(bytes.begin(), bytes.end());
}

Expected<std::string> sluice::linkArtifact(StringRef planText, ArrayRef<char> constants,
                                           ArrayRef<std::string> objects, ArrayRef<Blob> blobs) {
  Expected<std::string> data = makeDataObject(planText, constants, blobs);
  if (!data) {
    return data.takeError();
  }
  std::vector<StringRef> all(objects.begin(), objects.end());
  all.push_back(*data);
  Expected<std::string> elf = cpu::linkSharedObject(all, trailerBytes);
  if (elf) {
    auto trailer = makeTrailer({reinterpret_cast<const uint8_t *>(elf->data()), elf->size()});
    elf->append(trailer.begin(), trailer.end());
  }
  return elf;
}
