// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages about files of the wrong kind: names of the kinds, and remedies.
#pragma once

#include "sluice/Support/FileKind.h"

namespace sluice {

/// Returns the kind for a message: "a Sluice artifact", "a Git LFS pointer".
std::string_view describe(FileKind kind);

/// Checks that `recognize` distinguishes files of `found` from files of `expected`. Text and Binary
/// are left to the parser, whose message is more specific.
bool isMixUp(FileKind expected, FileKind found);

/// Returns the kind that was found in place of `expected`, and a remedy: "found an HTML page;
/// download the file itself". `path` is named in commands of the remedy.
std::string explainMixUp(FileKind expected, FileKind found, const Path &path);

/// Throws UserError "PATH: expected ROLE, " and explainMixUp if `path` is a mix-up
/// (isMixUp).
void requireKind(const Path &path, FileKind expected, std::string_view role);

} // namespace sluice
