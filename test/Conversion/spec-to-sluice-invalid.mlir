// RUN: sluice-opt %s --split-input-file --convert-spec-to-sluice --verify-diagnostics
// The conversion takes one model, of primitive stages.

spec.model attributes {name = "m", vocabulary = 16 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected primitive stages, found spec.layers; run spec-expand-composites first}}
  %1 = spec.layers %0 {path = "stages.1", count = 2 : i64, heads = 2 : i64, key_value_heads = 2 : i64, head_size = 4 : i64,
                       feed_forward = 16 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// expected-error @+1 {{expected a model with weights, found none; run spec-assign-weights first}}
spec.model attributes {name = "m", vocabulary = 16 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// expected-error @below {{expected one spec.model, found 0}}
module {
}
