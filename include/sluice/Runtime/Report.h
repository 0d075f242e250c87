// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A run as one HTML page.
#pragma once

#include "sluice/Runtime/Files.h"

#include <string>

namespace sluice::runtime {

/// One self-contained page (no scripts, nothing fetched): curves from metrics.jsonl, samples.jsonl,
/// costs.json, and where the run holds them eval.json (of `sluice eval --json`), ngram.json (of
/// `sluice ngram --json`) and causality.svg (of `sluice check --picture`). Throws UserError where
/// `run` is no run.
std::string makeReport(const Path &run);

} // namespace sluice::runtime
