// Losses of rows that choose among the rows of a batch, and their gradients.
// RUN: sluice-opt %s | sluice-opt | FileCheck %s

module attributes {sluice.batch = 4 : i64, sluice.context = 9 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1

  // CHECK-LABEL: func.func @losses(
  // CHECK:         sluice.contrast %{{.*}}, %{{.*}} : (!sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 5, f32>) -> !sluice.seq<@s1, 0, f32>
  // CHECK:         sluice.contrast %{{.*}}, %{{.*}}, %{{.*}} {parts = 2 : i64}
  // CHECK:         sluice.contrast_backward %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {parts = 2 : i64}
  func.func @losses(%x: !sluice.seq<@s1, 5, f32>, %v: !sluice.seq<@s1, 5, f32>, %g: !sluice.seq<@s1, 0, f32>, %b: !sluice.seq<@s1, 1, f32>) {
    %l = sluice.contrast %x, %v : (!sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 5, f32>) -> !sluice.seq<@s1, 0, f32>
    %m = sluice.contrast %x, %v, %b {parts = 2 : i64}
        : (!sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 1, f32>) -> !sluice.seq<@s1, 0, f32>
    %dx, %dv = sluice.contrast_backward %x, %v, %g, %b {parts = 2 : i64}
        : (!sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 1, f32>)
            -> (!sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 5, f32>)
    // CHECK:         %[[W:.*]] = sluice.counted_rows {every = 4 : i64, first = 4 : i64, padded, parts = 2 : i64} : <@s1, 0, f32>
    // CHECK:         sluice.weight_sum %[[W]] as "next.counted" from 4 {given} : <@s1, 0, f32>
    %w = sluice.counted_rows {first = 4 : i64, every = 4 : i64, parts = 2 : i64, padded} : !sluice.seq<@s1, 0, f32>
    sluice.weight_sum %w as "next.counted" from 4 {given} : !sluice.seq<@s1, 0, f32>
    return
  }
}
