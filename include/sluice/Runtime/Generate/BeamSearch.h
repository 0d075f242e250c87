// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Continues several texts by beam search over a model's predictions.
#pragma once

#include "sluice/Runtime/Generate/Beam.h"
#include "sluice/Runtime/Generate/Generator.h"

namespace sluice::runtime {

/// Returns the number of tokens that can be written after `text` within the context.
int64_t getBeamRoom(const Plan &plan, const Text &text);

/// Throws UserError if the predictor has fewer rows than a text has hypotheses.
void requireBeamRows(const Predictor &predictor, const BeamOptions &options);

/// Continues each of `texts` by the best continuation that beam search finds, of at most `limit`
/// tokens or those that fit into the context, and sets its score. The hypotheses of a text use
/// `options.width` rows of the predictor; other texts wait for rows. The result for a text depends
/// only on the text, the options and the weights. `sink.write` receives a text as a whole, without
/// the end. `beforeStep` runs before each prediction, and may throw to end the search. Throws
/// UserError, before anything is written, if the predictor has too few rows.
void searchTexts(Executor &executor, Predictor &predictor, std::span<Text> texts, int64_t limit,
                 const BeamOptions &options, const TextSink &sink,
                 const TokenSpelling &spelling = {}, const std::function<void()> &beforeStep = {});

} // namespace sluice::runtime
