// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef SLUICE_CONVERSION_PASSES_TD
#define SLUICE_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignWeights : Pass<"spec-assign-weights", "::mlir::ModuleOp"> {
  let summary = "Lists the trained tensors of expanded models";
  let description = [{
    Before: models of primitive stages that `verifyExpandedModel` accepts. After: a `spec.weight` for each trained tensor follows the stages, in the order of files. A tied
    head or loss has the name of the table that it reads, `table`; a layer with biases of `xl_shared` has the path of the layer that
    owns them, `biases_from`.

    Fails where a frozen stage has no weights, where no stage is trained, where layers that share biases differ in their columns, and
    where a model has too many parameters.

    ```mlir
    %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
    spec.head %0 {tied = true, path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
    // becomes
    %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
    spec.head %0 {tied = true, path = "stages.1", table = "stages.0.token.weight"} : (!spec.stream<tokens, 8>) -> ()
    spec.weight @stages.0.token.weight {path = "stages.0", shape = array<i64: 16, 8>, initial = #spec<initial normal>, deviation = 2.0e-02 : f64}
    ```
  }];
}

def ConvertSpecToSluice : Pass<"convert-spec-to-sluice", "::mlir::ModuleOp"> {
  let summary = "Converts a model of primitive stages to the model dialect";
  let description = [{
    Before: one `spec.model` of primitive stages with its weights (`spec-assign-weights`). After: the module has the axes and scales, the
    parameters, and the functions `@evaluate`, `@predict` and, where training computes something else, `@train`. Each op has the
    location of its stage. Weights of query, key and value become one parameter; tables of constants are frozen parameters.
  }];
  let dependentDialects = ["::sluice::SluiceDialect", "::sluice::dispatch::DispatchDialect", "::mlir::func::FuncDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

#endif // SLUICE_CONVERSION_PASSES_TD
