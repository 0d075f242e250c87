// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Serializes kernels for their hash. Printing a kernel takes ten times as long, and bytecode
// includes locations.
#include "sluice/Target/Cache/KernelKey.h"

#include "sluice/Target/Cache/LoweringSources.inc"

#include "llvm/Config/llvm-config.h"
#include <algorithm>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>
#include <vector>

using namespace mlir;
using namespace sluice;

namespace {

/// Writes an op and everything in it as numbers and texts. Names, types and attributes are written
/// as text where they first appear and as a number afterwards; so are values and blocks.
class KernelSerializer {
public:
  /// Writes `kernel` without its name.
  void addKernel(func::FuncOp kernel) {
    for (NamedAttribute attribute : kernel->getAttrs()) {
      if (attribute.getName() != kernel.getSymNameAttrName()) {
        addOnce(attribute.getName().getAsOpaquePointer(), attribute.getName());
        addPrinted(attribute.getValue());
      }
    }
    addRegions(kernel);
  }
  /// Writes `module` with its attributes and with the names of its symbols.
  void addModule(ModuleOp module) { addOperation(*module); }
  ArrayRef<uint8_t> bytes() const { return written; }

private:
  void addNumber(size_t number) {
    for (int shift = 0; shift < 32; shift += 8) {
      written.push_back(static_cast<uint8_t>(number >> shift));
    }
  }

  void addText(StringRef text) {
    addNumber(text.size());
    written.append(text.bytes_begin(), text.bytes_end());
  }

  /// Writes the number of `pointer`, and returns true if it appears for the first time.
  template <typename Map, typename Pointer> bool addReference(Map &map, Pointer pointer) {
    auto [entry, isNew] = map.try_emplace(pointer, map.size());
    addNumber(entry->second);
    return isNew;
  }

  void addOnce(const void *pointer, StringRef text) {
    if (addReference(uniqued, pointer)) {
      addText(text);
    }
  }

  /// Writes a type or an attribute, which may be null.
  template <typename Printable> void addPrinted(Printable printable) {
    if (!printable) {
      return addOnce(nullptr, "");
    }
    if (addReference(uniqued, printable.getAsOpaquePointer())) {
      std::string text;
      llvm::raw_string_ostream stream(text);
      printable.print(stream);
      addText(text);
    }
  }

  void addOperation(Operation &op) {
    addOnce(op.getName().getAsOpaquePointer(), op.getName().getStringRef());
    addPrinted(op.getPropertiesAsAttribute());
    addPrinted(op.getDiscardableAttrDictionary());
    addNumber(op.getNumOperands());
    for (Value operand : op.getOperands()) {
      addReference(values, operand);
    }
    addNumber(op.getNumResults());
    for (Value result : op.getResults()) {
      addReference(values, result);
      addPrinted(result.getType());
    }
    addNumber(op.getNumSuccessors());
    for (Block *successor : op.getSuccessors()) {
      addReference(blocks, successor);
    }
    addRegions(&op);
  }

  void addRegions(Operation *op) {
    addNumber(op->getNumRegions());
    for (Region &region : op->getRegions()) {
      addNumber(region.getBlocks().size());
      for (Block &block : region) {
        addBlock(block);
      }
    }
  }

  void addBlock(Block &block) {
    addReference(blocks, &block);
    addNumber(block.getNumArguments());
    for (BlockArgument argument : block.getArguments()) {
      addReference(values, Value(argument));
      addPrinted(argument.getType());
    }
    addNumber(block.getOperations().size());
    for (Operation &op : block) {
      addOperation(op);
    }
  }

  SmallVector<uint8_t, 0> written;
  DenseMap<const void *, size_t> uniqued;
  DenseMap<Value, size_t> values;
  DenseMap<Block *, size_t> blocks;
};

} // namespace

Sha256 sluice::hashKernel(func::FuncOp kernel) {
  KernelSerializer serializer;
  serializer.addKernel(kernel);
  return sha256(serializer.bytes());
}

Sha256 sluice::hashModule(ModuleOp module) {
  KernelSerializer serializer;
  serializer.addModule(module);
  return sha256(serializer.bytes());
}

std::string sluice::toShortHash(const Sha256 &hash) { return toHex(hash).substr(0, 16); }

KernelKey sluice::computeKernelKey(func::FuncOp kernel, StringRef target) {
  std::string text = getLoweringIdentity() + "\n" + target.str() + "\n" +
                     kernel.getSymName().str() + "\n" + toHex(hashKernel(kernel));
  return sha256({reinterpret_cast<const uint8_t *>(text.data()), text.size()});
}

KernelKey sluice::computeModuleKey(const Sha256 &module, StringRef target) {
  std::string text = getLoweringIdentity() + "\n" + target.str() + "\nmodule\n" + toHex(module);
  return sha256({reinterpret_cast<const uint8_t *>(text.data()), text.size()});
}

KernelKey sluice::computeToolKey(ArrayRef<StringRef> parts) {
  std::string text = "tool\n";
  for (StringRef part : parts) {
    text += std::to_string(part.size()) + "\n" + part.str();
  }
  return sha256({reinterpret_cast<const uint8_t *>(text.data()), text.size()});
}

//===----------------------------------------------------------------------===//
// Identity
//===----------------------------------------------------------------------===//

/// Returns the build ID in a segment of ELF notes; empty if there is none.
static std::string findBuildId(const uint8_t *notes, size_t size, size_t alignment) {
  alignment = std::max<size_t>(alignment, 4);
  auto align = [&](size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes + at, sizeof(header));
    size_t name = at + sizeof(header), contents = name + align(header.n_namesz);
    if (contents + header.n_descsz > size) {
      break;
    }
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
        std::memcmp(notes + name, "GNU", 4) == 0) {
      return toHex({notes + contents, header.n_descsz});
    }
    at = contents + align(header.n_descsz);
  }
  return "";
}

/// Appends the build ID of a library of LLVM or MLIR, or else its size and time, because an updated
/// package keeps the name of the file.
static int addLibrary(dl_phdr_info *info, size_t, void *result) {
  StringRef path = info->dlpi_name;
  if (!path.contains("libLLVM") && !path.contains("libMLIR")) {
    return 0;
  }
  std::string id;
  for (size_t i = 0; i < info->dlpi_phnum && id.empty(); ++i) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    if (segment.p_type == PT_NOTE) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader's own base address
      const auto *notes = reinterpret_cast<const uint8_t *>(info->dlpi_addr + segment.p_vaddr);
      id = findBuildId(notes, segment.p_memsz, segment.p_align);
    }
  }
  struct stat status{};
  if (id.empty() && ::stat(info->dlpi_name, &status) == 0) {
    id = std::to_string(status.st_size) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
         std::to_string(status.st_mtim.tv_nsec);
  }
  static_cast<std::vector<std::string> *>(result)->push_back(id);
  return 0;
}

const std::string &sluice::getLoweringIdentity() {
  static const std::string identity = [] {
    std::vector<std::string> libraries;
    ::dl_iterate_phdr(addLibrary, &libraries);
    llvm::sort(libraries);
    return std::string(SLUICE_LOWERING_SOURCES) + " LLVM " LLVM_VERSION_STRING " " +
           llvm::join(libraries, " ");
  }();
  return identity;
}
