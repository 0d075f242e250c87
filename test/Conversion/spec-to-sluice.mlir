// RUN: sluice-opt %s --split-input-file --spec-assign-weights --convert-spec-to-sluice | FileCheck %s
// A layer between an embedding and a tied head: scales, one parameter of query, key and value, and the functions.

// CHECK: module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64, {{.*}}sluice.vocabulary = 16 : i64, sluice.width = 8 : i64}
// CHECK: sluice.axis @target
// CHECK-NEXT: sluice.scale @s1
// CHECK-NEXT: sluice.scale @last
// CHECK-NEXT: sluice.parameter @stages.0.token.weight
// CHECK-NEXT: sluice.parameter @stages.1.attention.norm.weight
// CHECK-NEXT: sluice.parameter @stages.1.attention.qkv.weight : tensor<24x8xf32>
// CHECK: sluice.parameter @rotary.10000.4.8 : tensor<8x4xf32>
// CHECK: func.func @evaluate(
// CHECK: %[[QKV:.*]] = sluice.linear
// CHECK: sluice.attention %[[QKV]], %[[QKV]], %[[QKV]]
// CHECK: sluice.cross_entropy
// CHECK: func.func @predict(
// CHECK: sluice.last
// CHECK-NOT: func.func @train
spec.model attributes {name = "m", vocabulary = 16 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.layer %0 {path = "stages.1", heads = 2 : i64, key_value_heads = 2 : i64, head_size = 4 : i64, feed_forward = 16 : i64,
                      bias = false, norm = #spec<norm rms>, rotary = 1.0e4 : f64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2", tied = true} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Groups of two rows, delayed by one: a scale of its own, and @train for the dropout.

// CHECK: sluice.scale @s1
// CHECK-NEXT: sluice.scale @s2
// CHECK: func.func @evaluate(
// CHECK: %[[LATE:.*]] = sluice.shift %{{.*}} by 1
// CHECK: %[[GROUPS:.*]] = sluice.shorten %[[LATE]]
// CHECK: %[[ROWS:.*]] = sluice.upsample %[[GROUPS]]
// CHECK: sluice.map(%{{.*}}, %[[ROWS]])
// CHECK: func.func @predict(
// CHECK: func.func @train(
// CHECK: dispatch.random
spec.model attributes {name = "m", vocabulary = 16 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.shift %0 {path = "stages.1", by = 1 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %2 = spec.shorten %1 {path = "stages.2", factor = 2 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens by 2, 8>
  %3 = spec.upsample %2 {path = "stages.3", factor = 2 : i64} : (!spec.stream<tokens by 2, 8>) -> !spec.stream<tokens, 8>
  %4 = spec.add %0, %3 {path = "stages.4"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %5 = spec.dropout %4 {path = "stages.5", rate = 0.5 : f64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %5 {path = "stages.6"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Words: an axis of segments, a table of the bytes that end them, their means, and the share of such bytes in reports.

// CHECK: sluice.axis @words
// CHECK-NEXT: sluice.scale @words.s1
// CHECK: sluice.parameter @boundaries.whitespace : tensor<256x1xf32>
// CHECK: func.func @evaluate(
// CHECK: %[[COUNTS:.*]], %[[ENDS:.*]] = sluice.segment
// CHECK: %[[MEANS:.*]] = sluice.pool_segments
// CHECK: sluice.spread_segments %[[MEANS]], %[[COUNTS]], %[[ENDS]]
// CHECK: sluice.objective {{.*}}"next", "words.share"
spec.model attributes {name = "m", vocabulary = 256 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.boundaries %0 {path = "stages.1", name = "words", rule = #spec<rule whitespace>}
      : (!spec.stream<tokens, 8>) -> !spec.segmentation<"words" of <tokens, 8>>
  %2 = spec.shorten %0, %1 {path = "stages.2"}
      : (!spec.stream<tokens, 8>, !spec.segmentation<"words" of <tokens, 8>>) -> !spec.stream<segments("words"), 8>
  %3 = spec.upsample %2, %1 {path = "stages.3", by = 1 : i64}
      : (!spec.stream<segments("words"), 8>, !spec.segmentation<"words" of <tokens, 8>>) -> !spec.stream<tokens, 8>
  %4 = spec.add %0, %3 {path = "stages.4"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %4 {path = "stages.5"} : (!spec.stream<tokens, 8>) -> ()
}
