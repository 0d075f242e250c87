// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier:
// Apache-2.0 WITH LLVM-exception
//
// Runs instructions of AMX and AVX512_BF16 that kernels have and this machine lacks. The machine
// rejects them with SIGILL; the handler decodes the instruction, computes its result as
// Intel's manual (Software Developer's Manual, volume 2) describes it, changes the interrupted
// thread's registers and continues after it. So tests run the bytes of an artifact, with the tile
// configuration, registers and addresses that the code generator chose. It takes microseconds an
// instruction.
#pragma once

namespace sluice::test {

/// Installs the handler for this process. Instructions that it does not know still end the process,
/// and so do those that the manual rejects: tiles without a configuration, or of shapes that do not
/// fit. Each thread has tiles of its own. Does nothing where the machine has the instructions.
void emulateMissingInstructions();

/// Number of instructions that were emulated so far.
long countEmulatedInstructions();

} // namespace sluice::test
