// RUN: sluice-opt %s --split-input-file --spec-assign-weights --verify-diagnostics
// Models whose weights cannot be assigned.

spec.model attributes {name = "m", vocabulary = 16 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected "frozen" only of a stage that has weights, found it of one that has none; leave it out}}
  %1 = spec.dropout %0 {path = "stages.1", rate = 0.5 : f64, frozen} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {name = "m", vocabulary = 16 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0", frozen} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a stage to train, found all that have weights frozen; leave "frozen" out of one of them}}
  spec.head %0 {path = "stages.1", tied = true} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {name = "m", vocabulary = 16 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.layer %0 {path = "stages.1", heads = 2 : i64, key_value_heads = 2 : i64, head_size = 4 : i64, feed_forward = 16 : i64,
                      relative = #spec.relative<xl_shared>} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected layers with "relative": "xl_shared" to have heads * head_size alike, found 8 and 12; make them equal, or use "xl"}}
  %2 = spec.layer %1 {path = "stages.2", heads = 3 : i64, key_value_heads = 3 : i64, head_size = 4 : i64, feed_forward = 16 : i64,
                      relative = #spec.relative<xl_shared>} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %2 {path = "stages.3"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {name = "m", vocabulary = 2147483647 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.project %0 {path = "stages.1", width = 2147483647 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 2147483647>
  // expected-error @+1 {{expected a model of at most 1099511627776 parameters, found more up to stages.2.weight; make the sizes or the number of layers smaller}}
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 2147483647>) -> ()
}
