// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the program ends when it fails.
#pragma once

#include <string>
#include <string_view>

namespace sluice::cli {

/// "sluice: error: MESSAGE" on stderr, characters that a terminal could take for commands escaped.
void printError(std::string_view message);

/// Exit status of the exception that is being handled, whose message goes to stderr: 1 where the
/// job or the machine failed, 2 for bad input, 3 for a defect.
int explainException();

/// A lack of memory or threads, for which a library ends the process, becomes a message and a
/// status.
void installFailureHandlers();

/// Should that happen, `text` goes to stdout before, and the status is 1: a finding that is known
/// by then. Empty: nothing.
void setLastWords(std::string text);

} // namespace sluice::cli
