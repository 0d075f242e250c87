// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prepares tokens for measured steps, and measures the cost of a step.
#pragma once

#include "sluice/Runtime/Data/Sources.h"
#include "sluice/Runtime/Execute/Executor.h"
#include "sluice/Runtime/Execute/HeldOut.h"

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::cli {

/// Fills in the tokens of each row of the batch: from a file, or with frequencies as in text if
/// `file` is empty. If `forcedFactor` is not 0, places white space at every forcedFactor-th
/// position and nowhere else. Throws UserError if the model has no ids for that, or the file too
/// few bytes.
void fillTokens(runtime::Executor &executor, const std::string &file, int64_t forcedFactor,
                const runtime::InputFiles &labels = {},
                const runtime::ReadingOptions &reading = {});

/// Fills in the first batch that training with these files and the model's seed has.
void fillBatch(runtime::Executor &executor, const runtime::SourceFiles &files);

/// Returns the predicted tokens of an update in which each batch is the present one.
int64_t countTokens(runtime::Executor &executor);

/// Puts a space at every factor-th position of a row and nowhere else, so that white space ends a
/// segment there. Throws UserError likewise.
void forceSpaces(std::span<int32_t> tokens, int64_t factor, const runtime::ModelFacts &model);

/// Returns the measured shortening of the previous step, see runtime::measureShortening.
nlohmann::json measureShortening(runtime::Executor &executor);
/// Checks that the forced factor matches the tokens' segments: bits from a predictor, or from
/// another rule, do not depend on spaces. Segments of segments are not checked. Throws UserError if
/// they differ; does nothing if `factor` is 0.
void requireForced(const nlohmann::json &shortening, int64_t factor, const runtime::Plan &plan);

/// Seconds of one training step of complete rows.
double trainingStep(runtime::Executor &executor, int64_t step);

/// Operations of a training step with the lines and the number of segments of the last one: linear
/// maps are proportional to their rows, attention to their square.
double flopsOfStep(runtime::Executor &executor);

} // namespace sluice::cli
