// RUN: sluice-opt %s --spec-choose-factor --verify-diagnostics

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.hourglass %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "1@1 1@{2,4} 1@1", path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  // expected-error @+1 {{expected one stage at most that draws its factor, found a second one; write one factor per level here}}
  %2 = spec.hourglass %1 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "1@1 1@{2,4} 1@1", path = "stages.2"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %2 {path = "stages.3"} : (!spec.stream<tokens, 8>) -> ()
}
