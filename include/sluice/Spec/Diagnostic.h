// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Places in specs, and errors of users.
#pragma once

#include <string>

namespace sluice::spec {

/// A place in a spec. Lines and columns count from 1, columns in bytes; line 0 means the whole
/// file.
struct SourceLocation {
  std::string file;
  unsigned line = 0;
  unsigned column = 0;
};

/// "file:line:column", or "file" for a whole file.
std::string toString(const SourceLocation &location);

/// A user's error: one line with the expected value, the found one and a remedy.
struct Diagnostic {
  SourceLocation location; ///< no file: the message names it
  std::string message;

  /// "file:line:column: message"
  std::string format() const;
};

} // namespace sluice::spec
