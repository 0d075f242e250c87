// Attention of a step between scales of one axis of segments, whose lengths are in rows of the axis: the domain of keys has a
// factor, as the domain of queries does.
// RUN: sluice-opt %s --sluice-derive-step --sluice-form-dispatches | FileCheck %s

// CHECK-LABEL: func.func @step(
// CHECK:         dispatch.attention
// CHECK-SAME:      domain = #dispatch.domain<batch = 16, positions = 1, factor = 1, scheduled = true>
// CHECK-SAME:      key_domain = #dispatch.domain<batch = 16, positions = 8, factor = 1>

!fine = !sluice.seq<@fine, 8, f32>
!bit = !sluice.seq<@fine, 1, f32>
!counts = !sluice.seq<@fine, 0, i32>
!ends = !sluice.seq<@word, 0, i32>
!word = !sluice.seq<@word, 8, f32>
!pair = !sluice.seq<@pair, 8, f32>
module attributes {sluice.batch = 2 : i64, sluice.context = 16 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.scale @last on @tokens factor 0
  sluice.axis @words segments of @fine capacity 8
  sluice.scale @word on @words factor 1
  sluice.scale @pair on @words factor 2
  sluice.parameter @table : tensor<7x8xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @bit : tensor<1x8xf32> {names = ["bit"], sizes = array<i64: 1>, initial = "normal"}

  func.func @predict(%tokens: !counts) -> !sluice.seq<@last, 7, f32> {
    %table = sluice.read @table : tensor<7x8xf32>
    %x = sluice.embed %tokens, %table : (!counts, tensor<7x8xf32>) -> !fine
    %bit = sluice.read @bit : tensor<1x8xf32>
    %bits = sluice.linear %x, %bit : (!fine, tensor<1x8xf32>) -> !bit
    %c, %e = sluice.segment %bits : (!bit) -> (!counts, !ends)
    %words = sluice.select_segments %x, %c, %e : (!fine, !counts, !ends) -> !word
    %pairs = sluice.shorten %words factor 2 : (!word) -> !pair
    %o, %lse = sluice.attention %pairs, %words, %words attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 8 : i64, query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (2 * p + 1 - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %s : f32
    } : (!pair, !word, !word) -> (!pair, !sluice.seq<@pair, 1, f32>)
    %up = sluice.upsample %o factor 2 : (!pair) -> !word
    %late = sluice.shift %up by 1 : (!word) -> !word
    %y = sluice.spread_segments %late, %c, %e by 1 : (!word, !counts, !ends) -> !fine
    %last = sluice.last %y : (!fine) -> !sluice.seq<@last, 8, f32>
    %l = sluice.linear %last, %table : (!sluice.seq<@last, 8, f32>, tensor<7x8xf32>) -> !sluice.seq<@last, 7, f32>
    return %l : !sluice.seq<@last, 7, f32>
  }
}
