// Where dropout makes @train another function than @evaluate, @train is what becomes @gradient. The draw is repeated in the
// backward pass, not stored.
// RUN: sluice-opt %s --sluice-differentiate | FileCheck %s
// RUN: sluice-opt %s --sluice-differentiate=gradient=false | FileCheck %s --check-prefix=NONE

// NONE:     func.func @evaluate
// NONE-NOT: func.func

// CHECK-LABEL: func.func @evaluate
// CHECK-NOT:   dispatch.random
// CHECK-NOT:   func.func @train
// CHECK-LABEL: func.func @gradient
// CHECK:         dispatch.random {id = 5 : i64, width = 4 : i64}
// CHECK:         sluice.cross_entropy_backward
// CHECK:         dispatch.random {id = 5 : i64, width = 4 : i64}
// CHECK:         sluice.store_gradient @table
// CHECK-NOT:   func.func
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.parameter @table : tensor<7x4xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  func.func @evaluate(%tokens: !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32> {
    %table = sluice.read @table : tensor<7x4xf32>
    %e = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x4xf32>) -> !sluice.seq<@fine, 4, f32>
    %losses = sluice.cross_entropy %e, %table, %tokens {offset = 1 : i64} : (!sluice.seq<@fine, 4, f32>, tensor<7x4xf32>, !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32>
    return %losses : !sluice.seq<@fine, 0, f32>
  }
  func.func @train(%tokens: !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32> {
    %table = sluice.read @table : tensor<7x4xf32>
    %e = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x4xf32>) -> !sluice.seq<@fine, 4, f32>
    %d = sluice.map(%e) {
    ^bb0(%a: f32):
      %u = dispatch.random {id = 5 : i64, width = 4 : i64} : f32
      %half = arith.constant 5.0e-01 : f32
      %zero = arith.constant 0.0 : f32
      %kept = arith.cmpf oge, %u, %half : f32
      %twice = arith.addf %a, %a : f32
      %b = arith.select %kept, %twice, %zero : f32
      sluice.yield %b : f32
    } : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@fine, 4, f32>
    %losses = sluice.cross_entropy %d, %table, %tokens {offset = 1 : i64} : (!sluice.seq<@fine, 4, f32>, tensor<7x4xf32>, !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32>
    return %losses : !sluice.seq<@fine, 0, f32>
  }
}
