// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts the steps of epochs, before a model is compiled with a schedule that ends at the last one.
#pragma once

#include "sluice/Runtime/Train/Trainer.h"

namespace sluice::runtime {

struct EpochSteps {
  int64_t rows = 0;         ///< rows of an epoch
  int64_t rowsOfUpdate = 0; ///< rows of a step; 0 if steps have different numbers of rows
  int64_t steps = 0;        ///< number of steps in all, counted from the start of the run
  bool isOver = false;      ///< the run has passed the last step of the epochs
};

/// Opens the training data into `options.opened`, and counts the steps after which `epochs` epochs
/// are read: of a resumed run, the steps of its checkpoint and the steps for the rows after it. If
/// the last step has rows left, it reads the first rows of the next epoch. A run that has passed
/// the epochs has the steps of its checkpoint. `plan` needs the batch, the shape and the order of
/// the data; its kernels are unused. Throws UserError for bad data.
EpochSteps countSteps(TrainingOptions &options, const Plan &plan, int64_t epochs);

} // namespace sluice::runtime
