// The ops of an incremental step. All of them round-trip.
// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// RUN: sluice-opt %s --mlir-print-op-generic | sluice-opt | FileCheck %s

sluice.axis @target
sluice.scale @s1 on @target factor 1
sluice.scale @s4 on @target factor 4

// CHECK: sluice.schedule @each count (d0) -> (d0 + 1) due (d0) -> (d0) first 0 period 1 rise 1 burst 1
sluice.schedule @each count (d0) -> (d0 + 1) due (d0) -> (d0) first 0 period 1 rise 1 burst 1
// The minimum of two counts: a row is due when both are reached.
// CHECK: sluice.schedule @fourth count (d0) -> ((d0 + 1) floordiv 4, d0 - 2) due (d0) -> (d0 * 4 + 3, d0 + 3) first 3 period 4 rise 1 burst 1
sluice.schedule @fourth count (d0) -> ((d0 + 1) floordiv 4, d0 - 2) due (d0) -> (d0 * 4 + 3, d0 + 3) first 3 period 4 rise 1 burst 1
sluice.axis @words segments of @s1 capacity 8
// CHECK: sluice.schedule @closed segments of @words count (d0) -> (d0) due (d0) -> (d0 + 1) first 1 period 1 rise 1 burst 1
sluice.schedule @closed segments of @words count (d0) -> (d0) due (d0) -> (d0 + 1) first 1 period 1 rise 1 burst 1
// CHECK: sluice.state @window ring 4 : !sluice.seq<@s1, 8, f32>
sluice.state @window ring 4 : !sluice.seq<@s1, 8, f32>
// CHECK: sluice.state @whole ring 16 all : !sluice.seq<@s4, 8, bf16>
sluice.state @whole ring 16 all : !sluice.seq<@s4, 8, bf16>

// CHECK-LABEL: func.func @step(
// CHECK-SAME:      %[[X:.*]]: !sluice.seq<@s1, 8, f32>, %[[Y:.*]]: !sluice.seq<@s4, 8, bf16>)
func.func @step(%x: !sluice.seq<@s1, 8, f32>, %y: !sluice.seq<@s4, 8, bf16>) -> (!sluice.seq<@s1, 8, f32>, !sluice.seq<@s4, 8, bf16>) {
  // CHECK-NEXT: sluice.due %[[X]] by @each : <@s1, 8, f32>
  sluice.due %x by @each : <@s1, 8, f32>
  // CHECK-NEXT: %[[XK:.*]] = sluice.keep %[[X]] in @window : <@s1, 8, f32> -> <@s1, 8, f32>
  %xk = sluice.keep %x in @window : <@s1, 8, f32> -> <@s1, 8, f32>
  // CHECK-NEXT: sluice.due %[[Y]] by @fourth : <@s4, 8, bf16>
  sluice.due %y by @fourth : <@s4, 8, bf16>
  // CHECK-NEXT: %[[YK:.*]] = sluice.keep %[[Y]] in @whole : <@s4, 8, bf16> -> <@s4, 8, bf16>
  %yk = sluice.keep %y in @whole : <@s4, 8, bf16> -> <@s4, 8, bf16>
  // CHECK-NEXT: return %[[XK]], %[[YK]]
  return %xk, %yk : !sluice.seq<@s1, 8, f32>, !sluice.seq<@s4, 8, bf16>
}
