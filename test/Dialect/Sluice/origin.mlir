// Origins of ops are metadata of their locations: one, a set where several ops became one, and none.
// RUN: sluice-opt %s --mlir-print-debuginfo --mlir-print-local-scope | sluice-opt --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
// RUN: sluice-opt %s --canonicalize --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
// RUN: sluice-opt %s | FileCheck %s --check-prefix=PLAIN --implicit-check-not=origin

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @tokens
  sluice.scale @s1 on @tokens factor 1

  // CHECK-LABEL: func.func @evaluate
  // PLAIN-LABEL: func.func @evaluate
  func.func @evaluate(%x: !sluice.seq<@s1, 4, f32>, %w: tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32> {
    // CHECK: sluice.linear {{.*}} loc(fused<#sluice.origin<stage = "stages.1.inside.0", part = "attention.output">>["model.json":7:5])
    // PLAIN: sluice.linear
    %a = sluice.linear %x, %w : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32> loc(fused<#sluice.origin<stage = "stages.1.inside.0", part = "attention.output">>["model.json":7:5])
    // CHECK: sluice.linear {{.*}} loc(fused[fused<#sluice.origin<stage = "stages.2", part = "linear">>["model.json":8:5], fused<#sluice.origin<stage = "stages.3", part = "linear">>["model.json":9:5]])
    %b = sluice.linear %a, %w : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32> loc(fused[fused<#sluice.origin<stage = "stages.2", part = "linear">>["model.json":8:5], fused<#sluice.origin<stage = "stages.3", part = "linear">>["model.json":9:5]])
    // CHECK: sluice.linear {{.*}} loc("model.json":10:5)
    %c = sluice.linear %b, %w : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32> loc("model.json":10:5)
    return %c : !sluice.seq<@s1, 4, f32>
  }
}
