// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the causality check in a separate process: it can be stopped when a newer text arrives or
// its time is up, and its failures do not end the server.
#pragma once

#include "sluice/Editor/Findings.h"

namespace sluice::editor {

/// Runs this program again, as the child below, for at most `limit`. Throws NotChecked if it was
/// stopped, std::runtime_error if it failed.
CausalVerdict checkInChild(const ParsedSpec &spec, const std::atomic<bool> &cancelled,
                           std::chrono::milliseconds limit);

/// The main function of the child: reads a spec from standard input, which `file` names, and prints
/// its verdict for the parent. Returns the exit status.
int runChild(const std::string &file);

} // namespace sluice::editor
