// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdio>

/// Returns the standard input restricted to messages that MLIR's server accepts
/// (sluice/Editor/IrMessages.h). Answers the others on the standard output. Call it before the
/// first read.
std::FILE *openStrictInput();
