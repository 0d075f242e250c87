// A loss against a distribution stores its logits; one against tokens stays one op. Rows of a shift are stored first.
// RUN: sluice-opt %s --sluice-expand-soft-targets | FileCheck %s
// RUN: not sluice-opt %s --sluice-differentiate 2>&1 | FileCheck %s --check-prefix=CHECK-LATE

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.parameter @w : tensor<5x4xf32> {names = ["w"], sizes = array<i64: 5>, initial = "normal"}

  // CHECK-LABEL: func.func @evaluate(
  // CHECK-SAME:    %[[TOKENS:.*]]: !sluice.seq<@s1, 0, i32>, %[[X:.*]]: !sluice.seq<@s1, 4, f32>
  // CHECK:         %[[W:.*]] = sluice.read @w
  // CHECK:         %[[H:.*]] = sluice.cross_entropy
  // CHECK:         %[[S:.*]] = sluice.shift
  // CHECK-NEXT:    %[[R:.*]] = sluice.map(%[[S]])
  // CHECK:         %[[Z:.*]] = sluice.linear %[[R]], %[[W]]
  // CHECK-NEXT:    %[[L:.*]] = sluice.soft_loss %[[Z]], %[[TOKENS]] against "teacher" {first = 1 : i64}
  // CHECK-NEXT:    sluice.objective %[[H]], %[[L]]
  // CHECK-LATE: S-146: expected losses against tokens alone, found one against "teacher"; run sluice-expand-soft-targets before
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>, %x: !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<5x4xf32>
    %h = sluice.cross_entropy %x, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    %s = sluice.shift %x by 1 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %l = sluice.cross_entropy %s, %w, %t {first = 1 : i64, offset = 1 : i64, target = "teacher"} : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    sluice.objective %h, %l {names = ["next", "soft"], factors = array<f64: 1.0, 1.0>, first = array<i64: 0, 1>} : !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>
    return %h : !sluice.seq<@s1, 0, f32>
  }
}
