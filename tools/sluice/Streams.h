// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model's streams, by the names that users give.
#pragma once

#include "Common.h"

namespace sluice::cli {

struct ModelStream {
  std::string stage;  ///< what makes it: "stages.1.inside.4"
  int64_t factor = 1; ///< of its scale: row m stands for tokens from factor * m
};

/// The stream that a stage's `to` names, or the result of a stage ("stages.1.inside.4"). Throws
/// UserError with `flag` where the artifact's spec has none like it on the tokens' axis.
ModelStream findStream(const runtime::Plan &plan, const std::string &flag, const std::string &name);

/// An executor whose entry `predict` gives the stream's rows.
std::unique_ptr<runtime::Executor> openStream(const runtime::Artifact &artifact,
                                              const ModelStream &stream,
                                              const DeviceOptions &device);

} // namespace sluice::cli
