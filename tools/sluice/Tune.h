// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tuning files: written by `sluice bench --tune`, read by `sluice compile --tuning`.
#pragma once

#include "Common.h"
#include "sluice/Driver/Driver.h"

#include <string>
#include <vector>

namespace sluice::cli {

/// Times the products of an artifact on the GPU, writes `file` (see checkOutputs for `force`) and
/// prints a table or, with `json`, the contents of the file. Throws UserError.
void runTune(const std::string &artifact, const DeviceOptions &device, const std::string &file,
             bool json, bool force);

/// Returns the products of a tuning file for which the library is faster, on the GPUs among
/// `targets`. Throws UserError, also if the file has no entry for them.
std::vector<driver::LibraryProduct> readLibraryProducts(const std::string &file,
                                                        const std::vector<std::string> &targets);

} // namespace sluice::cli
