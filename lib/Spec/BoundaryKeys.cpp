// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys of the stage that cuts into segments.
#include "LayerKeys.h"
#include "sluice/Spec/Spec.h"

namespace sluice::spec {

Keys boundaryKeys() {
  return {
      {"name", "string", "names the segments", "required", {}},
      {"rule",
       "string",
       "where a bit stands: a byte of ASCII's whitespace, every factor-th position, or a byte "
       "like a space behind one that is not, or labels of a file, or where a loss's softmax is "
       "unsure, or where a row adds much to a coding rate; beside a predictor, its labels",
       "required without `predictor` and `ratio`",
       {boundaryRuleNames.begin(), boundaryRuleNames.end()}},
      {"factor", "integer >= 1", "positions of a segment of the rule every", "needed there", {}},
      {"loss",
       "name of a loss",
       "of the rule entropy: whose softmax it is of; beside a predictor a later one too, or next, "
       "the head's",
       "needed there",
       {}},
      {"rise", "number >= 0", "of the rule entropy: a bit is where it rises by more", "none", {}},
      {"spike",
       "integer from 1 to 8",
       "of the rule entropy: a bit is where it is above that of each of so many rows before",
       "none",
       {}},
      {"threshold",
       "number >= 0",
       "of the rules entropy and coding_rate, in nats: a bit is above it",
       "needed there without `rise`, `spike` or `top`",
       {}},
      {"top",
       "number > 0 and <= 1",
       "of the rule coding_rate, without threshold: the share of rows, those of the greatest "
       "rates; it leaks",
       "none",
       {}},
      {"epsilon", "number > 0", "of the rule coding_rate: distortion of a column", "1 there", {}},
      {"window",
       "integer from 1 to 8",
       "of it: rows before that a row is compared with",
       "4 there",
       {}},
      {"at", "string", "what a bit's token does to its segment", "end", {"end", "start"}},
      {"mode",
       "string",
       "where the paper of dynamic pooling and its public code differ, whose way this goes",
       "paper",
       {"paper", "reference-code"}},
      {"ratio",
       "number > 1, or one that moves",
       "of a router, which compares each row with the one before: rows of a segment it aims at",
       "none",
       {}},
      {"predictor",
       "integer >= 1",
       "hidden width of two linear maps that predict boundaries from the stream",
       "none",
       {}},
      {"prior",
       "number > 0 and < 1, or one that moves",
       "of a predictor without rule: the share of tokens that should end a segment",
       "needed there",
       {}},
      {"prior_logit",
       "boolean",
       "of a predictor without rule: adds the logit of its (first) prior to what it predicts, so "
       "that probabilities begin near the prior",
       "false there",
       {}},
      {"temperature", "number > 0", "of its Gumbel-sigmoid, in training", "0.5 there", {}},
      {"weight",
       "number > 0",
       "what the loss of a predictor or router counts",
       "1, of a router 0.03",
       {}},
      {"document_end",
       "integer >= 0",
       "a token that ends a segment, whatever the rule, predictor or router says",
       "none",
       {}},
      {"capacity",
       "number > 0 and <= 1",
       "most segments of a row of a batch, as a share of the context; more end the run",
       "1, of the rule every 1 / factor",
       {}}};
}

} // namespace sluice::spec
