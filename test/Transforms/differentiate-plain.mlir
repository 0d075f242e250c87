// Backward ops of a model without a map bring the dialects of maps' regions with them.
// RUN: sluice-opt %s --sluice-differentiate | FileCheck %s

// CHECK-LABEL: func.func @gradient
// CHECK:         %{{.*}}, %[[ROWS:.*]], %[[HEAD:.*]] = sluice.cross_entropy_backward
// CHECK:         %[[SUMS:.*]] = sluice.shorten %[[ROWS]] factor 2 sum
// CHECK:         %[[MEANS:.*]] = sluice.map(%[[SUMS]])
// CHECK:           arith.constant 5.000000e-01 : f32
// CHECK:           arith.mulf
// CHECK:         %[[FINE:.*]] = sluice.upsample %[[MEANS]] factor 2
// CHECK:         %[[EARLY:.*]] = sluice.shift %[[FINE]] by -1
// CHECK:         sluice.embed_backward %{{.*}}, %[[EARLY]], %[[HEAD]]
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @s2 on @target factor 2
  sluice.parameter @w : tensor<5x4xf32> {names = ["w"], sizes = array<i64: 5>, initial = "normal"}
  func.func @evaluate(%tokens: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<5x4xf32>
    %x = sluice.embed %tokens, %w : (!sluice.seq<@s1, 0, i32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %late = sluice.shift %x by 1 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %pairs = sluice.shorten %late factor 2 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s2, 4, f32>
    %y = sluice.upsample %pairs factor 2 : (!sluice.seq<@s2, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %l = sluice.cross_entropy %y, %w, %tokens {offset = 1 : i64}
        : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %l : !sluice.seq<@s1, 0, f32>
  }
}
