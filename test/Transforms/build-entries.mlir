// Surroundings of a model. @evaluate stands for any function of dispatches that returns its losses, here two.
// RUN: sluice-opt %s --sluice-build-entries | FileCheck %s

// A function's former result is now an output, and it returns nothing.
// CHECK-LABEL: func.func @evaluate()
// CHECK:         %[[LOSSES:.*]] = plan.bind
// CHECK-NEXT:    plan.store "output:losses", %[[LOSSES]]
// CHECK-NEXT:    plan.store "output:losses.1", %[[LOSSES]]
// CHECK-NEXT:    return{{$}}

// The table's 2,800 numbers take three flat rows, the weight's 16 a fourth.
// CHECK-LABEL: func.func @update()
// CHECK:         %[[GRADIENTS:.*]] = plan.bind "flat:gradients" : tensor<4x1024xf32>
// CHECK:         %[[SQUARES:.*]] = dispatch.rows %[[GRADIENTS]]
// CHECK-SAME:      label = "gradient norm"
// CHECK:         %[[SCALARS:.*]]:6 = dispatch.rows %[[SQUARES]]
// CHECK-SAME:      label = "update scalars"
// CHECK:           %[[NORM:.*]] = math.sqrt
// CHECK:           %[[LIMIT:.*]] = arith.constant 5.000000e-01
// CHECK:           arith.divf %[[LIMIT]], %[[NORM]]
// A constant schedule without warm-up has neither cosine nor comparison with the step.
// CHECK-NOT:       math.cos
// CHECK:           math.expm1
// CHECK:         plan.store "scalar:finite", %[[SCALARS]]#1 : tensor<i32>

// The optimizer is one launch over everything, skipped where the loss or the norm is not finite, in place.
// CHECK:         %[[DECAY:.*]] = plan.bind "constant:decay" : tensor<4xf32>
// CHECK:         %[[ADAM:.*]]:3 = dispatch.rows
// CHECK-SAME:      aliases = array<i64: 0, 1, 2>
// CHECK-SAME:      guard = "finite", label = "optimizer"
// CHECK:         plan.store "flat:parameters", %[[ADAM]]#0
// CHECK-NOT:     dispatch.rows

// Initialization does not depend on the step, and so gives the same numbers whenever it runs.
// CHECK-LABEL: func.func @initialize()
// CHECK:         dispatch.rows
// CHECK:           dispatch.random {fixed_step, id = 0 : i64, width = 1024 : i64}
// CHECK:         plan.store "flat:adam.v"

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64, sluice.seed = 0 : i64,
                   sluice.training = {beta1 = 0.9 : f64, beta2 = 0.95 : f64, clip = 0.5 : f64, epsilon = 1.0e-8 : f64,
                                      floor = 0.1 : f64, learning_rate = 0.001 : f64, optimizer = "adamw",
                                      schedule = "constant", steps = 100.0 : f64, warmup = 0.0 : f64, weight_decay = 0.1 : f64}} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.parameter @table : tensor<700x4xf32> {names = ["table"], sizes = array<i64: 700>, initial = "normal"}
  sluice.parameter @weight : tensor<4x4xf32> {names = ["weight"], sizes = array<i64: 4>, initial = "normal", decay}
  func.func @evaluate() -> (tensor<2x10xf32>, tensor<2x10xf32>) {
    %losses = plan.bind "input:losses" : tensor<2x10xf32>
    return %losses, %losses : tensor<2x10xf32>, tensor<2x10xf32>
  }
}
