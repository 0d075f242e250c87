// Levels nest in paths; each goes down by a shift and a shortening, and up by an upsampling and a sum.
// RUN: sluice-opt %s --spec-expand-composites | FileCheck %s

// CHECK: %0 = spec.embedding  {path = "stages.0"} : () -> !spec.stream<tokens, 8>
// CHECK-NEXT: %1 = spec.layer %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.0"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %2 = spec.norm %1 {path = "stages.1.inside.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %3 = spec.shift %2 {by = 1 : i64, path = "stages.1.inside.2"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %4 = spec.shorten %3 {factor = 2 : i64, method = #spec<shorten_method convolution>, path = "stages.1.inside.3", window = 6 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens by 2, 8>
// CHECK-NEXT: %5 = spec.shift %4 {by = 1 : i64, path = "stages.1.inside.4.inside.0"} : (!spec.stream<tokens by 2, 8>) -> !spec.stream<tokens by 2, 8>
// CHECK-NEXT: %6 = spec.shorten %5 {factor = 2 : i64, method = #spec<shorten_method convolution>, path = "stages.1.inside.4.inside.1", window = 6 : i64} : (!spec.stream<tokens by 2, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %7 = spec.layer %6 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.4.inside.2"} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %8 = spec.norm %7 {path = "stages.1.inside.4.inside.3"} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %9 = spec.upsample %8 {factor = 2 : i64, path = "stages.1.inside.4.inside.4"} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens by 2, 8>
// CHECK-NEXT: %10 = spec.add %9, %4 {path = "stages.1.inside.4.inside.5"} : (!spec.stream<tokens by 2, 8>, !spec.stream<tokens by 2, 8>) -> !spec.stream<tokens by 2, 8>
// CHECK-NEXT: %11 = spec.upsample %10 {factor = 2 : i64, path = "stages.1.inside.5"} : (!spec.stream<tokens by 2, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %12 = spec.add %11, %2 {path = "stages.1.inside.6"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %13 = spec.layer %12 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.7"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %14 = spec.norm %13 {path = "stages.1.inside.8"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: spec.head %14 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.hourglass %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "1@1 0@2 1@4 0@2 1@1", path = "stages.1", shorten = #spec<shorten_method convolution>, shorten_window = 6 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}
