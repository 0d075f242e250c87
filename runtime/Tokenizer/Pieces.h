// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "SubwordModel.h"

namespace sluice::runtime {

/// Loads a SentencePiece model that has byte fallback and normalizes nothing. Throws UserError.
std::unique_ptr<SubwordModel> loadPieces(std::string_view model, const std::string &origin);

} // namespace sluice::runtime
