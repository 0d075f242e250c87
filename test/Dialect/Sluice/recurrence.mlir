// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// Recurrences, and their gradients.

module attributes {sluice.batch = 2 : i64, sluice.context = 16 : i64} {
  sluice.axis @tokens
  sluice.scale @s on @tokens factor 1
  func.func @f(%x: !sluice.seq<@s, 4, f32>, %u: tensor<4x4xbf16>, %r: !sluice.seq<@s, 0, i32>) {
    // CHECK: sluice.recurrence %{{.*}} reset %{{.*}} weight %{{.*}} attributes {reset_at = 1 : i64, reset_every = 4 : i64, reset_within = 3 : i64, reversed} {
    %h, %sums = sluice.recurrence %x reset %r weight %u attributes {reset_at = 1 : i64, reset_every = 4 : i64, reset_within = 3 : i64, reversed} {
    ^bb0(%a: f32, %before: f32):
      %next = arith.addf %a, %before : f32
      sluice.yield %next : f32
    } : (!sluice.seq<@s, 4, f32>, !sluice.seq<@s, 0, i32>, tensor<4x4xbf16>) -> (!sluice.seq<@s, 4, f32>, !sluice.seq<@s, 4, f32>)
    // CHECK: sluice.recurrence_backward %{{.*}} states(%{{.*}}) gradients(%{{.*}}) weight %{{.*}} reset %{{.*}} attributes {gradient_states = array<i64: 0>} {
    %dx, %carried = sluice.recurrence_backward %sums states(%h) gradients(%h) weight %u reset %r attributes {gradient_states = array<i64: 0>} {
    ^bb0(%a: f32, %before: f32, %total: f32):
      sluice.yield %total, %total : f32, f32
    } : (!sluice.seq<@s, 4, f32>, !sluice.seq<@s, 4, f32>, !sluice.seq<@s, 4, f32>, tensor<4x4xbf16>, !sluice.seq<@s, 0, i32>)
        -> (!sluice.seq<@s, 4, f32>, !sluice.seq<@s, 4, f32>)
    return
  }
}
