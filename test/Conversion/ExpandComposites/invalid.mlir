// Errors of stages inside a composite one are located at the keys of the composite.
// RUN: sluice-opt %s -split-input-file --spec-expand-composites --verify-diagnostics

// Heads from `defaults`, of a width from the stage.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a width that the 2 heads of "defaults" divide, found 7; write a multiple of 2, or give "heads" or "head_size" in "global"}}
  %1 = spec.spacebyte %0 {global = {heads = 2 : i64}, layers = [1, 1, 1], local = {heads = 2 : i64}, path = "stages.1", width = 7 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected "heads" in a layers stage, found none; add it: the number of attention heads, here or in "defaults"}}
  %1 = spec.megabyte %0 {layers = [1, 1], local = {heads = 2 : i64}, patch = 4 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Names of losses of a top_down are the model's.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.top_down %0 {bags = 1.0 : f64, feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "1@2 1@1", path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a name that no earlier loss has, found "bag_2"}}
  %2 = spec.top_down %1 {bags = 1.0 : f64, feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "1@2 1@1", path = "stages.2"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %2 {first = 1 : i64, path = "stages.3"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Names of segments are the model's too.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.spacebyte %0 {global = {heads = 2 : i64}, layers = [1, 1, 1], local = {heads = 2 : i64}, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a name that no input and no earlier segments have, found "spacebyte"; choose another}}
  %2 = spec.spacebyte %1 {global = {heads = 2 : i64}, layers = [1, 1, 1], local = {heads = 2 : i64}, path = "stages.2"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %2 {path = "stages.3"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected a model of at most 65536 stages once expanded, found more; use fewer layers}}
  %1 = spec.top_down %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "10000@1 10000@1 10000@1 10000@1 10000@1 10000@1 10000@1", path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Levels that sample a factor need one for expansion.
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected one factor per level, found "1@1 1@{2,3} 1@1", of which each step would draw one; run spec-choose-factor first}}
  %1 = spec.hourglass %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "1@1 1@{2,3} 1@1", path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}
