// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Links objects to a shared object in memory.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace sluice::cpu {

/// Links `objects` (bytes of ELF object files) to a shared object with ld.lld, without any library.
/// Returns its bytes in a string with a capacity of `spare` additional bytes. Fails with a message
/// if no linker is found, or with the linker's message; throws JobError if the machine has
/// no room for the files of the linker.
llvm::Expected<std::string> linkSharedObject(llvm::ArrayRef<llvm::StringRef> objects,
                                             size_t spare = 0);

} // namespace sluice::cpu
