// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Words of command lines.
#pragma once

#include <string>

namespace sluice {

/// Quotes `text` as one word of a shell's command line.
std::string quoteForShell(const std::string &text);

} // namespace sluice
