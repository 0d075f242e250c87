// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// Recurrences in both directions.

#rows = #dispatch.domain<batch = 2, positions = 9, factor = 1>
#row = #dispatch.access<row, factor = 1>
#before = #dispatch.access<row[p - 1], factor = 1>
func.func @f(%u: tensor<4x4xf32>, %x: tensor<2x9x4xf32>, %bits: tensor<2x9xi32>) {
  // CHECK: dispatch.recurrence
  // CHECK-SAME: weighted
  %h = dispatch.recurrence %u, %x attributes {domain = #rows, accesses = [#row], columns = 4 : i64, carried = 1 : i64, weighted} {
  ^bb0(%product: f32, %a: f32, %old: f32):
    %next = arith.addf %product, %a : f32
    dispatch.yield %next : f32
  } : (tensor<4x4xf32>, tensor<2x9x4xf32>) -> tensor<2x9x4xf32>
  // CHECK: dispatch.recurrence
  // CHECK-SAME: adjoint
  // CHECK-SAME: resets, reversed
  %g = dispatch.recurrence %x, %h, %bits attributes {domain = #rows, accesses = [#row, #before], columns = 2 : i64, carried = 1 : i64,
      reversed, adjoint, resets, reset_every = 3 : i64} {
  ^bb0(%a0: f32, %a1: f32, %h0: f32, %h1: f32, %g0: f32, %g1: f32):
    dispatch.yield %a0, %h1 : f32, f32
  } : (tensor<2x9x4xf32>, tensor<2x9x4xf32>, tensor<2x9xi32>) -> tensor<2x9x4xf32>
  return
}
