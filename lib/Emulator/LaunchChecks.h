// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks of a launch before its first block runs.
#pragma once

#include "Program.h"
#include "SharedArena.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace sluice::emulator {

/// Reports a violation of the launch itself, which has no instruction.
using LaunchComplaint = llvm::function_ref<void(ViolationKind, const std::string &)>;

/// Reports each limit of the driver that `launch` exceeds, and each argument that contradicts the
/// declaration of its parameter.
void checkLaunch(const Program &program, const SharedArena &arena, const EmulatedLaunch &launch,
                 LaunchComplaint complain);

} // namespace sluice::emulator
