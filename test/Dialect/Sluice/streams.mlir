// A second stream of tokens on a given axis, which has the axis's counts.
// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// RUN: sluice-opt %s --sluice-form-dispatches | FileCheck %s --check-prefix=FORMED

module attributes {sluice.batch = 2 : i64, sluice.context = 9 : i64} {
  // CHECK: sluice.axis @source given 5 vocabulary 7 streams {class = 2 : i64}
  sluice.axis @target
  sluice.axis @source given 5 vocabulary 7 streams {class = 2 : i64}
  sluice.scale @s1 on @target factor 1
  sluice.scale @e1 on @source factor 1
  sluice.parameter @table : tensor<7x8xf32> {names = ["w"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @classes : tensor<2x8xf32> {names = ["c"], sizes = array<i64: 2>, initial = "normal"}

  // FORMED-LABEL: func.func @forward
  // FORMED-DAG: plan.bind "input:source" : tensor<2x5xi32>
  // FORMED-DAG: plan.bind "input:class" : tensor<2x5xi32>
  // FORMED-DAG: plan.bind "input:source.count"
  // FORMED-NOT: input:class.count
  func.func @forward(%t: !sluice.seq<@s1, 0, i32>, %s: !sluice.seq<@e1, 0, i32>, %c: !sluice.seq<@e1, 0, i32>)
      -> !sluice.seq<@s1, 8, f32> {
    %table = sluice.read @table : tensor<7x8xf32>
    %classes = sluice.read @classes : tensor<2x8xf32>
    %x = sluice.embed %t, %table : (!sluice.seq<@s1, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@s1, 8, f32>
    %w = sluice.embed %s, %table : (!sluice.seq<@e1, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@e1, 8, f32>
    %d = sluice.embed %c, %classes : (!sluice.seq<@e1, 0, i32>, tensor<2x8xf32>) -> !sluice.seq<@e1, 8, f32>
    %k = sluice.map (%w, %d) {
    ^bb0(%a: f32, %b: f32):
      %sum = arith.addf %a, %b : f32
      sluice.yield %sum : f32
    } : (!sluice.seq<@e1, 8, f32>, !sluice.seq<@e1, 8, f32>) -> !sluice.seq<@e1, 8, f32>
    %y, %lse = sluice.attention %x, %k, %k attributes {heads = 1, kv_heads = 1, head_size = 8, query_column = 0,
      key_column = 0, value_column = 0, mask = affine_set<(p, q)[n] : (q >= 0)>} {
    ^bb0(%a: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %a : f32
    } : (!sluice.seq<@s1, 8, f32>, !sluice.seq<@e1, 8, f32>, !sluice.seq<@e1, 8, f32>)
        -> (!sluice.seq<@s1, 8, f32>, !sluice.seq<@s1, 1, f32>)
    return %y : !sluice.seq<@s1, 8, f32>
  }
}
