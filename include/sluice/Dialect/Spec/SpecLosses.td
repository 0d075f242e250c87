// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses among rows. A part of Spec.td.

#ifndef SLUICE_SPEC_LOSSES_TD
#define SLUICE_SPEC_LOSSES_TD

include "sluice/Dialect/Spec/SpecStages.td"

def Spec_ContrastOp
    : Spec_Sink<
          "contrast",
          "Contrastive loss: row j - 1 of the stream against row j of the candidates, among all "
          "candidates of the batch.",
          [TextKey<"name", "string", "name of this loss in reports", "`next` where it is last">,
           PositiveKey<"factor", "weight of its mean in the training objective", "1", "1">,
           AttentionStreamKey<"candidates",
                              "the stream of candidates, on the scale and of the width of the "
                              "stream">,
           HeadShiftKey,
           IntegerKey<"first", "first group that is a candidate, for streams of groups", "0", "0",
                      "", "0">,
           IntegerKey<"extra_batches",
                      "in training, the last n of n + 1 equal parts of the batch give candidates "
                      "alone",
                      "0", "0", "", "0">],
          (ins Spec_Stream:$input, Spec_Stream:$candidates)> {
  let commonKeys = [OpKey, FromKey];
  let extraClassDeclaration = [{
    /// Returns the shift: row t uses group (t - shift) div f. The key "shift", or the scale's
    /// factor - 1.
    int64_t getShiftOrDefault();
    /// Returns the name of the loss.
    ::llvm::StringRef getLossName();
  }];
}

#endif // SLUICE_SPEC_LOSSES_TD
