// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams of a model, by user-visible names.
#pragma once

#include "sluice/Loading/DeviceOptions.h"

namespace sluice::loading {

struct ModelStream {
  std::string stage;  ///< its source: "stages.1.inside.4"
  int64_t factor = 1; ///< of its scale: row m covers tokens from factor * m
};

/// Returns the stream of a stage's `to`, or the result of a stage ("stages.1.inside.4"). Throws
/// UserError with `flag` if the artifact's spec has none on the tokens' axis.
ModelStream findStream(const runtime::Plan &plan, const std::string &flag, const std::string &name);

/// Returns an executor whose entry `predict` returns the stream's rows.
std::unique_ptr<runtime::Executor> openStream(const runtime::Artifact &artifact,
                                              const ModelStream &stream,
                                              const DeviceOptions &device);

} // namespace sluice::loading
