// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running another program.
#pragma once

#include <string>
#include <vector>

namespace sluice::runtime {

/// Runs the program at path `words[0]` with these words, in the folder /proc, so that no relative
/// name of a user's is met: nothing to read, output and messages to the file descriptors. Returns
/// what went wrong, "exit status 1", "signal 11"; empty where the program ended well. Throws
/// JobError where it cannot be started for lack of processes, memory or file handles.
std::string runProgram(const std::vector<std::string> &words, int output, int messages);

} // namespace sluice::runtime
