// Dispatches are not model ops, and a plan has no functions: passes of the levels before reject
// them.
// RUN: not sluice-opt %s --sluice-convert-factors 2>&1 | FileCheck %s
// RUN: not sluice-opt %s --sluice-differentiate 2>&1 | FileCheck %s
// RUN: not sluice-opt %s --sluice-derive-step 2>&1 | FileCheck %s
// RUN: not sluice-opt %s --sluice-form-dispatches 2>&1 | FileCheck %s
// CHECK: level-dispatches.mlir:[[#@LINE+17]]:{{.*}} error: expected a function of model ops alone, found plan.bind

// RUN: sluice-opt %s --sluice-emit-plan -o %t.plan
// RUN: not sluice-opt %t.plan --sluice-emit-plan 2>&1 | FileCheck %s --check-prefix=PLAN
// RUN: not sluice-opt %t.plan --sluice-separate-places 2>&1 | FileCheck %s --check-prefix=PLAN
// RUN: not sluice-opt %t.plan --sluice-form-dispatches 2>&1 | FileCheck %s --check-prefix=PLAN
// PLAN: error: expected functions of {{dispatches|model ops}}, found a plan

// RUN: sluice-opt %s --sluice-generate-kernels -o %t.kernels
// RUN: not sluice-opt %t.kernels --sluice-emit-plan 2>&1 | FileCheck %s --check-prefix=KERNELS
// RUN: not sluice-opt %t.kernels --sluice-plan-memory 2>&1 | FileCheck %s --check-prefix=KERNELS
// RUN: not sluice-opt %t.kernels --sluice-convert-factors 2>&1 | FileCheck %s --check-prefix=KERNELS
// KERNELS: error: expected a function of {{dispatches|model ops}} alone, found {{(arith|memref|affine|scf|vector)}}
#row = #dispatch.access<row, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  func.func @predict() {
    // Named memory is of the dispatches' level.
    %x = plan.bind "input:x" : tensor<1x8x16xf32>
    %y = dispatch.rows %x attributes {domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>, accesses = [#row], result_accesses = [#row]} {
    ^bb0(%r: tensor<16xf32>):
      dispatch.yield %r : tensor<16xf32>
    } : (tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
    plan.store "output:y", %y : tensor<1x8x16xf32>
    return
  }
}
