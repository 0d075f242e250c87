// Levels that sample a factor have the chosen one, or the minimum; the others are unchanged.
// RUN: sluice-opt %s --spec-choose-factor=factor=4 | FileCheck %s --check-prefix=FOUR
// RUN: sluice-opt %s --spec-choose-factor | FileCheck %s --check-prefix=MINIMUM
// RUN: not sluice-opt %s --spec-choose-factor=factor=3 2>&1 | FileCheck %s --check-prefix=OTHER

// FOUR: spec.hourglass %0 {{.*}}hierarchy = "1@1 2@2 1@4 0@2 1@1"
// FOUR: spec.hourglass %1 {{.*}}hierarchy = "1@1 1@3 1@1"
// MINIMUM: spec.hourglass %0 {{.*}}hierarchy = "1@1 2@2 1@2 0@2 1@1"
// OTHER: expected a factor that this stage draws, 2, 4, found 3; choose one of them

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.hourglass %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "1@1 2@2 1@{2,4} 0@2 1@1", path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %2 = spec.hourglass %1 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "1@1 1@3 1@1", path = "stages.2"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %2 {path = "stages.3"} : (!spec.stream<tokens, 8>) -> ()
}
