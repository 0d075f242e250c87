// Gathers and their positions: a small model becomes four dispatches. No op reads the named input.
// RUN: sluice-opt %s --sluice-form-dispatches | FileCheck %s


// CHECK-LABEL: func.func @predict() -> (tensor<2x10x8xf32>, tensor<2x10x8xf32>)
// CHECK:         %[[TOKENS:.*]] = plan.bind "input:tokens" : tensor<2x11xi32>

// The embedding has two readers, neither only of its scale, and is stored.
// CHECK:         %[[E:.*]] = dispatch.rows %[[TOKENS]], %{{.*}} attributes {accesses = [{{.*}}#dispatch.access<gather,

// The shift and the average of four go into the norm's dispatch: it reads rows 4 m + i - 3 of the embedding.
// CHECK:         %[[G:.*]]:2 = dispatch.rows %[[E]], %{{.*}} attributes {accesses = [#dispatch.access<row[p * 4 + i - 3], group = 4, factor = 1>
// CHECK-SAME:      domain = #dispatch.domain<batch = 2, positions = 3, factor = 4>
// CHECK-NEXT:    ^bb0(%[[FOUR:[^:]*]]: tensor<4x8xf32>
// CHECK-NEXT:      dispatch.reduce_group add %[[FOUR]]
// CHECK:           dispatch.yield

// The activation and the residual sum are the contraction's epilogue.
// CHECK:         %[[Y:.*]] = dispatch.contract %[[G]]#1, %{{.*}}, %[[G]]#0
// CHECK-NEXT:    ^bb0(%[[ACCUMULATED:[^:]*]]: f32, %[[RESIDUAL:[^:]*]]: f32):
// CHECK:           %[[ACTIVE:.*]] = arith.maximumf %[[ACCUMULATED]]
// CHECK-NEXT:      %[[SUM:.*]] = arith.addf %[[RESIDUAL]], %[[ACTIVE]]
// CHECK-NEXT:      dispatch.yield %[[SUM]]

// The upsampling is how the last norm's dispatch reads the coarse rows; it stores the skip's sum and the norm.
// CHECK:         %[[H:.*]]:2 = dispatch.rows %[[E]], %[[Y]], %{{.*}} attributes {accesses = [#dispatch.access<row, factor = 1>, #dispatch.access<row[p floordiv 4], factor = 4>
// CHECK-NEXT:    ^bb0(%[[FINE:[^:]*]]: tensor<8xf32>, %[[COARSE:[^:]*]]: tensor<8xf32>
// CHECK-NEXT:      %[[X:.*]] = arith.addf %[[FINE]], %[[COARSE]]
// CHECK:           dispatch.yield %[[X]], %{{.*}}
// CHECK-NOT:     dispatch.rows
// CHECK-NOT:     dispatch.contract
// CHECK-NOT:     sluice.
// CHECK:         return %[[H]]#0, %[[H]]#1

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.scale @coarse on @tokens factor 4
  sluice.axis @source given 4 vocabulary 7
  sluice.scale @source.s1 on @source factor 1
  sluice.parameter @table : tensor<7x8xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @gain : tensor<8xf32> {names = ["gain"], sizes = array<i64: 8>, initial = "ones"}
  sluice.parameter @weight : tensor<8x8xf32> {names = ["weight"], sizes = array<i64: 8>, initial = "normal", decay}
  func.func @predict(%tokens: !sluice.seq<@fine, 0, i32>, %unread: !sluice.seq<@source.s1, 0, i32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>) {
    %table = sluice.read @table : tensor<7x8xf32>
    %gain = sluice.read @gain : tensor<8xf32>
    %weight = sluice.read @weight : tensor<8x8xf32>
    %e = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@fine, 8, f32>
    %s = sluice.shift %e by 3 : (!sluice.seq<@fine, 8, f32>) -> !sluice.seq<@fine, 8, f32>
    %g = sluice.shorten %s factor 4 : (!sluice.seq<@fine, 8, f32>) -> !sluice.seq<@coarse, 8, f32>
    %n, %m0, %r0 = sluice.norm %g, %gain {epsilon = 1.0e-5 : f64, rms} : (!sluice.seq<@coarse, 8, f32>, tensor<8xf32>) -> (!sluice.seq<@coarse, 8, f32>, !sluice.seq<@coarse, 0, f32>, !sluice.seq<@coarse, 0, f32>)
    %l = sluice.linear %n, %weight : (!sluice.seq<@coarse, 8, f32>, tensor<8x8xf32>) -> !sluice.seq<@coarse, 8, f32>
    %y = sluice.map(%g, %l) {
    ^bb0(%a: f32, %b: f32):
      %zero = arith.constant 0.0 : f32
      %c = arith.maximumf %b, %zero : f32
      %d = arith.addf %a, %c : f32
      sluice.yield %d : f32
    } : (!sluice.seq<@coarse, 8, f32>, !sluice.seq<@coarse, 8, f32>) -> !sluice.seq<@coarse, 8, f32>
    %u = sluice.upsample %y factor 4 : (!sluice.seq<@coarse, 8, f32>) -> !sluice.seq<@fine, 8, f32>
    %x = sluice.map(%e, %u) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>) -> !sluice.seq<@fine, 8, f32>
    %h, %m, %r = sluice.norm %x, %gain {epsilon = 1.0e-5 : f64, rms} : (!sluice.seq<@fine, 8, f32>, tensor<8xf32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 0, f32>, !sluice.seq<@fine, 0, f32>)
    return %x, %h : !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>
  }
}
