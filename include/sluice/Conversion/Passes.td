// Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef SLUICE_CONVERSION_PASSES_TD
#define SLUICE_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ChooseFactor : Pass<"spec-choose-factor", "::mlir::ModuleOp"> {
  let summary = "Gives levels of an hourglass that draw a factor one of them";
  let description = [{
    Shorten-factor dropout (Nawrot et al. 2021, section 4.1) trains one model for each factor of a
    set, with the same weights. Before: levels such as `8@{2,3}` of at most one hourglass. After: no
    level draws; those that drew have `factor`, or without the option the least of the set. A model
    without such levels stays as it is. Reports an error where the set does not have the factor, and
    where a second hourglass draws.

    ```mlir
    %1 = spec.hourglass %0 {hierarchy = "2@1 8@{2,3} 2@1", heads = 4 : i64, ...}
    // becomes, with factor=3
    %1 = spec.hourglass %0 {hierarchy = "2@1 8@3 2@1", heads = 4 : i64, ...}
    ```
  }];
  let options = [Option<"factor", "factor", "int64_t", "0", "The factor; 0: the least of the set">];
  let dependentDialects = ["::sluice::spec::SpecDialect"];
}

def ExpandComposites : Pass<"spec-expand-composites", "::mlir::ModuleOp"> {
  let summary = "Replaces composite stages by primitive ones";
  let description = [{
    Before: models of verified stages, whose hourglasses draw no factor (`spec-choose-factor`).
    After: all stages are primitive, in the order of their execution. Stage K that replaces the
    stage "stages.3" has the path "stages.3.inside.K", is frozen where that one is, and has its
    `share`. Reports errors of the new stages at the keys of the composite one, and stops at the
    first.

    Layer composites have one place for all their stages, the key `hierarchy`; lists of stages have
    the composite's brace.

    ```mlir
    %1 = spec.layers %0 {count = 2 : i64, heads = 4 : i64, path = "stages.1", ...}
    // becomes
    %1 = spec.layer %0 {heads = 4 : i64, path = "stages.1.inside.0", ...}
    %2 = spec.layer %1 {heads = 4 : i64, path = "stages.1.inside.1", ...}
    ```
  }];
  let dependentDialects = ["::sluice::spec::SpecDialect"];
}

def AssignWeights : Pass<"spec-assign-weights", "::mlir::ModuleOp"> {
  let summary = "Lists the trained tensors of expanded models";
  let description = [{
    Before: models of primitive stages that `verifyExpandedModel` accepts. After: a `spec.weight`
    for each trained tensor follows the stages, in the order of files. A stage that reads tensors of
    an earlier one has their names in `shared_weights`, by the names that they would have in the
    stage itself: stages with one `share`, a tied head or loss, and layers with biases of
    `xl_shared`.

    A trained weight that the pattern of a `spec.group` matches has the number of the first such
    group, `group`.

    Fails where stages with one `share` differ in their tensors or are not all frozen, where layers
    that share biases differ in their columns, and where two keys name different tensors. It also
    fails where a frozen stage has no weights, where no stage is trained, where a model has too many
    parameters, and where no weight belongs to a group.

    ```mlir
    %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
    spec.head %0 {tied = true, path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
    // becomes
    %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
    spec.head %0 {tied = true, path = "stages.1",
                  shared_weights = {weight = "stages.0.token.weight"}}
        : (!spec.stream<tokens, 8>) -> ()
    spec.weight @stages.0.token.weight {path = "stages.0", shape = array<i64: 16, 8>,
        initial = #spec<initial normal>, deviation = 2.0e-02 : f64}
    ```
  }];
}

def ConvertSpecToSluice : Pass<"convert-spec-to-sluice", "::mlir::ModuleOp"> {
  let summary = "Converts a model of primitive stages to the model dialect";
  let description = [{
    Before: one `spec.model` of primitive stages with its weights (`spec-assign-weights`). After:
    the module has the axes and scales, the parameters, and the functions `@evaluate`, `@predict`
    and, where training computes something else, `@train`. Each op has the location of its stage.
    Weights of query, key and value become one parameter; tables of constants are frozen parameters.
  }];
  let dependentDialects = ["::sluice::SluiceDialect", "::sluice::dispatch::DispatchDialect",
                           "::mlir::func::FuncDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

#endif // SLUICE_CONVERSION_PASSES_TD
