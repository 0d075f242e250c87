// The bytes of each tensor in the arena.
// RUN: sluice-opt %s --sluice-plan-memory | FileCheck %s
// RUN: sluice-opt %s --sluice-plan-memory --sluice-plan-memory | FileCheck %s --check-prefix=REPLANNED

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 64, factor = 1>

// CHECK:       module attributes {plan.arena_bytes = [[ARENA:.*]] : i64}

// %a is dead when %c is made, which takes its bytes; %b is live together with both.
// CHECK-LABEL: func.func @chain
// CHECK:         dispatch.rows {{.*}} plan.offsets = array<i64: [[A:[0-9]+]]>
// CHECK:         dispatch.rows {{.*}} plan.offsets = array<i64: [[B:[0-9]+]]>
// CHECK:         dispatch.rows {{.*}} plan.offsets = array<i64: [[A]]>
// CHECK:         dispatch.rows {{.*}} plan.offsets = array<i64: [[RESULT:[0-9]+]]>
func.func @chain() {
  %x = plan.bind "input:x" : tensor<1x64x16xf32>
  %a = dispatch.rows %x attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>):
    %y = arith.addf %r, %r : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %b = dispatch.rows %a attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>):
    %y = arith.mulf %r, %r : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %c = dispatch.rows %b attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>):
    %y = arith.negf %r : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  %d = dispatch.rows %b, %c attributes {domain = #domain, accesses = [#row, #row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>, %s: tensor<16xf32>):
    %y = arith.addf %r, %s : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x64x16xf32>, tensor<1x64x16xf32>) -> tensor<1x64x16xf32>
  plan.store "output:y", %d : tensor<1x64x16xf32>
  return
}

// CHECK-DAG:   plan.buffer "input:x" at {{.*}} bytes 4096 device 0
// CHECK-DAG:   plan.buffer "output:y" at [[RESULT]] bytes 4096 device 0

// Planned anew, each place has one buffer all the same.
// REPLANNED:     plan.buffer "input:x"
// REPLANNED-NOT: plan.buffer "input:x"
