// Maxima of shifted groups of three: their backward ops, and the gathers of each.
// RUN: sluice-opt %s --sluice-differentiate | FileCheck %s
// RUN: sluice-opt %s --sluice-differentiate --sluice-form-dispatches | FileCheck %s --check-prefix=ROWS

// The first of each group's greatest gets its gradient; `unfold` is lazy, as the opposite shift reads past the end.
// CHECK-LABEL: func.func @gradient(
// CHECK:         %[[SHIFTED:.*]] = sluice.shift %{{.*}} by 2
// CHECK:         sluice.shorten %[[SHIFTED]] factor 3 max
// CHECK:         %[[DG:.*]] = sluice.linear_input_gradient
// CHECK-NEXT:    %[[CHOSEN:.*]] = sluice.shorten_max_backward %[[SHIFTED]], %[[DG]] factor 3
// CHECK-SAME:      -> !sluice.seq<@coarse, 12, f32>
// CHECK-NEXT:    %[[UNFOLDED:.*]] = sluice.unfold %[[CHOSEN]] factor 3
// CHECK-NEXT:    sluice.shift %[[UNFOLDED]] by -2

// Rows outside are minus infinity, which no maximum chooses; where all are, the maximum is zero.
// ROWS-LABEL: func.func @gradient(
// ROWS:         dispatch.rows %{{.*}} attributes {accesses = [#dispatch.access<row[p * 3 + i - 2], group = 3, factor = 1, outside = 0xFF800000 : f32>]
// ROWS-NEXT:    ^bb0(%[[ROWS:[^:]*]]: tensor<3x4xf32>):
// ROWS-NEXT:      %[[MAX:.*]] = dispatch.reduce_group max %[[ROWS]]
// ROWS:           %[[NONE:.*]] = arith.cmpf oeq, %[[MAX]]
// ROWS:           arith.select %[[NONE]]

// Backward reads the rows once more, and lays the three gradients of a group side by side.
// ROWS:         %[[CHOSEN:.*]] = dispatch.rows %{{.*}} attributes {accesses = [#dispatch.access<row[p * 3 + i - 2], {{[^>]*}}outside = 0xFF800000 : f32>
// ROWS:           dispatch.reduce_group max
// ROWS:           dispatch.reduce_group max %{{.*}} : tensor<3x4xi32> -> tensor<4xi32>
// ROWS:           dispatch.yield %{{.*}} : tensor<3x4xf32>
// ROWS:         } : {{.*}} -> tensor<2x4x12xf32>

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
    %g = sluice.shorten %s factor 3 max : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@coarse, 4, f32>
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
