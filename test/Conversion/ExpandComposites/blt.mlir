// Patches attend to their bytes; each layer of bytes after them follows attention from bytes to patches.
// RUN: sluice-opt %s --spec-expand-composites | FileCheck %s

// CHECK: %0 = spec.embedding  {path = "stages.0"} : () -> !spec.stream<tokens, 8>
// CHECK-NEXT: %1 = spec.layer %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.0.inside.0"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %2 = spec.boundaries %1 {at = #spec<at start>, name = "bytes", path = "stages.1.inside.1", rule = #spec<rule space_like>} : (!spec.stream<tokens, 8>) -> !spec.segmentation<"bytes" of <tokens, 8>>
// CHECK-NEXT: %3 = spec.shorten %1, %2 {method = #spec<shorten_method max>, path = "stages.1.inside.2"} : (!spec.stream<tokens, 8>, !spec.segmentation<"bytes" of <tokens, 8>>) -> !spec.stream<segments("bytes"), 8>
// CHECK-NEXT: %4 = spec.attend %3, %1, %2 {by = 1 : i64, head_size = 4 : i64, heads = 2 : i64, parts = 2 : i64, path = "stages.1.inside.3"} : (!spec.stream<segments("bytes"), 8>, !spec.stream<tokens, 8>, !spec.segmentation<"bytes" of <tokens, 8>>) -> !spec.stream<segments("bytes"), 8>
// CHECK-NEXT: %5 = spec.layer %4 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.4.inside.0"} : (!spec.stream<segments("bytes"), 8>) -> !spec.stream<segments("bytes"), 8>
// CHECK-NEXT: %6 = spec.attend %1, %5, %2 {by = 1 : i64, head_size = 4 : i64, heads = 2 : i64, parts = 2 : i64, path = "stages.1.inside.5"} : (!spec.stream<tokens, 8>, !spec.stream<segments("bytes"), 8>, !spec.segmentation<"bytes" of <tokens, 8>>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %7 = spec.layer %6 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.6.inside.0"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %8 = spec.attend %7, %5, %2 {by = 1 : i64, head_size = 4 : i64, heads = 2 : i64, parts = 2 : i64, path = "stages.1.inside.7"} : (!spec.stream<tokens, 8>, !spec.stream<segments("bytes"), 8>, !spec.segmentation<"bytes" of <tokens, 8>>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %9 = spec.layer %8 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.8.inside.0"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %10 = spec.norm %9 {path = "stages.1.inside.9"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: spec.head %10 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.blt %0 {boundaries = {at = #spec<at start>, name = "bytes", rule = #spec<rule space_like>}, global = {heads = 2 : i64}, layers = [1, 1, 2], local = {heads = 2 : i64}, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}
