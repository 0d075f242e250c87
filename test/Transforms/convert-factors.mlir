// The input of a linear map or a head is converted to the type of its weight, once for all readers.
// RUN: sluice-opt %s --sluice-convert-factors | FileCheck %s
// A conversion has the origins of all readers.
// RUN: sluice-opt %s --sluice-convert-factors --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=ORIGINS
// ORIGINS: !sluice.seq<@s1, 4, bf16> loc(fused[fused<#sluice.origin<stage = "stages.1", part = "linear">>["m.json":3:5], fused<#sluice.origin<stage = "stages.2", part = "linear">>["m.json":4:5]])

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.parameter @w : tensor<4x4xf32> {names = ["w"], sizes = array<i64: 4>, initial = "normal"}

  // CHECK-LABEL: func.func @evaluate(
  // CHECK-SAME:    %[[TOKENS:.*]]: !sluice.seq<@s1, 0, i32>, %[[X:.*]]: !sluice.seq<@s1, 4, f32>
  // CHECK:         %[[W:.*]] = sluice.read @w : tensor<4x4xbf16>
  // CHECK:         %[[C:.*]] = sluice.map(%[[X]])
  // CHECK:         ^bb0(%[[N:.*]]: f32):
  // CHECK-NEXT:      sluice.yield %[[N]] : f32
  // CHECK:         (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, bf16>
  // CHECK-NEXT:    %[[Y:.*]] = sluice.linear %[[C]], %[[W]]
  // CHECK-NOT:     sluice.map
  // CHECK:         sluice.linear %[[C]], %[[W]]
  // The second result is of the compute type already.
  // CHECK-NEXT:    sluice.linear %[[Y]], %[[W]]
  // CHECK-NEXT:    sluice.cross_entropy %[[C]], %[[W]], %[[TOKENS]]
  func.func @evaluate(%tokens: !sluice.seq<@s1, 0, i32>, %x: !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xbf16>
    %y = sluice.linear %x, %w : (!sluice.seq<@s1, 4, f32>, tensor<4x4xbf16>) -> !sluice.seq<@s1, 4, bf16> loc(fused<#sluice.origin<stage = "stages.1", part = "linear">>["m.json":3:5])
    %z = sluice.linear %x, %w : (!sluice.seq<@s1, 4, f32>, tensor<4x4xbf16>) -> !sluice.seq<@s1, 4, f32> loc(fused<#sluice.origin<stage = "stages.2", part = "linear">>["m.json":4:5])
    %u = sluice.linear %y, %w : (!sluice.seq<@s1, 4, bf16>, tensor<4x4xbf16>) -> !sluice.seq<@s1, 4, f32>
    %l = sluice.cross_entropy %x, %w, %tokens {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<4x4xbf16>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %l : !sluice.seq<@s1, 0, f32>
  }
}
