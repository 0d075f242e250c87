// The output of each upsampling is shifted, by learned rows, and a post-norm stack has no norm after it.
// RUN: sluice-opt %s --spec-expand-composites | FileCheck %s

// CHECK: %0 = spec.embedding  {path = "stages.0"} : () -> !spec.stream<tokens, 8>
// CHECK-NEXT: %1 = spec.layer %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.0", placement = #spec<placement post>} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %2 = spec.shorten %1 {factor = 4 : i64, path = "stages.1.inside.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %3 = spec.layer %2 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.2", placement = #spec<placement post>} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %4 = spec.upsample %3 {factor = 4 : i64, path = "stages.1.inside.3"} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %5 = spec.shift %4 {by = 4 : i64, path = "stages.1.inside.4", start = #spec<start null>} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %6 = spec.add %5, %1 {path = "stages.1.inside.5"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: spec.head %6 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.hourglass %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "1@1 1@4 0@1", path = "stages.1", placement = #spec<placement post>, shift = 4 : i64, shifted = #spec<shifted output>, start = #spec<start null>} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}
