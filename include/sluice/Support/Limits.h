// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Limits of the runtime on plans. The compiler rejects larger values with the location in the spec.
#pragma once

#include <cstdint>

namespace sluice {

/// Sizes of a model (vocabulary, context, batch, width). Products of two sizes fit in 64 bits.
constexpr int64_t mostSize = (int64_t(1) << 31) - 1;

/// Bytes of the arena, of an operand and of a stride: more than any machine has, and small enough
/// that sums and products of sizes cannot overflow.
constexpr int64_t mostArenaBytes = int64_t(1) << 46;

/// Items of one launch on a CPU.
constexpr int64_t mostItems = (int64_t(1) << 31) - 1;

/// Scratch bytes per thread.
constexpr int64_t mostScratchBytes = int64_t(1) << 32;

/// Constant tables of an artifact: its code and data must be reachable with 32-bit offsets.
constexpr int64_t mostConstantBytes = int64_t(1) << 30;

/// Texts that generate at once.
constexpr int64_t mostGenerationRows = 64;

/// Batches per update: indices of its rows and of their random draws fit in 64 bits.
constexpr int64_t mostAccumulated = int64_t(1) << 20;

/// Operations of one launch, or bytes that it moves.
constexpr int64_t mostWork = int64_t(1) << 62;

/// One launch on a GPU.
constexpr int64_t mostBlocks = (int64_t(1) << 31) - 1;
constexpr int64_t mostThreads = 1024;
constexpr int64_t mostSharedBytes = int64_t(1) << 20;

} // namespace sluice
