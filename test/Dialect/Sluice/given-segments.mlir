// Segments and groups of a given axis: the row's own count closes the last segment, and is the number of keys.
// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// RUN: sluice-opt %s --sluice-form-dispatches | FileCheck %s --check-prefix=FORMED

module attributes {sluice.batch = 2 : i64, sluice.context = 9 : i64} {
  sluice.axis @target
  sluice.axis @source given 5 vocabulary 7
  sluice.scale @s1 on @target factor 1
  sluice.scale @e1 on @source factor 1
  sluice.scale @e2 on @source factor 2
  // CHECK: sluice.axis @words segments of @e1 capacity 5
  sluice.axis @words segments of @e1 capacity 5
  sluice.scale @w1 on @words factor 1
  sluice.parameter @table : tensor<7x8xf32> {names = ["w"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @rule : tensor<7x1xf32> {names = ["r"], sizes = array<i64: 7>, initial = "members", frozen,
    members = array<i64: 3>}

  // The bits end at the row's count before the scan, and its totals are the numbers of keys and of rows.
  // FORMED-LABEL: func.func @by_words
  // FORMED: plan.store "scalar:length.source"
  // FORMED: %[[COUNT:.*]] = plan.bind "input:source.count" : tensor<2xi64>
  // FORMED: plan.view %[[COUNT]]
  // FORMED: dispatch.rows
  // FORMED: dispatch.segment_scan
  // FORMED: label = "segments"
  // FORMED: plan.store "scalar:length.words"
  // FORMED: dispatch.attention
  func.func @by_words(%t: !sluice.seq<@s1, 0, i32>, %s: !sluice.seq<@e1, 0, i32>)
      -> !sluice.seq<@s1, 8, f32> {
    %table = sluice.read @table : tensor<7x8xf32>
    %rule = sluice.read @rule : tensor<7x1xf32>
    %x = sluice.embed %t, %table : (!sluice.seq<@s1, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@s1, 8, f32>
    %k = sluice.embed %s, %table : (!sluice.seq<@e1, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@e1, 8, f32>
    %b = sluice.embed %s, %rule : (!sluice.seq<@e1, 0, i32>, tensor<7x1xf32>) -> !sluice.seq<@e1, 1, f32>
    %c, %e = sluice.segment %b : (!sluice.seq<@e1, 1, f32>) -> (!sluice.seq<@e1, 0, i32>, !sluice.seq<@w1, 0, i32>)
    // CHECK: sluice.pool_segments %{{.*}} {sum} :
    %w = sluice.pool_segments %k, %b, %c, %e {sum} : (!sluice.seq<@e1, 8, f32>, !sluice.seq<@e1, 1, f32>,
      !sluice.seq<@e1, 0, i32>, !sluice.seq<@w1, 0, i32>) -> !sluice.seq<@w1, 8, f32>
    // CHECK: sluice.spread_segments %{{.*}} by 0 own :
    %z = sluice.spread_segments %w, %c, %e by 0 own : (!sluice.seq<@w1, 8, f32>, !sluice.seq<@e1, 0, i32>,
      !sluice.seq<@w1, 0, i32>) -> !sluice.seq<@e1, 8, f32>
    %y, %lse = sluice.attention %x, %w, %w attributes {heads = 1, kv_heads = 1, head_size = 8, query_column = 0,
      key_column = 0, value_column = 0, mask = affine_set<(p, q)[n] : (q >= 0)>} {
    ^bb0(%a: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %a : f32
    } : (!sluice.seq<@s1, 8, f32>, !sluice.seq<@w1, 8, f32>, !sluice.seq<@w1, 8, f32>)
        -> (!sluice.seq<@s1, 8, f32>, !sluice.seq<@s1, 1, f32>)
    %m, %lse2 = sluice.attention %y, %z, %z attributes {heads = 1, kv_heads = 1, head_size = 8, query_column = 0,
      key_column = 0, value_column = 0, mask = affine_set<(p, q)[n] : (q >= 0)>} {
    ^bb0(%a: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %a : f32
    } : (!sluice.seq<@s1, 8, f32>, !sluice.seq<@e1, 8, f32>, !sluice.seq<@e1, 8, f32>)
        -> (!sluice.seq<@s1, 8, f32>, !sluice.seq<@s1, 1, f32>)
    return %m : !sluice.seq<@s1, 8, f32>
  }

  // FORMED-LABEL: func.func @by_groups
  // FORMED: plan.bind "input:source.count" : tensor<2xi64>
  // FORMED: arith.select
  func.func @by_groups(%t: !sluice.seq<@s1, 0, i32>, %s: !sluice.seq<@e1, 0, i32>) -> !sluice.seq<@e2, 8, f32> {
    %table = sluice.read @table : tensor<7x8xf32>
    %k = sluice.embed %s, %table : (!sluice.seq<@e1, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@e1, 8, f32>
    // CHECK: sluice.clear_padding %{{.*}} fill 0.000000e+00 :
    %i = sluice.clear_padding %k fill 0.0 : (!sluice.seq<@e1, 8, f32>) -> !sluice.seq<@e1, 8, f32>
    %g = sluice.shorten %i factor 2 average : (!sluice.seq<@e1, 8, f32>) -> !sluice.seq<@e2, 8, f32>
    return %g : !sluice.seq<@e2, 8, f32>
  }
}
