// Attention resamples: its streams are normed before, and a linear upsampling adds to its queries.
// RUN: sluice-opt %s --spec-expand-composites | FileCheck %s

// CHECK: %0 = spec.embedding  {path = "stages.0"} : () -> !spec.stream<tokens, 8>
// CHECK-NEXT: %1 = spec.norm %0 {path = "stages.1.inside.0"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %2 = spec.shift %1 {by = 3 : i64, path = "stages.1.inside.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %3 = spec.shorten %2 {factor = 4 : i64, path = "stages.1.inside.2"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %4 = spec.norm %3 {path = "stages.1.inside.3"} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %5 = spec.layer %4, %1 {attention_norm = false, feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, mask = #spec.mask<window to 4>, path = "stages.1.inside.4"} : (!spec.stream<tokens by 4, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %6 = spec.layer %5 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.5"} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %7 = spec.norm %6 {path = "stages.1.inside.6"} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %8 = spec.norm %7 {path = "stages.1.inside.7"} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %9 = spec.upsample %8 {factor = 4 : i64, method = #spec<upsample_method linear>, path = "stages.1.inside.8"} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %10 = spec.norm %9 {path = "stages.1.inside.9"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %11 = spec.add %10, %0 {path = "stages.1.inside.10"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %12 = spec.layer %11, %8 {attention_norm = false, feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.11"} : (!spec.stream<tokens, 8>, !spec.stream<tokens by 4, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %13 = spec.norm %12 {path = "stages.1.inside.12"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %14 = spec.add %13, %0 {path = "stages.1.inside.13"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: spec.head %14 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.hourglass %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "0@1 1@4 0@1", path = "stages.1", shorten = #spec<shorten_method attention>, shorten_keys = #spec<shorten_keys group>, upsample = #spec<upsample_method attention_linear>} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}
