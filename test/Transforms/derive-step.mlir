// One value is read by a later step and by its own: the shortening reads the kept rows, the map the
// rows of this step. What no prediction reads is left out.
// RUN: sluice-opt %s --sluice-derive-step | FileCheck %s
// RUN: sluice-opt %s --sluice-derive-step | sluice-opt | FileCheck %s
// RUN: not sluice-opt %s --sluice-derive-step=operations=10 2>&1 | FileCheck %s --check-prefix=EXHAUSTED
// EXHAUSTED: error: expected a model from which a step can be derived, found that not proved: the budget of 10 operations ran out

module attributes {sluice.batch = 1 : i64, sluice.context = 16 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @s4 on @target factor 4
  sluice.scale @last on @target factor 0
  sluice.parameter @e : tensor<7x8xf32> {names = ["e"], sizes = array<i64: 7>, initial = "normal"}

  // CHECK-DAG: sluice.schedule @schedule.0 count (d0) -> (d0 + 1) due (d0) -> (d0) first 0 period 1 rise 1 burst 1
  // CHECK-DAG: sluice.schedule @schedule.1 count (d0) -> ((d0 + 1) floordiv 4) due (d0) -> (d0 * 4 + 3) first 3 period 4 rise 1 burst 1
  // CHECK-DAG: sluice.state @state.embed ring 4 : !sluice.seq<@s1, 8, f32>
  // CHECK-DAG: sluice.state @state.shorten ring 1 : !sluice.seq<@s4, 8, f32>
  func.func @predict(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@last, 7, f32> {
    %e = sluice.read @e : tensor<7x8xf32>
    %x = sluice.embed %t, %e : (!sluice.seq<@s1, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@s1, 8, f32>
    %m = sluice.shorten %x factor 4 : (!sluice.seq<@s1, 8, f32>) -> !sluice.seq<@s4, 8, f32>
    %unused = sluice.shorten %x factor 4 : (!sluice.seq<@s1, 8, f32>) -> !sluice.seq<@s4, 8, f32>
    %u = sluice.upsample %m factor 4 : (!sluice.seq<@s4, 8, f32>) -> !sluice.seq<@s1, 8, f32>
    %s = sluice.shift %u by 3 : (!sluice.seq<@s1, 8, f32>) -> !sluice.seq<@s1, 8, f32>
    %y = sluice.map(%x, %s) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@s1, 8, f32>, !sluice.seq<@s1, 8, f32>) -> !sluice.seq<@s1, 8, f32>
    %z = sluice.last %y : (!sluice.seq<@s1, 8, f32>) -> !sluice.seq<@last, 8, f32>
    %l = sluice.linear %z, %e : (!sluice.seq<@last, 8, f32>, tensor<7x8xf32>) -> !sluice.seq<@last, 7, f32>
    return %l : !sluice.seq<@last, 7, f32>
  }
  // CHECK-LABEL: func.func @step(
  // CHECK-SAME:      %[[T:.*]]: !sluice.seq<@s1, 0, i32>)
  // CHECK-NEXT:    sluice.due %[[T]] by @schedule.0
  // CHECK-NEXT:    %[[E:.*]] = sluice.read @e
  // CHECK-NEXT:    %[[X:.*]] = sluice.embed %[[T]], %[[E]]
  // CHECK-NEXT:    sluice.due %[[X]] by @schedule.0
  // CHECK-NEXT:    %[[XK:.*]] = sluice.keep %[[X]] in @state.embed
  // CHECK-NEXT:    %[[M:.*]] = sluice.shorten %[[XK]] factor 4
  // CHECK-NEXT:    sluice.due %[[M]] by @schedule.1
  // CHECK-NEXT:    %[[MK:.*]] = sluice.keep %[[M]] in @state.shorten
  // CHECK-NEXT:    %[[U:.*]] = sluice.upsample %[[MK]] factor 4
  // CHECK-NEXT:    %[[S:.*]] = sluice.shift %[[U]] by 3
  // CHECK-NEXT:    %[[Y:.*]] = sluice.map(%[[X]], %[[S]])
  // CHECK:         sluice.due %[[Y]] by @schedule.0
  // CHECK-NEXT:    %[[Z:.*]] = sluice.last %[[Y]]
  // CHECK-NEXT:    %[[L:.*]] = sluice.linear %[[Z]], %[[E]]
  // CHECK-NEXT:    return %[[L]]
}
