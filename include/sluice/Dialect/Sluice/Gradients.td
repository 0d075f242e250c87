// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of parameters that several stages read. Separate from Sluice.td, as few programs need
// them.

#ifndef SLUICE_GRADIENTS_TD
#define SLUICE_GRADIENTS_TD

include "sluice/Dialect/Sluice/Labels.td"

def Sluice_AddGradientsOp
    : Sluice_BackwardOp<"add_gradients", [FusesAs<"Alone">,
                                          AllTypesMatch<["sum", "gradient", "result"]>]> {
  let summary = "Sum of two gradients of a parameter that several stages read";
  let description = [{
    Two stages need it where no op accumulates their gradients: of a norm's gain and bias, of
    learned first rows, and of tables by position and by distance. More than two stages always need
    it, and their gradients are added in the order of the stages.

    Example:

    ```mlir
    %sum = sluice.add_gradients %first, %second : tensor<8xf32>
    ```

    Constraints:
    - S-149: gradients are f32 vectors or matrices.
  }];
  let arguments = (ins AnyRankedTensor:$sum, AnyRankedTensor:$gradient);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "operands attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif
