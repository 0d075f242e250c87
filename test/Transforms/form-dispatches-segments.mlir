// Segments: one scan, then row passes that find rows by counts and ends. Backward the two are inverted.
// RUN: sluice-opt %s --sluice-differentiate --sluice-form-dispatches | FileCheck %s


// CHECK-LABEL: func.func @gradient()
// Stores the value of a bit, not its backward surrogate.
// CHECK-NOT:     straight_through

// Five rows of segments, at any length: factor 0.
// CHECK:         %[[C:.*]], %[[E:.*]], %[[N:.*]] = dispatch.segment_scan %{{.*}} attributes {{.*}}domain = #dispatch.domain<batch = 2, positions = 10, factor = 1>
// CHECK-SAME:      -> (tensor<2x10xi32>, tensor<2x5xi32>, tensor<2x2xi32>)
// CHECK:         plan.store "scalar:segments.words", %[[N]]

// Rows e(m - 1) + 1 to e(m).
// CHECK:         %[[POOLED:.*]] = dispatch.rows %[[E]], %[[E]], %{{.*}} attributes {accesses = [
// CHECK-SAME:      #dispatch.access<row[p - 1], {{[^>]*}}extended>
// CHECK-SAME:      #dispatch.access<row, {{[^>]*}}extended>
// CHECK-SAME:      #dispatch.access<range[v + 1], {{[^>]*}}index = 0, last = 1>
// CHECK-SAME:      domain = #dispatch.domain<batch = 2, positions = 5, factor = 0>

// Row c(t) - 1.
// CHECK:         %[[SPREAD:.*]] = dispatch.rows %[[C]], %{{.*}} attributes {accesses = [
// CHECK-SAME:      #dispatch.access<row>
// CHECK-SAME:      #dispatch.access<gather[v - 1], {{[^>]*}}index = 0>

// The spread's gradient is a sum over e(m) <= t < e(m + 1).
// CHECK:         dispatch.rows %[[E]], %[[E]], %{{.*}} attributes {accesses = [
// CHECK-SAME:      #dispatch.access<row, {{[^>]*}}extended>
// CHECK-SAME:      #dispatch.access<row[p + 1], {{[^>]*}}extended>
// CHECK-SAME:      #dispatch.access<range, {{[^>]*}}index = 0, last = 1>

// The bits' gradient: one number a row, and the sum of the later ones in its segment.
// CHECK:         %[[MOVED:.*]] = dispatch.rows %[[C]], %[[E]], %[[E]], %{{.*}}, %[[POOLED]], %{{.*}} attributes
// CHECK:           dispatch.reduce add
// CHECK:         %[[DB:.*]] = dispatch.rows %[[C]], %[[E]], %[[MOVED]] attributes {accesses = [
// CHECK-SAME:      #dispatch.access<row[p - 1]>
// CHECK-SAME:      #dispatch.access<gather, {{[^>]*}}index = 0, extended>
// CHECK-SAME:      #dispatch.access<range[v + 1], {{[^>]*}}last = 1>

// Straight through: it is the logits' gradient unchanged.
// CHECK:         dispatch.weight_gradient %[[DB]],

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
    %x = sluice.embed %tokens, %table : (!counts, tensor<7x8xf32>) -> !fine
    %bit = sluice.read @bit : tensor<1x8xf32>
    %logits = sluice.linear %x, %bit : (!fine, tensor<1x8xf32>) -> !bit
    %bits = sluice.map(%logits) {
    ^bb0(%logit: f32):
      %zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %positive = arith.cmpf ogt, %logit, %zero : f32
      %hard = arith.select %positive, %one, %zero : f32
      %through = dispatch.straight_through %hard, %logit : f32
      sluice.yield %through : f32
    } : (!bit) -> !bit
    %c, %e = sluice.segment %bits : (!bit) -> (!counts, !ends)
    %y = sluice.pool_segments %x, %bits, %c, %e : (!fine, !bit, !counts, !ends) -> !coarse
    %z = sluice.spread_segments %y, %c, %e by 1 : (!coarse, !counts, !ends) -> !fine
    %losses = sluice.cross_entropy %z, %table, %tokens {offset = 1 : i64} : (!fine, tensor<7x8xf32>, !counts) -> !sluice.seq<@fine, 0, f32>
    return %losses : !sluice.seq<@fine, 0, f32>
  }
}
