// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The flag --set, and recompilation of an artifact's spec.
#pragma once

#include "Common.h"
#include "sluice/Driver/Driver.h"

#include <string>
#include <vector>

namespace sluice::cli {

/// Adds `--set KEY=VALUE`, which may be given several times.
void addSettings(CLI::App &command, std::vector<std::string> &written, const std::string &help);

/// Parses the values of `--set`. Throws UserError.
std::vector<spec::SpecOverride> parseSettings(const std::vector<std::string> &written);

/// Recompiles the spec of `artifact` in memory, with the options of `request` except spec and
/// targets (settings, everyRow), only for the device, and opens it. The same request gives the same
/// code each time; an allowed leak of the artifact stays allowed. Throws UserError, also if the
/// artifact has model IR instead of a spec.
std::unique_ptr<runtime::Executor> recompile(const runtime::Artifact &artifact,
                                             driver::CompileRequest request,
                                             const DeviceOptions &device);

/// Returns the target for this machine's CPU: SLUICE_CPU_TARGET if set, else the best one that the
/// machine runs, or "cpu", code for other machines, if it runs none.
std::string chooseCpuTarget();

/// Compiles a spec, `request.spec` and its text, in memory for this machine's CPU and opens it; a
/// leak is allowed. Throws UserError.
std::unique_ptr<runtime::Executor> compileForCpu(driver::CompileRequest request,
                                                 DeviceOptions device);

/// Reads the artifact's spec with settings. Throws UserError, located in NAME.json, if it is not
/// valid, or if the artifact has model IR instead of a spec.
void checkSettings(const runtime::Plan &plan, const std::vector<spec::SpecOverride> &settings);

/// Returns the facts of the artifact's spec. Throws UserError if the plan has none: the artifact
/// has model IR instead of a spec, or is of an earlier version.
const runtime::SpecFacts &requireFacts(const runtime::Plan &plan);

} // namespace sluice::cli
