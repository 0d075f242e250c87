// Model ops are not dispatches. Passes over dispatches would skip them, and leave a plan or kernels without them.
// RUN: not sluice-opt %s --sluice-emit-plan 2>&1 | FileCheck %s
// RUN: not sluice-opt %s --sluice-generate-kernels 2>&1 | FileCheck %s
// RUN: not sluice-opt %s --sluice-generate-kernels=target=sm_80 2>&1 | FileCheck %s
// RUN: not sluice-opt %s --sluice-recompute=memory-budget=1 2>&1 | FileCheck %s
// RUN: not sluice-opt %s --sluice-plan-memory 2>&1 | FileCheck %s
// RUN: not sluice-opt %s --sluice-separate-places 2>&1 | FileCheck %s
// CHECK: level-model.mlir:[[#@LINE+10]]:{{.*}} error: expected a function of dispatches alone, found sluice.shift; run sluice-form-dispatches before

// A GPU's kernels are made for the batch and the context.
// RUN: echo 'func.func @nothing() { return }' | not sluice-opt --sluice-generate-kernels=target=sm_80 2>&1 | FileCheck %s --check-prefix=SIZES
// SIZES: expected the module attribute sluice.context
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  func.func @predict(%x: !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32> {
    // One op is enough.
    %y = sluice.shift %x by 1 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    return %y : !sluice.seq<@s1, 4, f32>
  }
}
