// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads golden files, which hold integers too; the runtime's reader wants to know names, shapes and
// f32 beforehand.
#pragma once

#include "ReferenceModel.h"

namespace sluice::testing {

/// Every tensor of a safetensors file of F32 and I32. Throws std::exception where the file is not
/// one.
Tensors readSafetensors(const std::string &path);

} // namespace sluice::testing
