// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Objects in memory to a shared object on disk.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace sluice::cpu {

/// Links `objects` (bytes of ELF object files) to the shared object `path` with ld.lld, without any
/// library. Fails with a message when no linker is found, or with the linker's own.
llvm::Error linkSharedObject(llvm::ArrayRef<std::string> objects, llvm::StringRef path);

} // namespace sluice::cpu
