// Two losses under one objective: a plain mean, whose gradient the head's own kernels know, and one of squares, whose rows' gradients
// come in as an operand. Each is a number a row until the objective.
// RUN: sluice-opt %s --sluice-differentiate | FileCheck %s --check-prefix=GRADIENT
// RUN: sluice-opt %s --sluice-differentiate --sluice-form-dispatches | FileCheck %s

// GRADIENT-LABEL: func.func @gradient
// GRADIENT:         %[[PLAIN:.*]] = sluice.cross_entropy
// GRADIENT:         %[[SQUARES:.*]] = sluice.map(%[[PLAIN]])
// GRADIENT:         %[[SHARE:.*]] = sluice.mean_gradient {factor = 2.500000e-01 : f32, first = 3 : i64
// GRADIENT:         %[[INCOMING:.*]] = sluice.map(%[[PLAIN]], %[[SHARE]])
// GRADIENT:         sluice.cross_entropy_backward %{{.*}}, %{{.*}}, %{{.*}}, %[[INCOMING]]
// GRADIENT-SAME:      first = 3 : i64
// GRADIENT:         %[[NEXT:.*]], %{{.*}}, %{{.*}} = sluice.cross_entropy_backward
// GRADIENT-SAME:      operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>
// Three ops read the table, so the gradients are added in the order of these ops.
// GRADIENT:         %[[TABLE:.*]] = sluice.embed_backward
// GRADIENT:         sluice.add_gradients %[[TABLE]],
// GRADIENT:         sluice.objective %[[NEXT]], %[[SQUARES]]

// CHECK-LABEL: func.func @gradient
// CHECK:         %[[PLAIN:.*]] = dispatch.cross_entropy
// Invalid rows are zeros, which the objective's sum needs.
// CHECK:         %[[SQUARES:.*]] = dispatch.rows
// CHECK-SAME:      zero_invalid
// CHECK:         label = "mean loss"
// CHECK-COUNT-2:   dispatch.reduce add
// CHECK:           %[[ROWS:.*]] = arith.subi
// CHECK:           arith.maxsi %[[ROWS]]
// CHECK:         plan.store "scalar:loss",
// CHECK:         plan.store "scalar:loss.next",
// CHECK:         plan.store "scalar:loss.squares",

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.parameter @table : tensor<7x4xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  func.func @evaluate(%tokens: !sluice.seq<@fine, 0, i32>) -> (!sluice.seq<@fine, 0, f32>, !sluice.seq<@fine, 0, f32>) {
    %table = sluice.read @table : tensor<7x4xf32>
    %e = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x4xf32>) -> !sluice.seq<@fine, 4, f32>
    %next = sluice.cross_entropy %e, %table, %tokens {offset = 1 : i64}
        : (!sluice.seq<@fine, 4, f32>, tensor<7x4xf32>, !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32>
    %other = sluice.cross_entropy %e, %table, %tokens {offset = 1 : i64, first = 3 : i64}
        : (!sluice.seq<@fine, 4, f32>, tensor<7x4xf32>, !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32>
    %squares = sluice.map(%other) {
    ^bb0(%a: f32):
      %b = arith.mulf %a, %a : f32
      sluice.yield %b : f32
    } : (!sluice.seq<@fine, 0, f32>) -> !sluice.seq<@fine, 0, f32>
    sluice.objective %next, %squares {names = ["next", "squares"], factors = array<f64: 1.0, 0.25>, first = array<i64: 0, 3>}
        : !sluice.seq<@fine, 0, f32>, !sluice.seq<@fine, 0, f32>
    return %next, %squares : !sluice.seq<@fine, 0, f32>, !sluice.seq<@fine, 0, f32>
  }
}
