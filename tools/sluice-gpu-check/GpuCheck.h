// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks results and speed of kernels on a machine with a GPU.
#pragma once

#include "sluice/Runtime/Device/Device.h"
#include "sluice/Support/Files.h"
#include "sluice/Support/Json.h"

#include <nlohmann/json.hpp>

#include <string>

namespace sluice::gpucheck {

using sluice::Json; // for sources that use this namespace

/// Prints notes about the device once.
void tellNotice(const runtime::Device &device);

/// Runs a recording on a device ("cuda" or "emulator") with the code of `target`, and reports the
/// result: {"artifact", "target", "kernels": [{"kernel", "checked", "unbounded", "wrong",
/// "differing", "first"}]}. Writes the device's results to `goldens` unless empty.
Json checkRecording(const Path &artifact, const Path &recording, const std::string &device,
                    const std::string &target, const Path &goldens);

/// Compares a gradient's graphs with serial launches ("error" where they differ, or the loss is not
/// finite), and times complete training steps and each of their kernels on the GPU: {"artifact",
/// "target", "step_ms", "tokens_per_s", "loss", "kernels": [{"kernel", "kind", "launches",
/// "seconds", "flops", "bytes"}]}, seconds and counts of one step, medians of several.
Json timeArtifact(const Path &artifact);

/// Sends the gradients' memory of one of `size` processes to all of them, and to itself, by NCCL,
/// and compares what arrives: {"gpu", "rank", "ranks", "bytes" (to each), "wrong" (bytes),
/// "seconds" (the fastest exchange of several)}. The processes find one another in `folder`, empty
/// before. Throws UserError and JobError.
Json checkExchange(const Path &artifact, int64_t rank, int64_t size, const Path &folder);

/// Returns the GB/s of a copy within the GPU's memory, counting read and written bytes.
double copyBandwidth();

/// Runs everything that bundle.json of `bundle` lists, in the first GPU's memory. Writes the
/// goldens to `folder`, and sluice.json after each artifact. The result has wrong numbers, and
/// failures as "error"; nothing is thrown for them.
Json runBundle(const Path &bundle, const Path &folder);

/// Returns the short table of a run, with `torch` (the output of gpu_check_torch.py; null without
/// it).
std::string makeTable(const Json &bundle, const Json &ours, const Json &torch);

/// Returns true if nothing failed, no kernel was wrong, and each had a number with a bound.
bool passed(const Json &ours);

/// Returns true if a checked kernel had no wrong number, and at least one with a bound.
bool isRight(const Json &kernel);

/// Reads a JSON file. Throws UserError.
Json readJson(const Path &path, const std::string &what);

} // namespace sluice::gpucheck
