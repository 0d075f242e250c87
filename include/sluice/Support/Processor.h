// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Features of this machine's processor that a process must ask for.
#pragma once

namespace sluice {

/// Returns true if the processor has AMX tiles and their products of bf16, and Linux knows them.
bool hasTiles();

/// Asks Linux for AMX tiles, for all threads of the process and until its end; returns true if it
/// grants them. The tiles of a thread are 8 KB that the kernel saves only in processes that asked,
/// on stacks of signal handlers too, so a process that runs no code for tiles must not ask.
bool requestTiles();

} // namespace sluice
