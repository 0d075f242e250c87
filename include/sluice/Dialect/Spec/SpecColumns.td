// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stages that clear rows, and that move or add columns. A part of SpecStages.td, which includes it.

def ClearBlockKey : BlockKey<"required without segments"> {
  let requiredUnless = "segments";
}
def Spec_ClearOp
    : Spec_StreamStage<"clear",
                       "Zeros at boundary bits or block starts, rows of the input elsewhere.",
                       [SegmentsKey<"name of segments", "zeros in the rows that have a bit",
                                    "block starts">,
                        ClearBlockKey, BlockStartKey<"0">],
                       (ins Spec_Stream:$input, Optional<Spec_Segmentation>:$segments)> {
  let commonKeys = [OpKey, FromKey, ToKey];
}
def Spec_FitOp
    : Spec_StreamStage<"fit", "The stream's columns from column `at` on, zeros in the others.",
                       [IntegerKey<"width", "width of the result, which cuts or pads", "required">,
                        IntegerKey<"at", "column of the result that has the first column", "0",
                                   "0", "", "0">]> {
  let commonKeys = [OpKey, FromKey, ToKey];
}
def Spec_PositionsOp
    : Spec_StreamStage<"positions", "Adds P[p] to the last columns of row p, on any scale.",
                       [IntegerKey<"columns", "number of columns, the last ones, that P has",
                                   "the width of the stream">],
                       (ins Spec_Stream:$input),
                       [DeclareOpInterfaceMethods<Spec_WeightsInterface>]>;
