// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdio>

/// The standard input with the messages alone that MLIR's server can take
/// (sluice/Editor/IrMessages.h). Others are answered here, on the standard output. Call it before
/// anything is read.
std::FILE *openStrictInput();
