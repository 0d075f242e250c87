// Results on the axis of a named input do not change after @prefill, so they are stored once for each line, which rows of a step share. A
// step reads the keys and their number at the line of each row. @prefill commits them to the line of the row that takes the prompt, and
// @reset, which clears rows, leaves them.
// RUN: sluice-opt %s --sluice-derive-step --sluice-form-dispatches=generation-rows=4 | FileCheck %s

// CHECK-LABEL: func.func @step(
// CHECK-DAG:     %[[KEYS:.*]] = plan.bind "state:state.embed" : tensor<4x5x8xf32>
// CHECK-DAG:     %[[COUNTS:.*]] = plan.bind "input:text.source.count" : tensor<4xi64>
// CHECK-DAG:     %[[LINES:.*]] = plan.bind "input:take.line" : tensor<4xi32>
// CHECK:         dispatch.attention %{{.*}}, %[[KEYS]], %[[KEYS]], %[[COUNTS]], %[[LINES]], %{{.*}} attributes

// CHECK-LABEL: func.func @prefill(
// CHECK:         plan.bind "input:take" : tensor<4xi64>
// CHECK-NEXT:    %[[TAKES:.*]] = plan.bind "input:take" : tensor<4xi64>
// CHECK-NEXT:    %[[LINES:.*]] = plan.bind "input:take.line" : tensor<4xi32>
// CHECK-NEXT:    dispatch.rows %{{.*}}, %{{.*}}, %[[TAKES]], %[[LINES]] attributes {{.*}}label = "prefill schedules"
// CHECK:         plan.store "state:state.embed"

// CHECK-LABEL: func.func @reset(
// CHECK-NOT:     state.embed
// CHECK:         return

!source = !sluice.seq<@rows, 8, f32>
!fine = !sluice.seq<@fine, 8, f32>
module attributes {sluice.batch = 2 : i64, sluice.context = 16 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.scale @last on @tokens factor 0
  sluice.axis @source given 5 vocabulary 7
  sluice.scale @rows on @source factor 1
  sluice.parameter @table : tensor<7x8xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}

  func.func @predict(%tokens: !sluice.seq<@fine, 0, i32>, %given: !sluice.seq<@rows, 0, i32>) -> !sluice.seq<@last, 7, f32> {
    %table = sluice.read @table : tensor<7x8xf32>
    %keys = sluice.embed %given, %table : (!sluice.seq<@rows, 0, i32>, tensor<7x8xf32>) -> !source
    %x = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x8xf32>) -> !fine
    %o, %lse = sluice.attention %x, %keys, %keys attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 8 : i64, query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %s : f32
    } : (!fine, !source, !source) -> (!fine, !sluice.seq<@fine, 1, f32>)
    %last = sluice.last %o : (!fine) -> !sluice.seq<@last, 8, f32>
    %l = sluice.linear %last, %table : (!sluice.seq<@last, 8, f32>, tensor<7x8xf32>) -> !sluice.seq<@last, 7, f32>
    return %l : !sluice.seq<@last, 7, f32>
  }
}
