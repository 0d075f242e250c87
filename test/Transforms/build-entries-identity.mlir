// RUN: sluice-opt %s --sluice-build-entries | FileCheck %s

// A mean applies to every number of a parameter, and of an identity at every (columns + 1)-th one.

// CHECK-LABEL: func.func @initialize()
// CHECK:         plan.bind "constant:initial.period" : tensor<3xi32>
// CHECK:         plan.bind "constant:initial.place" : tensor<3xi32>
// CHECK:         dispatch.rows
// CHECK:           %[[COLUMN:.*]] = dispatch.column : tensor<1024xi32>
// CHECK:           %[[AT:.*]] = arith.addi %{{.*}}, %[[COLUMN]]
// CHECK:           %[[REST:.*]] = arith.remsi %[[AT]], %{{.*}}
// CHECK:           %[[HOLDS:.*]] = arith.cmpi eq, %[[REST]], %{{.*}}
// CHECK:           arith.select %[[HOLDS]], %{{.*}}, %{{.*}}

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64, sluice.seed = 0 : i64,
                   sluice.training = {beta1 = 0.9 : f64, beta2 = 0.95 : f64, clip = 0.5 : f64, epsilon = 1.0e-8 : f64,
                                      floor = 0.1 : f64, learning_rate = 0.001 : f64, optimizer = "adamw",
                                      schedule = "constant", steps = 100.0 : f64, warmup = 0.0 : f64, weight_decay = 0.1 : f64}} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.parameter @own : tensor<37x37xf32> {names = ["own"], sizes = array<i64: 37>, initial = "identity", decay}
  sluice.parameter @gain : tensor<37xf32> {names = ["gain"], sizes = array<i64: 37>, initial = "ones"}
  func.func @evaluate() -> (tensor<2x10xf32>, tensor<2x10xf32>) {
    %losses = plan.bind "input:losses" : tensor<2x10xf32>
    return %losses, %losses : tensor<2x10xf32>, tensor<2x10xf32>
  }
}
