// Groups combined by a region: read completely or row by row under a mask.
// RUN: sluice-opt %s --sluice-form-dispatches | FileCheck %s

// Rows outside are the identity. A product has no infinite identity, so nothing is replaced.
// CHECK-LABEL: func.func @predict(
// CHECK:         dispatch.rows %{{.*}} attributes {accesses = [#dispatch.access<row[p * 3 + i - 2], group = 3, factor = 1, outside = 1.000000e+00 : f32>]
// CHECK-NEXT:    ^bb0(%[[ROWS:[^:]*]]: tensor<3x4xf32>):
// CHECK-NEXT:      %[[PRODUCT:.*]] = dispatch.reduce_group combine %[[ROWS]] identity 1.000000e+00 : f32 {
// CHECK-NEXT:      ^bb0(%[[SO_FAR:.*]]: f32, %[[LATER:.*]]: f32):
// CHECK-NEXT:        arith.mulf %[[SO_FAR]], %[[LATER]] : f32
// CHECK-NEXT:        dispatch.yield
// CHECK-NEXT:      } : tensor<3x4xf32> -> tensor<4xf32>
// CHECK-NEXT:      dispatch.yield %[[PRODUCT]]

// A masked row keeps the earlier result: each row and its bit are operands of their own.
// CHECK:         dispatch.rows %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} attributes
// CHECK-SAME:      row[p * 3 + 2]
// CHECK:         ^bb0(%[[ROW:[^:]*]]: tensor<4xf32>, %[[BIT:[^:]*]]: f32,
// CHECK:           %[[NEXT:.*]] = arith.minimumf %[[IDENTITY:.*]], %[[ROW]] : tensor<4xf32>
// CHECK:           %[[IN:.*]] = arith.cmpf ogt, %[[BIT]], %{{.*}} : f32
// CHECK-NEXT:      arith.select %[[IN]], %[[NEXT]], %[[IDENTITY]] : tensor<4xf32>
// Where nothing is left there are zeros.
// CHECK:           %[[NONE:.*]] = arith.cmpf oeq
// CHECK:           arith.select %[[NONE]]

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.scale @coarse on @tokens factor 3
  sluice.parameter @table : tensor<7x4xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @gain : tensor<4xf32> {names = ["gain"], sizes = array<i64: 4>, initial = "ones"}
  func.func @predict(%tokens: !sluice.seq<@fine, 0, i32>) -> (!sluice.seq<@coarse, 4, f32>, !sluice.seq<@coarse, 4, f32>) {
    %table = sluice.read @table : tensor<7x4xf32>
    %gain = sluice.read @gain : tensor<4xf32>
    %e = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x4xf32>) -> !sluice.seq<@fine, 4, f32>
    %y, %mean, %rstd = sluice.norm %e, %gain {epsilon = 1.0e-5 : f64} : (!sluice.seq<@fine, 4, f32>, tensor<4xf32>)
        -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 0, f32>, !sluice.seq<@fine, 0, f32>)
    %s = sluice.shift %y by 2 : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@fine, 4, f32>
    %p = sluice.shorten %s factor 3 combine identity 1.0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.mulf %a, %b : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@coarse, 4, f32>
    %m = sluice.shorten %y factor 3 mask %rstd combine identity 0x7F800000 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.minimumf %a, %b : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 0, f32>) -> !sluice.seq<@coarse, 4, f32>
    return %p, %m : !sluice.seq<@coarse, 4, f32>, !sluice.seq<@coarse, 4, f32>
  }
}
