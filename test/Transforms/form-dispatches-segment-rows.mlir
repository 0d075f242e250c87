// Rows of segments: a dispatch of theirs reads their lengths, one a row of the batch, which are stored after the scan.
// RUN: sluice-opt %s --sluice-form-dispatches | FileCheck %s

// CHECK-LABEL: func.func @evaluate()
// CHECK:         %{{.*}}, %{{.*}}, %[[TOTALS:.*]] = dispatch.segment_scan
// A text's segments, one more for a segment that is open, the axis's rows at most, and no more than memory has room for.
// CHECK:         %[[ROOM:.*]] = plan.bind "scalar:room"
// CHECK:         %[[LENGTHS:.*]] = dispatch.rows %[[TOTALS]], %[[ROOM]] {{.*}} domain = #dispatch.domain<batch = 2, positions = 1, factor = 0>
// CHECK:         ^bb0(%[[SEGMENTS:.*]]: i32, %[[MOST:.*]]: i64):
// CHECK:           %[[BEGUN:.*]] = arith.addi %[[SEGMENTS]], %c1_i32
// CHECK:           %[[ROWS:.*]] = arith.constant 5 : i32
// CHECK:           arith.minsi %{{.*}}, %[[ROWS]]
// CHECK:           %[[BOUNDED:.*]] = arith.minsi %[[LENGTH:.*]], %[[MOST]]
// CHECK:           arith.select %{{.*}}, %[[BOUNDED]], %[[LENGTH]]
// CHECK:         plan.store "scalar:length.words", %[[LENGTHS]] : tensor<2x1xi64>
// CHECK:         dispatch.rows {{.*}} domain = #dispatch.domain<batch = 2, positions = 5, factor = 0>
// CHECK:         dispatch.contract {{.*}} domain = #dispatch.domain<batch = 2, positions = 5, factor = 1 axis = "words">
// The finer scale's rows find those that count.
// CHECK:         dispatch.rows {{.*}} domain = #dispatch.domain<batch = 2, positions = 10, factor = 1>

!fine = !sluice.seq<@fine, 8, f32>
!bit = !sluice.seq<@fine, 1, f32>
!counts = !sluice.seq<@fine, 0, i32>
!ends = !sluice.seq<@word, 0, i32>
!coarse = !sluice.seq<@word, 8, f32>
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.axis @words segments of @fine capacity 5
  sluice.scale @word on @words factor 1
  sluice.parameter @table : tensor<7x8xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal", deviation = 0.02 : f64}
  sluice.parameter @bit : tensor<1x8xf32> {names = ["bit"], sizes = array<i64: 1>, initial = "normal", deviation = 0.02 : f64}
  sluice.parameter @inner : tensor<8x8xf32> {names = ["inner"], sizes = array<i64: 8>, initial = "normal", deviation = 0.02 : f64}

  func.func @evaluate(%tokens: !counts) -> !sluice.seq<@fine, 0, f32> {
    %table = sluice.read @table : tensor<7x8xf32>
    %x = sluice.embed %tokens, %table : (!counts, tensor<7x8xf32>) -> !fine
    %bit = sluice.read @bit : tensor<1x8xf32>
    %bits = sluice.linear %x, %bit : (!fine, tensor<1x8xf32>) -> !bit
    %c, %e = sluice.segment %bits : (!bit) -> (!counts, !ends)
    %y = sluice.select_segments %x, %c, %e : (!fine, !counts, !ends) -> !coarse
    %inner = sluice.read @inner : tensor<8x8xf32>
    %z = sluice.linear %y, %inner : (!coarse, tensor<8x8xf32>) -> !coarse
    %w = sluice.spread_segments %z, %c, %e by 1 : (!coarse, !counts, !ends) -> !fine
    %losses = sluice.cross_entropy %w, %table, %tokens {offset = 1 : i64} : (!fine, tensor<7x8xf32>, !counts) -> !sluice.seq<@fine, 0, f32>
    return %losses : !sluice.seq<@fine, 0, f32>
  }
}
