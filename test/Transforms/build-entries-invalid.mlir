// RUN: not sluice-opt %s -split-input-file --sluice-build-entries 2>&1 | FileCheck %s

// CHECK: expected @evaluate to return tensors of a static shape
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64, sluice.training = {beta1 = 9.0e-01 : f64,
    beta2 = 9.5e-01 : f64, clip = 1.0 : f64, epsilon = 1.0e-08 : f64, floor = 1.0e-01 : f64, learning_rate = 1.0e-03 : f64,
    optimizer = "adamw", schedule = "cosine", steps = 100.0 : f64, warmup = 10.0 : f64, weight_decay = 1.0e-01 : f64}} {
  func.func @evaluate() {
    return
  }
}

// -----

// CHECK: expected cosine, constant or inverse_root as the text schedule in the module attribute sluice.training, found linear
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64, sluice.training = {beta1 = 9.0e-01 : f64,
    beta2 = 9.5e-01 : f64, clip = 1.0 : f64, epsilon = 1.0e-08 : f64, floor = 1.0e-01 : f64, learning_rate = 1.0e-03 : f64,
    optimizer = "adamw", schedule = "linear", steps = 100.0 : f64, warmup = 10.0 : f64, weight_decay = 1.0e-01 : f64}} {
}

// -----

// CHECK: expected the number then_from in the module attribute sluice.training, found none
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64, sluice.training = {beta1 = 9.0e-01 : f64,
    beta2 = 9.5e-01 : f64, clip = 1.0 : f64, epsilon = 1.0e-08 : f64, floor = 1.0e-01 : f64, learning_rate = 1.0e-03 : f64,
    optimizer = "adamw", schedule = "constant", steps = 100.0 : f64, then_floor = 0.0 : f64, then_steps = 5.0 : f64, warmup = 10.0 : f64,
    weight_decay = 1.0e-01 : f64}} {
}

// -----

// CHECK: expected the number learning_rate in the module attribute sluice.training, found none
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
}

// -----

// CHECK: expected the module attribute sluice.batch, an i64 of at least 1 and below 2^31, found none
module {
}

// -----

// CHECK: expected @predict to return one tensor of a static shape; run sluice-form-dispatches before, and sluice-build-entries once
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64, sluice.training = {beta1 = 9.0e-01 : f64,
    beta2 = 9.5e-01 : f64, clip = 1.0 : f64, epsilon = 1.0e-08 : f64, floor = 1.0e-01 : f64, learning_rate = 1.0e-03 : f64,
    optimizer = "adamw", schedule = "cosine", steps = 100.0 : f64, warmup = 10.0 : f64, weight_decay = 1.0e-01 : f64}} {
  func.func @predict(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
    return %x, %x : tensor<2x4xf32>, tensor<2x4xf32>
  }
}

// -----

// CHECK: expected the number learning_rate in the module attribute sluice.training to fit f32 and its range (docs/spec.md), found another
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64, sluice.training = {beta1 = 9.0e-01 : f64,
    beta2 = 9.5e-01 : f64, clip = 1.0 : f64, epsilon = 1.0e-08 : f64, floor = 1.0e-01 : f64, learning_rate = 1.0e+300 : f64,
    optimizer = "adamw", schedule = "cosine", steps = 100.0 : f64, warmup = 10.0 : f64, weight_decay = 1.0e-01 : f64}} {
}

// -----

// CHECK: expected a group of the module attribute sluice.training to have the text match, names as weights, the number factor, and learning_rate and weight_decay in f32 or neither, found {factor = 0.000000e+00 : f64, match = "*", weights = []}
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64, sluice.training = {beta1 = 9.0e-01 : f64,
    beta2 = 9.5e-01 : f64, clip = 1.0 : f64, epsilon = 1.0e-08 : f64, floor = 1.0e-01 : f64, learning_rate = 1.0e-03 : f64,
    optimizer = "adamw", schedule = "cosine", steps = 100.0 : f64, warmup = 10.0 : f64, weight_decay = 1.0e-01 : f64,
    groups = [{match = "*", weights = [], factor = 0.0 : f64}]}} {
}
