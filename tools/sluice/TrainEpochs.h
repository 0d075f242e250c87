// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The flag --epochs of `sluice train`.
#pragma once

#include "sluice/Runtime/Train/Trainer.h"
#include "sluice/Spec/Override.h"

namespace sluice::cli {

/// Returns the epochs that a call counts steps from: the number given, or the number of the resumed
/// run if the call has settings, which may change the rows of a step. Empty: no count is needed.
std::optional<int64_t> chooseEpochs(const runtime::TrainingOptions &options,
                                    const std::optional<runtime::RunRecord> &told);

/// Opens the training data, sets `options.steps` to the steps of `epochs` epochs, and reports them.
/// `settings` has the settings of the run, then of the call. If the spec's schedule has an end, and
/// the call does not set it, returns the setting that moves it to the last step; else an empty
/// text. A resumed run whose number of steps is unchanged keeps its schedule. Throws UserError.
std::string countEpochs(runtime::TrainingOptions &options, const runtime::Plan &plan,
                        const std::vector<spec::SpecOverride> &settings, int64_t epochs,
                        const std::optional<runtime::RunRecord> &told);

} // namespace sluice::cli
