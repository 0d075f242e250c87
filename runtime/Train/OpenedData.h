// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "RunData.h"

namespace sluice::runtime {

/// Training data that were opened before the executor.
struct OpenedData {
  Plan plan; ///< describes the data; sources refer to it
  RunData files;
  std::unique_ptr<TrainingSource> source;
};

} // namespace sluice::runtime
