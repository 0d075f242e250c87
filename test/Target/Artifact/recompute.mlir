// A chain of six dispatches whose results the backward pass reads in reverse order. All six results take 24576 bytes, and the
// whole arena 40960. For less, some of them are recomputed, each directly before the first dispatch that reads it.
// RUN: sluice-opt %s --sluice-recompute=memory-budget=40960 | FileCheck %s --check-prefix=FULL
// RUN: sluice-opt %s --sluice-recompute=memory-budget=36864 | FileCheck %s
// RUN: sluice-opt %s --sluice-recompute=memory-budget=36864 --cse --canonicalize --sluice-plan-memory | FileCheck %s --check-prefix=PLAN
// RUN: sluice-opt %s --sluice-recompute=memory-budget=32768 | FileCheck %s --check-prefix=BUDGET
// RUN: not sluice-opt %s --sluice-recompute=memory-budget=100 2>&1 | FileCheck %s --check-prefix=MINIMUM

// FULL-NOT: recomputed

// CHECK-LABEL: func.func @gradient
// CHECK:         %[[X:.*]] = plan.bind "input:x"
// CHECK-COUNT-6: dispatch.rows %{{.*}} attributes {accesses = [#dispatch.access<{{[^>]*}}>], domain
// CHECK-COUNT-5: backward, domain = {{.*}}>, result_accesses
// CHECK:         %[[FIRST:.*]] = dispatch.rows %[[X]] {{.*}} backward, domain = {{.*}}>, recomputed
// CHECK-NOT:     recomputed
// CHECK:         dispatch.rows %{{.*}}, %[[FIRST]] attributes {{.*}} backward, domain = {{.*}}>, result_accesses
// CHECK-NOT:     recomputed

// BUDGET:         %[[X:.*]] = plan.bind "input:x"
// BUDGET-NOT:     backward
// BUDGET:         dispatch.rows %[[X]]
// BUDGET-NOT:     backward
// BUDGET:         %[[SECOND:.*]] = dispatch.rows
// BUDGET:         %[[THIRD:.*]] = dispatch.rows %[[SECOND]] {{.*}} backward, {{.*}}, recomputed
// BUDGET:         dispatch.rows %{{.*}}, %[[THIRD]] attributes
// BUDGET:         dispatch.rows %{{.*}}, %[[SECOND]] attributes
// BUDGET:         %[[FIRST:.*]] = dispatch.rows %[[X]] {{.*}} backward, {{.*}}, recomputed
// BUDGET:         dispatch.rows %{{.*}}, %[[FIRST]] attributes

// PLAN: plan.arena_bytes = 36864 : i64

// MINIMUM: expected a memory-budget of at least 32768 bytes, found 100

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 64, factor = 1>

func.func @gradient() {
  %x = plan.bind "input:x" : tensor<1x64x16xf32>
  %a1 = dispatch.rows %x attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>):
    %y = math.exp %r : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %a2 = dispatch.rows %a1 attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>):
    %y = math.exp %r : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %a3 = dispatch.rows %a2 attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>):
    %y = math.exp %r : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %a4 = dispatch.rows %a3 attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>):
    %y = math.exp %r : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %a5 = dispatch.rows %a4 attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>):
    %y = math.exp %r : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %a6 = dispatch.rows %a5 attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>):
    %y = math.exp %r : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %g6 = dispatch.rows %x, %a6 attributes {domain = #domain, accesses = [#row, #row], result_accesses = [#row], backward} {
  ^bb0(%r: tensor<16xf32>, %s: tensor<16xf32>):
    %y = arith.mulf %r, %s : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>, tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %g5 = dispatch.rows %g6, %a5 attributes {domain = #domain, accesses = [#row, #row], result_accesses = [#row], backward} {
  ^bb0(%r: tensor<16xf32>, %s: tensor<16xf32>):
    %y = arith.mulf %r, %s : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>, tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %g4 = dispatch.rows %g5, %a4 attributes {domain = #domain, accesses = [#row, #row], result_accesses = [#row], backward} {
  ^bb0(%r: tensor<16xf32>, %s: tensor<16xf32>):
    %y = arith.mulf %r, %s : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>, tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %g3 = dispatch.rows %g4, %a3 attributes {domain = #domain, accesses = [#row, #row], result_accesses = [#row], backward} {
  ^bb0(%r: tensor<16xf32>, %s: tensor<16xf32>):
    %y = arith.mulf %r, %s : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>, tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %g2 = dispatch.rows %g3, %a2 attributes {domain = #domain, accesses = [#row, #row], result_accesses = [#row], backward} {
  ^bb0(%r: tensor<16xf32>, %s: tensor<16xf32>):
    %y = arith.mulf %r, %s : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>, tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %g1 = dispatch.rows %g2, %a1 attributes {domain = #domain, accesses = [#row, #row], result_accesses = [#row], backward} {
  ^bb0(%r: tensor<16xf32>, %s: tensor<16xf32>):
    %y = arith.mulf %r, %s : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>, tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  plan.store "output:y", %g1 : tensor<1x64x16xf32>
  return
}
