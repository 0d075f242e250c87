// A dispatch writes one memory: a value stored in two places is computed twice.
// RUN: sluice-opt %s --cse --sluice-separate-places --sluice-plan-memory | FileCheck %s

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 0>

// CHECK-LABEL: func.func @zeros
// CHECK:         %[[A:.*]] = dispatch.rows
// CHECK:         %[[B:.*]] = dispatch.rows
// CHECK-NOT:     dispatch.rows
// CHECK:         plan.store "state:a", %[[A]]
// CHECK:         plan.store "state:b", %[[B]]
func.func @zeros() {
  %a = dispatch.rows attributes {domain = #domain, accesses = [], result_accesses = [#row]} {
    %zero = arith.constant dense<0.0> : tensor<16xf32>
    dispatch.yield %zero : tensor<16xf32>
  } : () -> tensor<1x8x16xf32>
  %b = dispatch.rows attributes {domain = #domain, accesses = [], result_accesses = [#row]} {
    %zero = arith.constant dense<0.0> : tensor<16xf32>
    dispatch.yield %zero : tensor<16xf32>
  } : () -> tensor<1x8x16xf32>
  plan.store "state:a", %a : tensor<1x8x16xf32>
  plan.store "state:b", %b : tensor<1x8x16xf32>
  return
}
