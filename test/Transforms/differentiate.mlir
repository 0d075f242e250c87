// Reverse mode over a small model: a table read twice, a shift, a group of three, a skip. @evaluate is unchanged, @gradient is
// new.
// RUN: sluice-opt %s --sluice-differentiate | FileCheck %s
// RUN: sluice-opt %s --sluice-differentiate | sluice-opt | FileCheck %s

// A function that states no objective minimizes the mean of its losses.
// CHECK-LABEL: func.func @evaluate
// CHECK:         sluice.objective
// CHECK-NOT:   sluice.store_gradient
// CHECK-LABEL: func.func @gradient(
// CHECK-SAME:    %[[TOKENS:.*]]: !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32>
// CHECK:         %[[TABLE:.*]] = sluice.read @table
// CHECK:         %[[WEIGHT:.*]] = sluice.read @weight
// CHECK:         %[[X:.*]] = sluice.map(
// CHECK:         %[[GROUPS:.*]] = sluice.shorten
// CHECK:         %[[UP:.*]] = sluice.upsample
// CHECK:         %[[Y:.*]] = sluice.map(%[[X]], %[[UP]])

// The loss divides by the number of rows itself: no gradient of the mean is stored.
// CHECK:         sluice.begin_backward
// CHECK:         %[[LOSSES:.*]], %[[DY:.*]], %[[DHEAD:.*]] = sluice.cross_entropy_backward %[[Y]], %[[TABLE]], %[[TOKENS]]

// A product's gradients are products, by the region differentiated.
// CHECK-NEXT:    %[[DX:.*]] = sluice.map(%[[UP]], %[[DY]])
// CHECK:           arith.mulf
// CHECK:         %[[DUP:.*]] = sluice.map(%[[X]], %[[DY]])
// CHECK:           arith.mulf

// Upsampling's adjoint is the sum over groups, an average's is a third of upsampling, a shift's is the opposite shift.
// CHECK:         %[[DL:.*]] = sluice.shorten %[[DUP]] factor 3 sum
// CHECK-NEXT:    %[[DW:.*]] = sluice.linear_weight_gradient %[[DL]], %[[GROUPS]]
// CHECK-NEXT:    %[[DG:.*]] = sluice.linear_input_gradient %[[DL]], %[[WEIGHT]]
// CHECK-NEXT:    %[[THIRD:.*]] = sluice.map(%[[DG]])
// CHECK:           arith.constant 0.333333343
// CHECK:         %[[BACKUP:.*]] = sluice.upsample %[[THIRD]] factor 3
// CHECK-NEXT:    %[[BACK:.*]] = sluice.shift %[[BACKUP]] by -2

// The skip's two gradients are added; the table's second one is accumulated onto the head's.
// CHECK-NEXT:    %[[SUM:.*]] = sluice.map(%[[DX]], %[[BACK]])
// CHECK:           arith.addf
// CHECK:         %[[DTABLE:.*]] = sluice.embed_backward %[[TOKENS]], %[[SUM]], %[[DHEAD]]

// One store per trained parameter; the frozen table has none.
// CHECK-NEXT:    sluice.store_gradient @table, %[[DTABLE]]
// CHECK-NEXT:    sluice.store_gradient @weight, %[[DW]]
// CHECK-NEXT:    sluice.objective %[[LOSSES]] {factors = array<f64: 1.000000e+00>, first = array<i64: 0>, names = ["next"]}
// CHECK-NEXT:    return %[[LOSSES]]

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.scale @coarse on @tokens factor 3
  sluice.parameter @table : tensor<7x4xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @positions : tensor<10x4xf32> {names = ["positions"], sizes = array<i64: 10>, initial = "sinusoidal", frozen}
  sluice.parameter @weight : tensor<4x4xf32> {names = ["weight"], sizes = array<i64: 4>, initial = "normal", decay}
  func.func @evaluate(%tokens: !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32> {
    %table = sluice.read @table : tensor<7x4xf32>
    %positions = sluice.read @positions : tensor<10x4xf32>
    %weight = sluice.read @weight : tensor<4x4xf32>
    %e = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x4xf32>) -> !sluice.seq<@fine, 4, f32>
    %p = sluice.position %positions : (tensor<10x4xf32>) -> !sluice.seq<@fine, 4, f32>
    %x = sluice.map(%e, %p) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>) -> !sluice.seq<@fine, 4, f32>
    %s = sluice.shift %x by 2 : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@fine, 4, f32>
    %g = sluice.shorten %s factor 3 : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@coarse, 4, f32>
    %l = sluice.linear %g, %weight : (!sluice.seq<@coarse, 4, f32>, tensor<4x4xf32>) -> !sluice.seq<@coarse, 4, f32>
    %u = sluice.upsample %l factor 3 : (!sluice.seq<@coarse, 4, f32>) -> !sluice.seq<@fine, 4, f32>
    %y = sluice.map(%x, %u) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.mulf %a, %b : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>) -> !sluice.seq<@fine, 4, f32>
    %losses = sluice.cross_entropy %y, %table, %tokens {offset = 1 : i64} : (!sluice.seq<@fine, 4, f32>, tensor<7x4xf32>, !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32>
    return %losses : !sluice.seq<@fine, 0, f32>
  }
}
