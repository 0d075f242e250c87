// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "SubwordModel.h"

namespace sluice::runtime {

/// Loads codes of subword-nmt, version 0.2. Throws UserError.
std::unique_ptr<SubwordModel> loadCodes(std::string_view codes, const std::string &origin);

} // namespace sluice::runtime
