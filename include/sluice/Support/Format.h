// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

/// Formats like printf into a string of any length.
std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

/// Returns "1 file", "2 files".
std::string describeCount(int64_t count, const std::string &noun);

} // namespace sluice
