// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exit paths of the program on failure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::cli {

/// Prints "sluice: error: MESSAGE" on stderr, and escapes characters that a terminal could
/// interpret as commands.
void printError(std::string_view message);

/// Sets the rank of this process among several, which each line of a message then names, and
/// whether messages are not printed. Rank 0 is named with `namesFirst` alone.
void setMessageRank(int64_t rank, bool isMuted, bool namesFirst = false);
/// Prints "sluice: MESSAGE" on stderr likewise.
void printMessage(const std::string &message);

/// Prints the message of the current exception on stderr and returns the exit status: 1 if the job
/// or the machine failed, 2 for bad input, 3 for a defect.
int explainException();

/// Turns a lack of memory or threads, on which a library ends the process, into a message and a
/// status.
void installFailureHandlers();

/// Sets a text to print on stdout before such an end, whose status is then 1: a finding known by
/// then. Empty: none.
void setLastWords(std::string text);

} // namespace sluice::cli
