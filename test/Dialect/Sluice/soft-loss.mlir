// A loss of logits against a distribution that data give, and its gradient.
// RUN: sluice-opt %s | sluice-opt | FileCheck %s

module attributes {sluice.batch = 2 : i64, sluice.context = 9 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1

  // CHECK-LABEL: func.func @losses(
  // CHECK-SAME:    %[[Z:[a-z0-9]*]]: !sluice.seq<@s1, 5, f32>, %[[T:[a-z0-9]*]]: !sluice.seq<@s1, 0, i32>, %[[G:[a-z0-9]*]]: !sluice.seq<@s1, 0, f32>
  // CHECK:         sluice.soft_loss %[[Z]], %[[T]] against "teacher" {first = 2 : i64}
  // CHECK:         sluice.soft_loss_backward %[[Z]], %[[T]], %[[G]] against "teacher" {first = 2 : i64}
  func.func @losses(%z: !sluice.seq<@s1, 5, f32>, %t: !sluice.seq<@s1, 0, i32>, %g: !sluice.seq<@s1, 0, f32>) {
    %l = sluice.soft_loss %z, %t against "teacher" {first = 2 : i64} : (!sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    %d = sluice.soft_loss_backward %z, %t, %g against "teacher" {first = 2 : i64}
        : (!sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 0, i32>, !sluice.seq<@s1, 0, f32>) -> !sluice.seq<@s1, 5, f32>
    return
  }
}
