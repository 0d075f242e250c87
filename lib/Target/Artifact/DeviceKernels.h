// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sluice/Target/Artifact.h"

namespace sluice {

/// Generates the GPU kernel of dispatch `number` and adds a variant for each of `targets` to
/// `record`. Fails and sets `unsupported` if the dispatch has no GPU kernel.
mlir::LogicalResult generateForDevices(mlir::Operation *dispatch, size_t number,
                                       llvm::ArrayRef<const cuda::Target *> targets, KernelSet &set,
                                       KernelRecord &record, std::string &unsupported);

} // namespace sluice
