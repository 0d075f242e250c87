// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Data of the C interface: files and arrays that a model is trained or evaluated on.
#pragma once

#include "Lines.h"
#include "sluice/Runtime/Execute/HeldOut.h"

#include <memory>

/// Data for training, or held-out data.
struct sluice_data {
  std::shared_ptr<sluice::interface::LoadedModel> state;
  std::unique_ptr<const sluice::runtime::TrainingSource> source;
  std::unique_ptr<const sluice::runtime::HeldOut> heldOut; ///< null with `source`
  bool isInOrder = false;
  int64_t seed = 0; ///< of the order of rows
};
