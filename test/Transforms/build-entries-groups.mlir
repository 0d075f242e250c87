// Rates and decays by group of weights: one number per flat row, or several where weights of two groups share a row.
// RUN: sluice-opt %s --split-input-file --sluice-build-entries | FileCheck %s

// Each parameter belongs to one group, so the rate of the step is multiplied by one number per row.
// CHECK-LABEL: func.func @update()
// CHECK:         %[[DECAY:.*]] = plan.bind "constant:decay" : tensor<4xf32>
// CHECK:         %[[RATE:.*]] = plan.bind "constant:rate" : tensor<4xf32>
// CHECK-NOT:     plan.bind "constant:rate.1"
// CHECK:         label = "optimizer"
// CHECK-NOT:       dispatch.column
// CHECK-NOT:       arith.select
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64, sluice.seed = 0 : i64,
                   sluice.training = {beta1 = 0.9 : f64, beta2 = 0.95 : f64, clip = 0.5 : f64, epsilon = 1.0e-8 : f64,
                                      floor = 0.1 : f64, learning_rate = 0.001 : f64, optimizer = "adamw",
                                      schedule = "constant", steps = 100.0 : f64, warmup = 0.0 : f64, weight_decay = 0.1 : f64,
                                      groups = [{match = "tab*", weights = ["table"], factor = 2.0 : f64, learning_rate = 0.002 : f64}]}} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.parameter @table : tensor<700x4xf32> {names = ["table"], sizes = array<i64: 700>, initial = "normal"}
  sluice.parameter @weight : tensor<4x4xf32> {names = ["weight"], sizes = array<i64: 4>, initial = "normal", decay}
  func.func @evaluate() -> tensor<2x10xf32> {
    %losses = plan.bind "input:losses" : tensor<2x10xf32>
    return %losses : tensor<2x10xf32>
  }
}

// -----

// The key's 16 numbers are between 16 of the query and 16 of the value: three runs of the row.
// CHECK-LABEL: func.func @update()
// CHECK:         plan.bind "constant:rate" : tensor<1xf32>
// CHECK:         plan.bind "constant:begin.1" : tensor<1xi32>
// CHECK:         plan.bind "constant:rate.1" : tensor<1xf32>
// CHECK:         plan.bind "constant:decay.1" : tensor<1xf32>
// CHECK:         plan.bind "constant:begin.2" : tensor<1xi32>
// CHECK:         label = "optimizer"
// CHECK:           %[[COLUMN:.*]] = dispatch.column
// CHECK:           %[[IN:.*]] = arith.cmpi sge, %[[COLUMN]]
// CHECK:           arith.select %[[IN]]
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64, sluice.seed = 0 : i64,
                   sluice.training = {beta1 = 0.9 : f64, beta2 = 0.95 : f64, clip = 0.5 : f64, epsilon = 1.0e-8 : f64,
                                      floor = 0.1 : f64, learning_rate = 0.001 : f64, optimizer = "adamw",
                                      schedule = "constant", steps = 100.0 : f64, warmup = 0.0 : f64, weight_decay = 0.1 : f64,
                                      groups = [{match = "key", weights = ["key"], factor = 0.5 : f64, weight_decay = 0.0 : f64}]}} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.parameter @qkv : tensor<12x4xf32> {names = ["query", "key", "value"], sizes = array<i64: 4, 4, 4>, initial = "normal", decay}
  func.func @evaluate() -> tensor<2x10xf32> {
    %losses = plan.bind "input:losses" : tensor<2x10xf32>
    return %losses : tensor<2x10xf32>
  }
}
