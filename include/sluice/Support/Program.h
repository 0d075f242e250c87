// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs another program.
#pragma once

#include <string>
#include <vector>

namespace sluice {

/// Runs the program at path `words[0]` with these arguments in the folder /proc, so that relative
/// names cannot refer to a user's files. Its input is empty; its output and its messages go to the
/// given file descriptors. Returns a description of a failure, "exit status 1" or "signal 11";
/// empty on success. Throws JobError if it cannot be started for lack of processes, memory or file
/// handles.
std::string runProgram(const std::vector<std::string> &words, int output, int messages);

} // namespace sluice
