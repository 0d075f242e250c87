// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One ELF shared object with its data, and the trailer that is checked before it is loaded.
#include "sluice/Target/Artifact.h"
#include "sluice/Target/CPU/Link.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SHA256.h"
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

/// The plan and the constants as an object file.
static Expected<std::string> makeDataObject(StringRef planText, ArrayRef<char> constants) {
  LLVMContext context;
  Module module("data", context);
  addBytes(module, "sluice_plan", ArrayRef<char>(planText.data(), planText.size()));
  auto *size = ConstantInt::get(Type::getInt64Ty(context), planText.size());
  new GlobalVariable(module, size->getType(), true, GlobalValue::ExternalLinkage, size,
                     "sluice_plan_size");
  addBytes(module, "sluice_constants", constants.empty() ? ArrayRef<char>("\0", 1) : constants);
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

/// Trailer of docs/plan-and-artifact.md: magic, version, size, SHA-256 of the ELF part, check of
/// the trailer itself.
static std::string makeTrailer(StringRef elf) {
  std::string trailer("SLUICE\r\n");
  trailer.resize(64);
  support::endian::write32le(trailer.data() + 8, 1);
  support::endian::write64le(trailer.data() + 16, elf.size());
  SHA256 hash;
  hash.update(elf);
  std::array<uint8_t, 32> digest = hash.final();
  std::copy(digest.begin(), digest.end(), trailer.begin() + 24);
  SHA256 own;
  own.update(StringRef(trailer.data(), 56));
  std::array<uint8_t, 32> check = own.final();
  std::copy_n(check.begin(), 8, trailer.begin() + 56);
  return trailer;
}

static Error appendTrailer(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) {
    return problem("cannot read " + path + ": " + buffer.getError().message());
  }
  std::string trailer = makeTrailer((*buffer)->getBuffer());
  std::error_code code;
  raw_fd_ostream stream(path, code, sys::fs::CD_OpenExisting, sys::fs::FA_Write,
                        sys::fs::OF_Append);
  if (!code) {
    stream << trailer;
    stream.close();
    code = stream.error();
    stream.clear_error();
  }
  return code ? problem("cannot write " + path + ": " + code.message()) : Error::success();
}

/// The rename at the end would replace a device or a pipe by a file.
static Error checkReplaceable(StringRef path) {
  sys::fs::file_status status;
  if (sys::fs::status(path, status) || status.type() == sys::fs::file_type::regular_file) {
    return Error::success();
  }
  bool isFolder = status.type() == sys::fs::file_type::directory_file;
  return problem(
      path + ": expected a new name or an ordinary file for the artifact, found " +
      (isFolder ? "a folder; name a file in it" : "a device, pipe or socket; give another name"));
}

Error sluice::writeArtifact(StringRef path, StringRef planText, ArrayRef<char> constants,
                            ArrayRef<std::string> objects) {
  if (Error error = checkReplaceable(path)) {
    return error;
  }
  Expected<std::string> data = makeDataObject(planText, constants);
  if (!data) {
    return data.takeError();
  }
  std::vector<std::string> all(objects.begin(), objects.end());
  all.push_back(std::move(*data));
  SmallString<256> temporary;
  if (std::error_code code = sys::fs::createUniqueFile(path + ".%%%%%%.tmp", temporary)) {
    return problem("cannot write beside " + path + ": " + code.message());
  }
  Error error = cpu::linkSharedObject(all, temporary);
  if (!error) {
    error = appendTrailer(temporary);
  }
  if (!error) {
    if (std::error_code code = sys::fs::rename(temporary, path)) {
      error = problem("cannot rename to " + path + ": " + code.message());
    }
  }
  if (error) {
    sys::fs::remove(temporary);
  }
  return error;
}
