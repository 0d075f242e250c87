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

// -----

// Weights of another shape, fewer, or none that a head names.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
  // expected-error @+1 {{expected the weights that spec-assign-weights assigns, found other weights here; run spec-assign-weights}}
  spec.weight @stages.0.token.weight {deviation = 2.000000e-02 : f64, initial = #spec<initial normal>, path = "stages.0", shape = array<i64>}
}

// -----

// expected-error @+1 {{expected the weights that spec-assign-weights assigns, found fewer; run it}}
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
  spec.weight @stages.0.token.weight {deviation = 2.000000e-02 : f64, initial = #spec<initial normal>, path = "stages.0", shape = array<i64: 256, 8>}
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected the weights that spec-assign-weights assigns, found other weights here; run spec-assign-weights}}
  spec.head %0 {path = "stages.1", shared_weights = {weight = "another"}, tied = true} : (!spec.stream<tokens, 8>) -> ()
  spec.weight @stages.0.token.weight {deviation = 2.000000e-02 : f64, initial = #spec<initial normal>, path = "stages.0", shape = array<i64: 256, 8>}
}

// -----

// A loss that no stage has.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected the name of a loss stage, or "next" of the head, for "loss", found "early"; give such a stage that name}}
  %w = spec.boundaries %0 {loss = "early", name = "words", path = "stages.1", rule = #spec<rule entropy>, threshold = 1.0 : f64} : (!spec.stream<tokens, 8>) -> !spec.segmentation<"words" of !spec.stream<tokens, 8>>
  spec.head %0 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
  spec.weight @w {initial = #spec<initial normal>, path = "stages.0", shape = array<i64: 256, 8>}
}

// -----

// The module holds the model alone: the pass replaces all of it.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  spec.head %0 {path = "stages.1"} : (!spec.stream<tokens, 8>) -> ()
}
// expected-error @+1 {{expected a module of one spec.model alone, found func.func}}
func.func private @evaluate()
