// RUN: sluice-opt %s --split-input-file --spec-assign-weights --verify-diagnostics
// Models whose weights cannot be assigned.

spec.model attributes {name = "m", vocabulary = 16 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected "frozen" only on a stage that has weights, found it on one that has none; leave it out}}
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
  // expected-error @+1 {{expected layers with "relative": "xl_shared" to have heads * head_size equal, found 8 and 12; make them equal, or use "xl"}}
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

// -----

// A stage without a path.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected the attribute "path" of spec.norm, the prefix of its weights' names, found none; add it}}
  %1 = spec.norm %0 : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// A model without an embedding, or a head.
// expected-error @+1 {{expected a model whose first stage is an embedding of the tokens, found another}}
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a head as the last stage and nowhere else, found spec.norm}}
  %1 = spec.norm %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
}

// -----

// A composite stage.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected primitive stages, found spec.layers; run spec-expand-composites first}}
  %1 = spec.layers %0 {count = 1 : i64, feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Weights that were assigned before.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
  // expected-error @+1 {{expected a model without weights, found some}}
  spec.weight @w {deviation = 0.1 : f64, initial = #spec<initial normal>, path = "stages.0", shape = array<i64: 256, 8>}
}

// -----

// Segments of one name.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %w = spec.boundaries %0 {name = "words", path = "stages.1", rule = #spec<rule whitespace>} : (!spec.stream<tokens, 8>) -> !spec.segmentation<"words" of !spec.stream<tokens, 8>>
  // expected-error @+1 {{expected a name that no input and no earlier segments have, found "words"; choose another}}
  %v = spec.boundaries %0 {name = "words", path = "stages.2", rule = #spec<rule whitespace>} : (!spec.stream<tokens, 8>) -> !spec.segmentation<"words" of !spec.stream<tokens, 8>>
  spec.head %0 {path = "stages.3"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Names of tensors are words with dots between.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a "path" of letters, digits, _, - and single dots, found "../x"}}
  %1 = spec.norm %0 {path = "../x"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {name = "m", vocabulary = 16 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  spec.training
  spec.schedule
  // expected-error @+1 {{expected a pattern of the names of weights to train, found "stages.0.tokens.weight", which no name matches; one of the 2 names is "stages.0.token.weight", and sluice inspect --json lists all of an artifact}}
  spec.group {match = "stages.0.tokens.weight"}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {name = "m", vocabulary = 16 : i64, length = 8 : i64, batch = 2 : i64, width = 8 : i64} {
  // expected-error @+1 {{expected a spec.training in the model, found none; add one}}
  spec.group {match = "*"}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}
