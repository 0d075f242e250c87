// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the runtime takes of a plan. The compiler refuses what goes beyond, at the spec's line.
#pragma once

#include <cstdint>

namespace sluice {

/// Sizes of a model (vocabulary, context, batch, width), so that products of two fit 64 bits.
constexpr int64_t mostSize = (int64_t(1) << 31) - 1;

/// Bytes of the arena, of an operand, of a stride: more than any machine has, and small enough that
/// sums and products of sizes cannot overflow unnoticed.
constexpr int64_t mostArenaBytes = int64_t(1) << 46;

/// Items of one launch on a CPU.
constexpr int64_t mostItems = (int64_t(1) << 31) - 1;

/// Scratch of one thread.
constexpr int64_t mostScratchBytes = int64_t(1) << 32;

/// Tables that an artifact holds: its code and data stay within reach of 32-bit offsets.
constexpr int64_t mostConstantBytes = int64_t(1) << 30;

/// Rows that generate at once.
constexpr int64_t mostGenerationRows = 64;

/// Batches of an update: numbers of its rows, and of what they draw, fit 64 bits.
constexpr int64_t mostAccumulated = int64_t(1) << 20;

/// Operations or bytes moved of one launch.
constexpr int64_t mostWork = int64_t(1) << 62;

/// One launch on a GPU.
constexpr int64_t mostBlocks = (int64_t(1) << 31) - 1;
constexpr int64_t mostThreads = 1024;
constexpr int64_t mostSharedBytes = int64_t(1) << 20;

} // namespace sluice
