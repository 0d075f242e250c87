// Ops of the plan: named memory as tensors, and what planning makes of it. Whatever is printed reads back the same.
// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// RUN: sluice-opt %s --mlir-print-op-generic | sluice-opt | FileCheck %s

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

// CHECK: plan.buffer "flat:parameters" at 64 bytes 128 device 0
plan.buffer "flat:parameters" at 64 bytes 128 device 0
// CHECK: plan.kernel @k0 {bytes = 1.280000e+02 : f64, flops = 6.400000e+01 : f64, kind = "row", variants = {"cpu-avx2" = {items = 2 : i64}}}
plan.kernel @k0 {bytes = 128.0 : f64, flops = 64.0 : f64, kind = "row", variants = {"cpu-avx2" = {items = 2 : i64}}}
// CHECK-LABEL: plan.entry @train
plan.entry @train {
  // CHECK-NEXT: plan.launch @k0([64, 192, 0]) phase "forward" after []
  plan.launch @k0 ([64, 192, 0]) phase "forward" after []
  // CHECK-NEXT: plan.launch @k0([192, 64, 0]) phase "update" after [0] {guard = "finite"}
  plan.launch @k0 ([192, 64, 0]) phase "update" after [0] {guard = "finite"}
  // CHECK-NEXT: plan.launch @k0([64, 192, 0]) phase "forward" after [] {axis = "words"}
  plan.launch @k0 ([64, 192, 0]) phase "forward" after [] {axis = "words"}
}

// CHECK-LABEL: plan.entry @of_three of "train" factor 3
plan.entry @of_three of "train" factor 3 {
  plan.launch @k0 ([64, 192, 0]) phase "forward" after []
}
