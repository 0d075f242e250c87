// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles entries written as dispatches to an artifact. No MLIR in this header.
#pragma once

#include <string>
#include <vector>

namespace sluice::test {

struct LoweringRequest {
  std::string text;                 ///< a module of parameters and entries of dispatches
  std::vector<std::string> targets; ///< cpu-avx2, sm_80, sm_90a
  std::string path;                 ///< of the artifact
  bool claimsLess = false;    ///< inject a fault: the first kernel's results are 64 bytes short
  int64_t workspaceBytes = 0; ///< declared requirement of the first kernel
  int64_t counters = 0;       ///< likewise
};

/// Empty, or the error.
std::string lowerToArtifact(const LoweringRequest &request);

/// Dispatches with their entries of `text`, a module of the gradient level; empty if a pass fails.
std::string lowerGradient(const std::string &text);

/// `text`, a module of any level, after upstream's canonicalize, cse and symbol-dce, each twice.
/// Empty if a pass fails or its result does not verify.
std::string runUpstreamPasses(const std::string &text);

} // namespace sluice::test
