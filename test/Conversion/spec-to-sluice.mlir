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

// -----

// Groups: a weight belongs to the first whose pattern matches its name. The three parts of one parameter belong to two.

// CHECK: sluice.training = {{{.*}}groups = [{factor = 2.000000e+00 : f64, learning_rate = 6.000000e-04 : f64, match = "*.key.*", weights = ["stages.1.attention.key.weight"]}, {factor = 1.000000e+00 : f64, match = "stages.[01].*", weight_decay = 0.000000e+00 : f64, weights = ["stages.0.token.weight", "stages.1.attention.norm.weight", "stages.1.attention.norm.bias", "stages.1.attention.query.weight", "stages.1.attention.value.weight"
// CHECK: sluice.parameter @stages.1.attention.qkv.weight
spec.model attributes {name = "m", vocabulary = 16 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  spec.training {learning_rate = 3.0e-4 : f64}
  spec.schedule
  spec.group {match = "*.key.*", learning_rate = 6.0e-4 : f64}
  spec.group {match = "stages.[01].*", weight_decay = 0.0 : f64}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.layer %0 {path = "stages.1", heads = 2 : i64, key_value_heads = 2 : i64, head_size = 4 : i64, feed_forward = 16 : i64,
                      bias = false} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2", tied = true, bias = true} : (!spec.stream<tokens, 8>) -> ()
}
