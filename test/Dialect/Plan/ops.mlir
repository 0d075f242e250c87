// Ops of the plan: named memory as tensors, and the result of planning. All of it round-trips.
// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// RUN: sluice-opt %s --mlir-print-op-generic | sluice-opt | FileCheck %s

// CHECK: module attributes {plan.arena_bytes = 1024 : i64}
module attributes {plan.arena_bytes = 1024 : i64} {

// CHECK-LABEL: func.func @update
func.func @update() {
  // CHECK-NEXT: %[[W:.*]] = plan.bind "parameter:head.weight" : tensor<4x6xf32>
  %w = plan.bind "parameter:head.weight" : tensor<4x6xf32>
  // CHECK-NEXT: %[[FLAT:.*]] = plan.view %[[W]] : tensor<4x6xf32> -> tensor<24xf32>
  %flat = plan.view %w : tensor<4x6xf32> -> tensor<24xf32>
  // CHECK-NEXT: plan.store "gradient:head.weight", %[[FLAT]] : tensor<24xf32>
  plan.store "gradient:head.weight", %flat : tensor<24xf32>
  return
}

// CHECK: plan.buffer "scalar:length" at 0 bytes 8 device 0
plan.buffer "scalar:length" at 0 bytes 8 device 0
plan.buffer "scalar:rows" at 8 bytes 8 device 0
plan.buffer "scalar:step" at 16 bytes 8 device 0
plan.buffer "scalar:seed" at 24 bytes 8 device 0
plan.buffer "scalar:draw_rows" at 32 bytes 8 device 0
plan.buffer "scalar:finite" at 40 bytes 4 device 0
plan.buffer "scalar:due.0" at 44 bytes 4 device 0
plan.buffer "scalar:length.words" at 48 bytes 8 device 0
plan.buffer "flat:parameters" at 64 bytes 128 device 0

// CHECK: plan.kernel @norm {bytes = 1.280000e+02 : f64, flops = 6.400000e+01 : f64, kind = "row", operand_bytes = array<i64: 128, 4>, variants = {"cpu-avx2" = {items = 2 : i64}}, written = 1 : i64}
plan.kernel @norm {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {"cpu-avx2" = {items = 2 : i64}}, operand_bytes = array<i64: 128, 4>, written = 1 : i64}
plan.kernel @add {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64}
// CHECK: plan.kernel @step {{.*}} scheduled, {{.*}}
plan.kernel @step {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128, 128>, written = 1 : i64, scheduled}
// CHECK: plan.kernel @draw {{.*}} draws_by_update, {{.*}}
plan.kernel @draw {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {}, operand_bytes = array<i64: 128>, written = 1 : i64, draws_by_update}

// The guard may prevent the update from writing its results.
// CHECK-LABEL: plan.entry @update.plan
plan.entry @update.plan {
  // CHECK-NEXT: plan.launch @norm([64, 40, 0, 8, 16, 24, 0, 0]) phase "update" after []
  plan.launch @norm ([64, 40, 0, 8, 16, 24, 0, 0]) phase "update" after []
  // CHECK-NEXT: plan.launch @add([64, 64, 0, 8, 16, 24, 0, 0]) phase "update" after [0] {guard = "finite"}
  plan.launch @add ([64, 64, 0, 8, 16, 24, 0, 0]) phase "update" after [0] {guard = "finite"}
}

// A launch on an axis of segments follows the one that stores its length. Launches that are due by a step's schedule may be left out.
// CHECK-LABEL: plan.entry @step.plan of "step" factor 3
plan.entry @step.plan of "step" factor 3 {
  plan.launch @norm ([64, 44, 0, 8, 16, 24, 0, 0]) phase "forward" after []
  plan.launch @norm ([64, 48, 0, 8, 16, 24, 0, 0]) phase "forward" after []
  // CHECK: plan.launch @step([64, 256, 48, 8, 16, 24, 0, 0]) phase "forward" after [1] {axis = "words", guard = "due.0"}
  plan.launch @step ([64, 256, 48, 8, 16, 24, 0, 0]) phase "forward" after [1] {axis = "words", guard = "due.0"}
  // CHECK: plan.launch @draw([256, 0, 8, 16, 24, 32, 7, 0]) phase "forward" after [2]
  plan.launch @draw ([256, 0, 8, 16, 24, 32, 7, 0]) phase "forward" after [2]
}

plan.buffer "flat:gradients" at 512 bytes 256 device 0

// Each bucket of the gradients is exchanged after the launches that write it. Indices count launches alone.
// CHECK-LABEL: plan.entry @gradient.plan
plan.entry @gradient.plan {
  plan.launch @add ([64, 640, 0, 8, 16, 24, 0, 0]) phase "backward" after []
  // CHECK: plan.all_reduce 1 at 640 bytes 128 after [0]
  plan.all_reduce 1 at 640 bytes 128 after [0]
  plan.launch @add ([640, 256, 0, 8, 16, 24, 0, 0]) phase "backward" after [0]
  plan.launch @add ([256, 512, 0, 8, 16, 24, 0, 0]) phase "backward" after [1]
  // CHECK: plan.all_reduce 0 at 512 bytes 128 after [2]
  plan.all_reduce 0 at 512 bytes 128 after [2]
}

}
