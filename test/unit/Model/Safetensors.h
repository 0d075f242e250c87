// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads golden files, which contain integers too; the runtime's reader requires known names, shapes
// and f32.
#pragma once

#include "ReferenceModel.h"

namespace sluice::testing {

/// Returns every tensor of a safetensors file of F32 and I32. Throws std::exception if the file is
/// invalid.
Tensors readSafetensors(const std::string &path);

} // namespace sluice::testing
