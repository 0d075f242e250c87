// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The causality check in a process of its own: it can be stopped when a newer text comes or when
// its time is up, and nothing that happens in it ends the server.
#pragma once

#include "sluice/Editor/Findings.h"

namespace sluice::editor {

/// Runs this program again, as the child below, for at most `limit`. Throws NotChecked where it was
/// stopped, std::runtime_error where it failed.
CausalVerdict checkInChild(const ParsedSpec &spec, const std::atomic<bool> &cancelled,
                           std::chrono::milliseconds limit);

/// The child: reads a spec from standard input, which `file` names, and prints its verdict for the
/// parent. Returns the exit status.
int runChild(const std::string &file);

} // namespace sluice::editor
