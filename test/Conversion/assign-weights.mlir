// RUN: sluice-opt %s --split-input-file --spec-expand-composites --spec-assign-weights | FileCheck %s
// Weights follow the stages, in the order of files; stages that share one name its owner.

spec.model attributes {name = "m", vocabulary = 16 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  // CHECK: spec.embedding
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // CHECK: spec.layer
  // CHECK-NOT: shared_weights
  %1 = spec.layer %0 {path = "stages.1", heads = 2 : i64, key_value_heads = 1 : i64, head_size = 4 : i64, feed_forward = 16 : i64,
                      bias = false, norm = #spec<norm rms>, relative = #spec.relative<xl_shared>}
      : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  // CHECK: spec.layer {{.*}}path = "stages.2"
  // CHECK-SAME: shared_weights = {attention.relative.content.bias = "stages.1.attention.relative.content.bias",
  // CHECK-SAME:                   attention.relative.position.bias = "stages.1.attention.relative.position.bias"}
  %2 = spec.layer %1 {path = "stages.2", heads = 2 : i64, key_value_heads = 1 : i64, head_size = 4 : i64, feed_forward = 16 : i64,
                      bias = false, norm = #spec<norm rms>, relative = #spec.relative<xl_shared>, frozen}
      : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %3 = spec.layer %2 {path = "stages.3", heads = 2 : i64, key_value_heads = 1 : i64, head_size = 4 : i64, feed_forward = 16 : i64}
      : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  // CHECK: spec.head {{.*}}shared_weights = {weight = "stages.0.token.weight"}, tied = true
  spec.head %3 {path = "stages.4", tied = true, bias = true} : (!spec.stream<tokens, 8>) -> ()

  // CHECK-NEXT: spec.weight @stages.0.token.weight {deviation = 2.000000e-02 : f64, initial = #spec<initial normal>, path = "stages.0", shape = array<i64: 16, 8>}
  // CHECK-NEXT: spec.weight @stages.1.attention.norm.weight {initial = #spec<initial ones>, path = "stages.1", shape = array<i64: 8>}
  // CHECK-NEXT: spec.weight @stages.1.attention.query.weight {decay, deviation = 0.35355339059327373 : f64, initial = #spec<initial normal>, path = "stages.1", shape = array<i64: 8, 8>}
  // CHECK-NEXT: spec.weight @stages.1.attention.key.weight {{.*}}parameter = "stages.1.attention.kv.weight", path = "stages.1", shape = array<i64: 4, 8>}
  // CHECK-NEXT: spec.weight @stages.1.attention.value.weight {{.*}}parameter = "stages.1.attention.kv.weight"
  // CHECK-NEXT: spec.weight @stages.1.attention.relative.weight {decay
  // CHECK-NEXT: spec.weight @stages.1.attention.relative.content.bias {initial = #spec<initial zeros>, path = "stages.1", shape = array<i64: 8>}
  // CHECK-NEXT: spec.weight @stages.1.attention.relative.position.bias
  // The deviation belongs to a matrix of 8 columns, divided by sqrt(2 * 3) for three layers.
  // CHECK-NEXT: spec.weight @stages.1.attention.output.weight {decay, deviation = 0.1443375
  // CHECK-NEXT: spec.weight @stages.1.feed_forward.norm.weight
  // CHECK-NEXT: spec.weight @stages.1.feed_forward.in.weight
  // CHECK-NEXT: spec.weight @stages.1.feed_forward.out.weight
  // CHECK-NEXT: spec.weight @stages.2.attention.norm.weight {frozen,
  // CHECK-NOT:  spec.weight @stages.2.attention.relative.content.bias
  // CHECK:      spec.weight @stages.3.attention.query.weight {{.*}}parameter = "stages.3.attention.qkv.weight"
  // CHECK-NEXT: spec.weight @stages.3.attention.key.weight {{.*}}parameter = "stages.3.attention.qkv.weight"
  // CHECK-NEXT: spec.weight @stages.3.attention.value.weight {{.*}}parameter = "stages.3.attention.qkv.weight"
  // CHECK-NEXT: spec.weight @stages.3.attention.query.bias {{.*}}parameter = "stages.3.attention.qkv.bias"
  // CHECK-NEXT: spec.weight @stages.3.attention.key.bias
  // CHECK-NEXT: spec.weight @stages.3.attention.value.bias
  // CHECK-NEXT: spec.weight @stages.3.attention.output.weight {{.*}}path = "stages.3", shape = array<i64: 8, 8>}
  // CHECK:      spec.weight @stages.4.bias {{.*}}shape = array<i64: 16>}
  // CHECK-NEXT: }
}

// -----

// Stages with one name share tensors: composite stages by the places inside, an embedding, a loss and the head their table alone.

// CHECK-LABEL: "shared"
// CHECK: spec.embedding
// CHECK: spec.layer {{.*}}path = "stages.1.inside.0"
// CHECK-NOT: shared_weights
// CHECK: spec.layer {{.*}}path = "stages.2.inside.0"
// CHECK-SAME: share = "stack", shared_weights = {attention.key.weight = "stages.1.inside.0.attention.key.weight",
// CHECK-SAME: attention.qkv.weight = "stages.1.inside.0.attention.qkv.weight"
// CHECK-SAME: feed_forward.norm.weight = "stages.1.inside.0.feed_forward.norm.weight"
// CHECK: spec.loss {{.*}}shared_weights = {weight = "stages.0.token.weight"}
// CHECK: spec.head {{.*}}shared_weights = {weight = "stages.0.token.weight"}
// CHECK-NEXT: spec.weight @stages.0.token.weight
// CHECK-NEXT: spec.weight @stages.0.position.weight
// CHECK: spec.weight @stages.1.inside.0.attention.query.weight {{.*}}parameter = "stages.1.inside.0.attention.qkv.weight"
// CHECK-NOT: spec.weight @stages.2
// CHECK: spec.weight @stages.4.bias
// CHECK-NOT: spec.weight
spec.model attributes {name = "shared", vocabulary = 16 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0", positions = #spec<positions learned>, share = "tokens"} : () -> !spec.stream<tokens, 8>
  %1 = spec.layers %0 {path = "stages.1", count = 1 : i64, heads = 2 : i64, key_value_heads = 2 : i64, head_size = 4 : i64,
                       feed_forward = 16 : i64, bias = false, norm = #spec<norm rms>, share = "stack"}
      : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %2 = spec.layers %1 {path = "stages.2", count = 1 : i64, heads = 2 : i64, key_value_heads = 2 : i64, head_size = 4 : i64,
                       feed_forward = 16 : i64, bias = false, norm = #spec<norm rms>, share = "stack"}
      : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.loss %2 {path = "stages.3", name = "early", share = "tokens"} : (!spec.stream<tokens, 8>) -> ()
  spec.head %2 {path = "stages.4", bias = true, share = "tokens"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Biases of some linear maps: of queries, keys and values alone, of attention's result, and of the feed-forward block's result.

// CHECK-LABEL: "biases"
// CHECK:      spec.weight @stages.1.attention.value.weight
// CHECK-NEXT: spec.weight @stages.1.attention.query.bias {{.*}}parameter = "stages.1.attention.qkv.bias"
// CHECK-NEXT: spec.weight @stages.1.attention.key.bias
// CHECK-NEXT: spec.weight @stages.1.attention.value.bias
// CHECK-NEXT: spec.weight @stages.1.attention.output.weight
// CHECK-NEXT: spec.weight @stages.1.feed_forward.norm.weight
// CHECK-NEXT: spec.weight @stages.1.feed_forward.in.weight
// CHECK-NEXT: spec.weight @stages.1.feed_forward.out.weight
// CHECK-NEXT: spec.weight @stages.2.attention.norm.weight
// CHECK:      spec.weight @stages.2.attention.value.weight
// CHECK-NEXT: spec.weight @stages.2.attention.output.weight
// CHECK-NEXT: spec.weight @stages.2.attention.output.bias
// CHECK-NEXT: spec.weight @stages.2.feed_forward.norm.weight
// CHECK-NEXT: spec.weight @stages.2.feed_forward.gate.weight
// CHECK-NEXT: spec.weight @stages.2.feed_forward.in.weight
// CHECK-NEXT: spec.weight @stages.2.feed_forward.gate.bias
// CHECK-NEXT: spec.weight @stages.2.feed_forward.in.bias
// CHECK-NEXT: spec.weight @stages.2.feed_forward.out.weight
// CHECK-NEXT: spec.weight @stages.3.feed_forward.norm.weight
// CHECK-NEXT: spec.weight @stages.3.feed_forward.in.weight
// CHECK-NEXT: spec.weight @stages.3.feed_forward.out.weight
// CHECK-NEXT: spec.weight @stages.3.feed_forward.out.bias
// CHECK-NEXT: spec.weight @stages.4.attention.query.norm.weight
// CHECK-NEXT: spec.weight @stages.4.attention.query.weight
// CHECK-NEXT: spec.weight @stages.4.attention.key.weight
// CHECK-NEXT: spec.weight @stages.4.attention.value.weight
// CHECK-NEXT: spec.weight @stages.4.attention.output.weight
// CHECK-NEXT: spec.weight @stages.4.attention.output.bias
spec.model attributes {name = "biases", vocabulary = 16 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.layer %0 {path = "stages.1", heads = 2 : i64, key_value_heads = 1 : i64, head_size = 4 : i64, feed_forward = 16 : i64,
                      bias = false, attention_in_bias = true, norm = #spec<norm rms>}
      : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %2 = spec.layer %1 {path = "stages.2", heads = 2 : i64, key_value_heads = 1 : i64, head_size = 4 : i64, feed_forward = 16 : i64,
                      attention_in_bias = false, feed_forward_out_bias = false, norm = #spec<norm rms>, activation = #spec<activation swiglu>}
      : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %3 = spec.feed_forward %2 {path = "stages.3", feed_forward = 16 : i64, feed_forward_in_bias = false, norm = #spec<norm rms>}
      : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %4 = spec.attention %3, %3, %3, %3 {path = "stages.4", heads = 2 : i64, key_value_heads = 2 : i64, head_size = 4 : i64,
                                      attention_in_bias = false, norm = #spec<norm rms>}
      : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>, !spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %4 {path = "stages.5"} : (!spec.stream<tokens, 8>) -> ()
}
