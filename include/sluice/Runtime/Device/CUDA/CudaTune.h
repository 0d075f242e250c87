// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times products on a GPU.
#pragma once

#include "sluice/Runtime/Device/Tuning.h"
#include <functional>

namespace sluice::runtime {

/// Times every distinct product of the plan at full length and batch on the first GPU, with the
/// generated kernel and with cuBLASLt's best algorithms. `target` as in makeCudaDevice; `done` is
/// called after each product. Throws UserError if there is no GPU, driver, library or memory.
Tuning tuneProducts(const Artifact &artifact, const std::string &target,
                    const std::function<void(const TunedProduct &)> &done);

} // namespace sluice::runtime
