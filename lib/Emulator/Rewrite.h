// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "Program.h"
#include "SharedArena.h"

namespace sluice::emulator {

/// Makes the module executable on the host: intrinsics and inline assembly become calls of the
/// emulator, a call precedes each memory access, shared globals become addresses, and the kernel is
/// entered at `entryName(const uint64_t *arguments)`. Entries of basic blocks are counted in
/// `countsName`.
llvm::Expected<Program> rewrite(llvm::Module &module, llvm::StringRef kernel,
                                const SharedArena &arena);
constexpr const char *entryName = "emulator.entry", *countsName = "emulator.counts";

} // namespace sluice::emulator
