// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What data say beside the tokens. Apart from Sluice.td, as few programs need it.

#ifndef SLUICE_LABELS_TD
#define SLUICE_LABELS_TD

include "sluice/Dialect/Sluice/Hashed.td"

def Sluice_LabelsOp : Sluice_ForwardOp<"labels", [FusedBody]> {
  let summary = "y[p] = what data beside the tokens say of token p, 0 or 1: for losses, which no row reads";
  let description = [{
    A tokenizer's segments, or what another model found, follow from the whole text. So a label reads every token, and a
    prediction that reads it is refused. The host gives f32 [B, T] as `label`. The reference does not have them. There a label is 1
    where p and the tokens add up to an odd number, which stands for any rule that looks ahead.
  }];
  let arguments = (ins Sluice_Sequence:$tokens, StrAttr:$label);
  let results = (outs Sluice_Sequence:$result);
  let assemblyFormat = "$label `of` $tokens attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif
