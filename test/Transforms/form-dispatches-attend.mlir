// Attention of segments over their rows: row passes. A row gets the query of its segment and its scores, a segment the greatest of these,
// then sums over its rows. Keys next to a row are one pass.
// RUN: sluice-opt %s --sluice-form-dispatches | FileCheck %s


// CHECK-LABEL: func.func @evaluate()
// CHECK:         %[[C:.*]], %[[E:.*]], %{{.*}} = dispatch.segment_scan
// The query of row t's segment, c(t - 1).
// CHECK:         %[[QUERY:.*]] = dispatch.rows %[[C]], %{{.*}} attributes {accesses = [
// CHECK-SAME:      #dispatch.access<gather, {{[^>]*}}index = 0>
// CHECK-SAME:      domain = #dispatch.domain<batch = 2, positions = 10, factor = 1>
// A row as 4 rows of 2 heads: a score a head.
// CHECK:         %[[SCORES:.*]] = dispatch.rows %[[QUERY]], %{{.*}} attributes {accesses = [
// CHECK-SAME:      #dispatch.access<row, group = 4, factor = 1, column = i * 2>
// CHECK:           dispatch.reduce_group add %{{.*}} : tensor<4x2xf32> -> tensor<2xf32>
// The greatest of a segment's.
// CHECK:         %[[MOST:.*]] = dispatch.rows %[[E]], %[[E]], %[[SCORES]] attributes {accesses = [
// CHECK-SAME:      #dispatch.access<range[v + 1], {{[^>]*}}index = 0, last = 1, outside = 0xFF800000 : f32>
// CHECK-SAME:      domain = #dispatch.domain<batch = 2, positions = 5, factor = 0>
// CHECK:         math.exp
// CHECK:         math.log
// Values, weighted by the normalized exponentials, are summed.
// CHECK:           dispatch.spread %{{.*}} : tensor<2xf32> -> tensor<4x2xf32>
// CHECK:         dispatch.rows
// CHECK-SAME:      #dispatch.access<range[v + 1], {{[^>]*}}index = 0, last = 1>

// Two keys next to each row.
// CHECK:         dispatch.rows %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} attributes {accesses = [
// CHECK:           arith.maximumf
// CHECK:           dispatch.yield %{{.*}} : tensor<4x2xf32>

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

  func.func @evaluate(%tokens: !counts) -> !sluice.seq<@fine, 0, f32> {
    %table = sluice.read @table : tensor<7x8xf32>
    %bit = sluice.read @bit : tensor<1x8xf32>
    %x = sluice.embed %tokens, %table : (!counts, tensor<7x8xf32>) -> !fine
    %b = sluice.linear %x, %bit : (!fine, tensor<1x8xf32>) -> !bit
    %c, %e = sluice.segment %b : (!bit) -> (!counts, !ends)
    %q = sluice.select_segments %x, %c, %e : (!fine, !counts, !ends) -> !coarse
    %m, %l = sluice.attend_segments %q, %x, %x, %c, %e heads 2 : (!coarse, !fine, !fine, !counts, !ends) -> (!coarse, !sluice.seq<@word, 2, f32>)
    %z = sluice.spread_segments %m, %c, %e by 1 : (!coarse, !counts, !ends) -> !fine
    %y = sluice.attend_parts %x keys(%z, %x) values(%x, %z) heads 2 : (!fine, !fine, !fine, !fine, !fine) -> !fine
    %losses = sluice.cross_entropy %y, %table, %tokens {offset = 1} : (!fine, tensor<7x8xf32>, !counts) -> !sluice.seq<@fine, 0, f32>
    return %losses : !sluice.seq<@fine, 0, f32>
  }
}
