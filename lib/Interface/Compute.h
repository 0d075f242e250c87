// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training steps of the C interface, and their gradients.
#pragma once

#include "Model.h"
#include "sluice/Runtime/Execute/Evaluator.h"

#include <functional>

namespace sluice::interface {

/// Writes batch `i` of a training step, and may choose its size.
using BatchWriter = std::function<void(runtime::Executor &executor, int64_t i)>;

/// Performs the next training step. `result` may be null. Throws NotFiniteError.
void trainStep(LoadedModel &state, const BatchWriter &write, sluice_step *result);

/// Copies the gradients of the next step to `gradients`, of `elements` numbers; nowhere if it is
/// null. Throws UserError for another number of elements, and for a model that computes an update
/// from several batches.
void copyGradients(LoadedModel &state, const BatchWriter &write, float *gradients, int64_t elements,
                   sluice_step *result);

/// Evaluates with the windows of `evaluation`, which receives the results. `score` runs the
/// evaluation.
void reportEvaluation(
    LoadedModel &state, sluice_evaluation *evaluation,
    const std::function<runtime::EvaluationResult(const runtime::EvaluationOptions &)> &score);

} // namespace sluice::interface
