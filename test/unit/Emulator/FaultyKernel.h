// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels with an injected fault and their corrected variants, in one text.
#pragma once

#include "sluice/Emulator/Emulator.h"

#include <string>
#include <vector>

namespace sluice::test {

/// A kernel `@k(ptr addrspace(1) %in, ptr addrspace(1) %out)`, or with a third parameter for
/// `counters` words of zeros, with 64 threads a block, `%in` of
/// 64 * `words` numbers and `%out` of as many. Lines that begin with '-' are in the faulty kernel
/// alone, those with '+' in the right one alone. `%tid` and `%block` (i64) are at hand.
struct FaultCase {
  std::string body;
  emulator::ViolationKind kind;
  std::string says; ///< part of the message or of the blamed instruction
  std::string globals = "";
  uint64_t words = 1;
  emulator::Dim3 grid = {1, 1, 1}, block = {64, 1, 1};
  uint64_t dynamicSharedBytes = 0;
  emulator::Writes writes = emulator::Writes::AtMostOnce;
  std::string parameters = "ptr addrspace(1) %in, ptr addrspace(1) %out";
  uint64_t counters = 0; ///< i32, which all blocks may write
  /// The faulty kernel's numbers are right if copies complete early: only the emulator's checks can
  /// find it.
  bool rightWhenEarly = false;
};

/// Runs both variants under every schedule and every timing of copies: the faulty one must be
/// detected each time, the correct one never, and its numbers must not depend on either.
void expectCaught(const FaultCase &injected);

/// LLVM IR for the NVPTX target, with the intrinsics that tests use.
std::string kernelText(const FaultCase &injected, bool faulty);

/// A run of one kernel: its report and the contents of `%out`.
struct PlantedOutcome {
  emulator::Report report;
  std::vector<float> out;
};
PlantedOutcome runKernel(emulator::Emulator &emulator, const FaultCase &injected,
                         const emulator::Options &options = {});

/// Null with a test failure if the text is rejected.
std::unique_ptr<emulator::Emulator> compileKernel(const std::string &text);

} // namespace sluice::test
