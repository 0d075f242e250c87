// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// Columns of a row: cut or padded, and put at the row's place in its segment.

module attributes {sluice.batch = 2 : i64, sluice.context = 16 : i64} {
  sluice.axis @tokens
  sluice.scale @s on @tokens factor 1
  // CHECK-LABEL: func.func @fit
  func.func @fit(%x: !sluice.seq<@s, 4, f32>) -> !sluice.seq<@s, 3, f32> {
    // CHECK: sluice.fit %{{.*}} at 3 : (!sluice.seq<@s, 4, f32>) -> !sluice.seq<@s, 9, f32>
    %wide = sluice.fit %x at 3 : (!sluice.seq<@s, 4, f32>) -> !sluice.seq<@s, 9, f32>
    // CHECK: sluice.fit %{{.*}} at -2 : (!sluice.seq<@s, 9, f32>) -> !sluice.seq<@s, 3, f32>
    %narrow = sluice.fit %wide at -2 : (!sluice.seq<@s, 9, f32>) -> !sluice.seq<@s, 3, f32>
    return %narrow : !sluice.seq<@s, 3, f32>
  }
  // CHECK-LABEL: func.func @place
  func.func @place(%x: !sluice.seq<@s, 4, f32>, %i: !sluice.seq<@s, 0, f32>) {
    // CHECK: sluice.place %{{.*}} at %{{.*}} : (!sluice.seq<@s, 4, f32>, !sluice.seq<@s, 0, f32>) -> !sluice.seq<@s, 12, f32>
    %y = sluice.place %x at %i : (!sluice.seq<@s, 4, f32>, !sluice.seq<@s, 0, f32>) -> !sluice.seq<@s, 12, f32>
    // CHECK: sluice.place_backward %{{.*}} at %{{.*}} : (!sluice.seq<@s, 12, f32>, !sluice.seq<@s, 0, f32>) -> !sluice.seq<@s, 4, f32>
    %dx = sluice.place_backward %y at %i : (!sluice.seq<@s, 12, f32>, !sluice.seq<@s, 0, f32>) -> !sluice.seq<@s, 4, f32>
    return
  }
}
