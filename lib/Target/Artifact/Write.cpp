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
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/Signals.h"
#include "llvm/Target/TargetMachine.h"

#include <cerrno>
#include <unistd.h>

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

/// The plan, the constants and the code of GPUs as an object file.
static Expected<std::string> makeDataObject(StringRef planText, ArrayRef<char> constants,
                                            ArrayRef<sluice::Blob> blobs) {
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

/// Trailer of docs/plan-and-artifact.md: magic, version, size, SHA-256 of the ELF part, check of
/// the trailer itself.
static std::string makeTrailer(StringRef elf) {
  std::string trailer("SLUICE\r\n");
  trailer.resize(64);
  support::endian::write32le(trailer.data() + 8, 2);
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

/// Links to a temporary file and returns its bytes. Not in the artifact's folder: the linker maps
/// what it writes and dies of a full disk, and only plain writes report one.
static Expected<std::string> link(ArrayRef<std::string> objects) {
  SmallString<128> name;
  if (std::error_code code = sys::fs::createTemporaryFile("sluice", "so", name)) {
    return problem("cannot create a temporary file: " + code.message() +
                   "; let TMPDIR name a folder that can be written");
  }
  FileRemover remove(name);
  sys::RemoveFileOnSignal(name);
  if (Error error = sluice::cpu::linkSharedObject(objects, name)) {
    return std::move(error);
  }
  auto buffer = MemoryBuffer::getFile(name, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) {
    return problem("cannot read " + name + ": " + buffer.getError().message());
  }
  return (*buffer)->getBuffer().str();
}

/// Writes, fsyncs and closes.
static std::error_code writeSynced(int descriptor, StringRef bytes) {
  std::error_code code;
  while (!bytes.empty() && !code) {
    ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes = bytes.drop_front(static_cast<size_t>(count));
    } else if (errno != EINTR) {
      code = std::error_code(errno, std::generic_category());
    }
  }
  if (!code && ::fsync(descriptor) != 0) {
    code = std::error_code(errno, std::generic_category());
  }
  ::close(descriptor);
  return code;
}

Error sluice::checkArtifactPath(StringRef path) {
  sys::fs::file_status status;
  sys::fs::status(path, status);
  if (sys::fs::exists(status) && !sys::fs::is_regular_file(status)) {
    // Renaming over a device such as /dev/null would take it away from every program of the
    // machine.
    return problem(
        path + ": expected the name of a file to write, found " +
        (sys::fs::is_directory(status) ? "a directory" : "something not a regular file") +
        "; name another file");
  }
  StringRef parent = sys::path::parent_path(path);
  if (!parent.empty() && !sys::fs::is_directory(parent)) {
    return problem(path + ": expected a folder to write into, found no folder " + parent +
                   "; create it or name another file");
  }
  return Error::success();
}

Error sluice::writeArtifact(StringRef path, StringRef planText, ArrayRef<char> constants,
                            ArrayRef<std::string> objects, ArrayRef<Blob> blobs) {
  Expected<std::string> data = makeDataObject(planText, constants, blobs);
  if (!data) {
    return data.takeError();
  }
  if (Error error = checkArtifactPath(path)) {
    return error;
  }
  std::vector<std::string> all(objects.begin(), objects.end());
  all.push_back(std::move(*data));
  Expected<std::string> elf = link(all);
  return elf ? replaceFile(path, *elf + makeTrailer(*elf)) : elf.takeError();
}

Error sluice::replaceFile(StringRef path, StringRef bytes) {
  if (Error error = checkArtifactPath(path)) {
    return error;
  }
  int descriptor = -1;
  SmallString<256> temporary;
  std::error_code code = sys::fs::createUniqueFile(path + ".%%%%%%.tmp", descriptor, temporary);
  if (code) {
    return problem(path + ": cannot write: " + code.message() +
                   "; change the folder's permissions or name another place");
  }
  sys::RemoveFileOnSignal(temporary);
  code = writeSynced(descriptor, bytes);
  if (!code) {
    code = sys::fs::rename(temporary, path);
  }
  if (code) {
    sys::fs::remove(temporary);
    return problem(path + ": cannot write: " + code.message() +
                   "; free space on the disk or name another place");
  }
  return Error::success();
}
