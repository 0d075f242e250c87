// Equal ops of several stages become one, which has the origins of all. Upstream's pass merges the same ops.
// RUN: sluice-opt %s --sluice-merge-ops --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s
// RUN: sluice-opt %s --sluice-merge-ops -o %t.merged
// RUN: sluice-opt %s --cse -o %t.upstream
// RUN: diff %t.merged %t.upstream
// A dispatch has the origins of the ops that it formed of, and of the shift through which it reads.
// RUN: sluice-opt %s --sluice-merge-ops --sluice-form-dispatches --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=FORMED
// Dispatches that differ in their origins alone share a kernel.
// RUN: sluice-opt %s --sluice-form-dispatches --sluice-generate-kernels=target=cpu-avx2 | FileCheck %s --check-prefix=KERNELS

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @tokens
  sluice.scale @s1 on @tokens factor 1
  sluice.parameter @w : tensor<4x4xf32> {names = ["w"], sizes = array<i64: 4>, initial = "normal"}

  // CHECK-LABEL: func.func @evaluate
  func.func @evaluate(%tokens: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 4, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %x = sluice.embed %tokens, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32> loc(fused<#sluice.origin<stage = "stages.0", part = "token">>["model.json":2:5])
    // CHECK: %[[A:.*]] = sluice.linear
    // CHECK-SAME: loc(fused[fused<#sluice.origin<stage = "stages.1", part = "linear">>["model.json":3:5], fused<#sluice.origin<stage = "stages.2", part = "linear">>["model.json":4:5], fused<#sluice.origin<stage = "stages.3", part = "linear">>["model.json":5:5]])
    // CHECK-NOT: sluice.linear
    %a = sluice.linear %x, %w : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32> loc(fused<#sluice.origin<stage = "stages.1", part = "linear">>["model.json":3:5])
    %b = sluice.linear %x, %w : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32> loc(fused<#sluice.origin<stage = "stages.2", part = "linear">>["model.json":4:5])
    %c = sluice.linear %x, %w : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32> loc(fused<#sluice.origin<stage = "stages.3", part = "linear">>["model.json":5:5])
    // The origin of this one is known already.
    %d = sluice.linear %x, %w : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32> loc(fused<#sluice.origin<stage = "stages.2", part = "linear">>["model.json":9:5])
    // CHECK: sluice.shift %[[A]] by 1
    %s = sluice.shift %b by 1 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32> loc(fused<#sluice.origin<stage = "stages.4", part = "shift">>["model.json":6:5])
    // CHECK: sluice.map(%[[A]], %[[A]], %{{.*}}, %[[A]])
    %y = sluice.map(%a, %c, %s, %d) {
    ^bb0(%p: f32, %q: f32, %r: f32, %k: f32):
      %t = arith.addf %p, %q : f32
      %u = arith.addf %t, %r : f32
      %z = arith.addf %u, %k : f32
      sluice.yield %z : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32> loc(fused<#sluice.origin<stage = "stages.5", part = "add">>["model.json":7:5])
    return %y : !sluice.seq<@s1, 4, f32> loc(fused<#sluice.origin<stage = "stages.5", part = "add">>["model.json":7:5])
  }
}
// FORMED: } : (tensor<2x8x4xf32>, tensor<4x4xf32>) -> tensor<2x8x4xf32> loc(fused[{{.*}}"stages.1"{{.*}}"stages.2"{{.*}}"stages.3"
// FORMED: } : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32> loc(fused[{{.*}}"stages.5"{{.*}}"stages.4"
// KERNELS:     func.func @matmul_
// KERNELS-NOT: func.func @matmul_
