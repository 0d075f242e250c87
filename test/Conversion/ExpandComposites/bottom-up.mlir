// The queries of one layer are the stage's input; groups of its heads read one coarse scale each.
// RUN: sluice-opt %s --spec-expand-composites | FileCheck %s

// CHECK: %0 = spec.embedding  {path = "stages.0"} : () -> !spec.stream<tokens, 8>
// CHECK-NEXT: %1 = spec.shorten %0 {factor = 2 : i64, path = "stages.1.inside.0"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens by 2, 8>
// CHECK-NEXT: %2 = spec.layer %1 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, lsh = #spec.lsh<buckets = 2, chunk = 4, hashes = 1, causal = true>, path = "stages.1.inside.1"} : (!spec.stream<tokens by 2, 8>) -> !spec.stream<tokens by 2, 8>
// CHECK-NEXT: %3 = spec.norm %2 {path = "stages.1.inside.2"} : (!spec.stream<tokens by 2, 8>) -> !spec.stream<tokens by 2, 8>
// CHECK-NEXT: %4 = spec.shorten %3 {factor = 2 : i64, path = "stages.1.inside.3"} : (!spec.stream<tokens by 2, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %5 = spec.layer %4 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, lsh = #spec.lsh<buckets = 2, chunk = 4, hashes = 1, causal = true>, path = "stages.1.inside.4"} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %6 = spec.norm %5 {path = "stages.1.inside.5"} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %7 = spec.layer %0, %3, %6 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, over = [#spec.mask<complete>, #spec.mask<complete>], path = "stages.1.inside.6"} : (!spec.stream<tokens, 8>, !spec.stream<tokens by 2, 8>, !spec.stream<tokens by 4, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %8 = spec.layer %7 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, lsh = #spec.lsh<buckets = 2, chunk = 4, hashes = 1, causal = true>, path = "stages.1.inside.7"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %9 = spec.norm %8 {path = "stages.1.inside.8"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: spec.head %9 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.bottom_up %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "1@1 1@2 1@4", lsh = #spec.lsh<buckets = 2, chunk = 4, hashes = 1, causal = true>, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}
