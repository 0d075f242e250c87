// A frozen composite stage whose stages have no weights is reported as a primitive one is.
// RUN: sluice-opt %s --spec-expand-composites --spec-assign-weights --verify-diagnostics

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected "frozen" only on a stage that has weights, found it on one that has none; leave it out}}
  %1 = spec.hourglass %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, frozen, hierarchy = "0@1 0@2 0@1", path = "stages.1", placement = #spec<placement post>} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}
