// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles the spec of a loaded artifact again.
#pragma once

#include "sluice/Driver/Driver.h"
#include "sluice/Loading/DeviceOptions.h"

#include <memory>
#include <string>
#include <vector>

namespace sluice::loading {

/// Recompiles the spec of `artifact` in memory, with the options of `request` except spec and
/// targets (settings, everyRow), only for the device, and opens it. The same request gives the same
/// code each time and on each machine, because processes of one job compare it; an allowed leak of
/// the artifact stays allowed. Throws UserError, also if the artifact has model IR instead of a
/// spec.
std::unique_ptr<runtime::Executor> recompile(const runtime::Artifact &artifact,
                                             driver::CompileRequest request,
                                             const DeviceOptions &device);

/// Sets the targets and the cache size of this machine's CPU. The targets are SLUICE_CPU_TARGET if
/// set, else the best one that the machine runs, with the next one after cpu-amx, which Linux may
/// refuse to a process; or "cpu", code for other machines, if it runs none. Code for other machines
/// has no cache size.
void setMachine(driver::CompileRequest &request);

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

} // namespace sluice::loading
