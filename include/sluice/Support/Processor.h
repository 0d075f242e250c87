// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Features of this machine's processor that a process must ask for.
#pragma once

namespace sluice {

/// Returns true if the processor has AMX tiles and their products of bf16, and Linux lets this
/// process use them. The first call asks for the permission, for all threads of the process: the
/// tiles of a thread are 8 KB that the kernel saves only in processes that asked.
bool requestTiles();

} // namespace sluice
