// A given axis, and attention of the predicted tokens over it.
// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// RUN: sluice-opt %s --sluice-form-dispatches | FileCheck %s --check-prefix=FORMED

module attributes {sluice.batch = 2 : i64, sluice.context = 9 : i64} {
  // CHECK: sluice.axis @target{{$}}
  // CHECK: sluice.axis @source given 5 vocabulary 7
  sluice.axis @target
  sluice.axis @source given 5 vocabulary 7
  sluice.scale @s1 on @target factor 1
  sluice.scale @e1 on @source factor 1
  sluice.parameter @table : tensor<7x8xf32> {names = ["w"], sizes = array<i64: 7>, initial = "normal"}

  // Each text has its own number of rows of the input: of those that are computed, and of keys.
  // FORMED-LABEL: func.func @forward
  // FORMED-DAG: plan.bind "input:tokens" : tensor<2x10xi32>
  // FORMED-DAG: plan.bind "input:source" : tensor<2x5xi32>
  // FORMED: plan.store "scalar:length.source"
  // FORMED: dispatch.rows
  // FORMED-SAME: domain = #dispatch.domain<batch = 2, positions = 9, factor = 1>
  // FORMED: dispatch.rows
  // FORMED-SAME: domain = #dispatch.domain<batch = 2, positions = 5, factor = 1 axis = "source">
  // FORMED: %[[COUNTS:.*]] = plan.bind "input:source.count"
  // FORMED-SAME: : tensor<2xi64>
  // FORMED: dispatch.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[COUNTS]]
  // FORMED-SAME: domain = #dispatch.domain<batch = 2, positions = 9, factor = 1>
  // FORMED-SAME: key_domain = #dispatch.domain<batch = 2, positions = 5, factor = 0>
  func.func @forward(%t: !sluice.seq<@s1, 0, i32>, %s: !sluice.seq<@e1, 0, i32>) -> !sluice.seq<@s1, 8, f32> {
    %table = sluice.read @table : tensor<7x8xf32>
    %x = sluice.embed %t, %table : (!sluice.seq<@s1, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@s1, 8, f32>
    %k = sluice.embed %s, %table : (!sluice.seq<@e1, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@e1, 8, f32>
    %y, %lse = sluice.attention %x, %k, %k attributes {heads = 1, kv_heads = 1, head_size = 8, query_column = 0,
      key_column = 0, value_column = 0, mask = affine_set<(p, q)[n] : (q >= 0)>} {
    ^bb0(%a: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %a : f32
    } : (!sluice.seq<@s1, 8, f32>, !sluice.seq<@e1, 8, f32>, !sluice.seq<@e1, 8, f32>)
        -> (!sluice.seq<@s1, 8, f32>, !sluice.seq<@s1, 1, f32>)
    return %y : !sluice.seq<@s1, 8, f32>
  }
}
