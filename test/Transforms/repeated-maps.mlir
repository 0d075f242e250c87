// An activation and the dropout after it, which only a weight gradient reads in the backward pass: both are rematerialized together with
// the derivative.
// RUN: sluice-opt %s --sluice-differentiate --sluice-form-dispatches | FileCheck %s

// CHECK-LABEL: func.func @gradient
// The rows before the activation, stored for its derivative, and the rows after the dropout, only for the second
// map.
// CHECK-NOT:     backward
// CHECK:         %[[FORWARD:.*]]:2 = dispatch.contract %[[X:.*]], %{{.*}}
// CHECK:           %[[DRAWN:.*]] = dispatch.random {id = 7
// CHECK:         %[[Y:.*]] = dispatch.contract %[[FORWARD]]#1, %[[W2:.*]] attributes
// CHECK-NOT:     %[[FORWARD]]#1

// One contraction computes the gradient and, from the same operand and numbers, rematerializes the rows. The weight gradient comes after
// it.
// CHECK:         %[[BACK:.*]]:2 = dispatch.contract %[[DY:.*]], %[[W2]], %[[FORWARD]]#0 {{.*}}backward, by_input
// CHECK-NEXT:    ^bb0(%[[ACC:[^:]*]]: f32, %[[H:[^:]*]]: f32):
// CHECK:           %[[CUT:.*]] = arith.maximumf %[[H]]
// CHECK:           dispatch.random {id = 7
// CHECK:           %[[AGAIN:.*]] = arith.mulf %[[CUT]],
// CHECK:           dispatch.yield %[[AGAIN]], %{{.*}} : f32, f32
// CHECK:         dispatch.weight_gradient %[[DY]], %[[BACK]]#0
// CHECK-NOT:     %[[FORWARD]]#1

// A sum's derivative reads no operand. So the rows before it are not kept, and the rows after it are.
// RUN: sed 's/arith.maximumf %v, %zero/arith.addf %v, %v/' %s | sluice-opt --sluice-differentiate --sluice-form-dispatches | FileCheck %s --check-prefix=STORED
// STORED-LABEL: func.func @gradient
// STORED-NOT:     backward
// STORED:         %[[MADE:.*]] = dispatch.contract
// STORED:           dispatch.random {id = 7
// STORED:         dispatch.weight_gradient %{{.*}}, %[[MADE]] attributes

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.parameter @table : tensor<7x4xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @in : tensor<8x4xf32> {names = ["in"], sizes = array<i64: 8>, initial = "normal", decay}
  sluice.parameter @out : tensor<4x8xf32> {names = ["out"], sizes = array<i64: 4>, initial = "normal", decay}
  func.func @evaluate(%tokens: !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32> {
    %table = sluice.read @table : tensor<7x4xf32>
    %in = sluice.read @in : tensor<8x4xf32>
    %out = sluice.read @out : tensor<4x8xf32>
    %x = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x4xf32>) -> !sluice.seq<@fine, 4, f32>
    %h = sluice.linear %x, %in : (!sluice.seq<@fine, 4, f32>, tensor<8x4xf32>) -> !sluice.seq<@fine, 8, f32>
    %a = sluice.map(%h) {
    ^bb0(%v: f32):
      %zero = arith.constant 0.0 : f32
      %m = arith.maximumf %v, %zero : f32
      sluice.yield %m : f32
    } : (!sluice.seq<@fine, 8, f32>) -> !sluice.seq<@fine, 8, f32>
    %d = sluice.map(%a) {
    ^bb0(%v: f32):
      %u = dispatch.random {id = 7 : i64, width = 8 : i64} : f32
      %rate = arith.constant 0.5 : f32
      %keep = arith.cmpf oge, %u, %rate : f32
      %two = arith.constant 2.0 : f32
      %zero = arith.constant 0.0 : f32
      %s = arith.select %keep, %two, %zero : f32
      %m = arith.mulf %v, %s : f32
      sluice.yield %m : f32
    } : (!sluice.seq<@fine, 8, f32>) -> !sluice.seq<@fine, 8, f32>
    %y = sluice.linear %d, %out : (!sluice.seq<@fine, 8, f32>, tensor<4x8xf32>) -> !sluice.seq<@fine, 4, f32>
    %losses = sluice.cross_entropy %y, %table, %tokens {offset = 1 : i64} : (!sluice.seq<@fine, 4, f32>, tensor<7x4xf32>, !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32>
    return %losses : !sluice.seq<@fine, 0, f32>
  }
}
