// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The flag --set, and recompilation of an artifact's spec.
#pragma once

#include "Common.h"
#include "sluice/Loading/Recompile.h"

#include <string>
#include <vector>

namespace sluice::cli {

/// Adds `--set KEY=VALUE`, which may be given several times.
void addSettings(CLI::App &command, std::vector<std::string> &written, const std::string &help);

/// Parses the values of `--set`. Throws UserError.
std::vector<spec::SpecOverride> parseSettings(const std::vector<std::string> &written);

using loading::checkSettings;
using loading::compileForCpu;
using loading::recompile;
using loading::requireFacts;
using loading::setMachine;

} // namespace sluice::cli
