// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Python functions that an exported file defines before its class.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <set>
#include <string>

namespace sluice::pytorch {

/// Adds a helper and the helpers that it calls; it must exist.
void addHelper(std::set<std::string> &used, llvm::StringRef name);

bool isHelper(llvm::StringRef name);

/// Returns the definitions of the used helpers, in a fixed order.
std::string printHelpers(const std::set<std::string> &used);

} // namespace sluice::pytorch
