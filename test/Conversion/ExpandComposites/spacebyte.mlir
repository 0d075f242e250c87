// Rows after spaces have layers of their own width; no norm before or after them.
// RUN: sluice-opt %s --spec-expand-composites | FileCheck %s

// CHECK: %0 = spec.embedding  {path = "stages.0"} : () -> !spec.stream<tokens, 8>
// CHECK-NEXT: %1 = spec.layer %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.0.inside.0"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %2 = spec.boundaries %1 {at = #spec<at start>, name = "spacebyte", path = "stages.1.inside.1", rule = #spec<rule space_like>} : (!spec.stream<tokens, 8>) -> !spec.segmentation<"spacebyte" of <tokens, 8>>
// CHECK-NEXT: %3 = spec.shorten %1, %2 {method = #spec<shorten_method first>, path = "stages.1.inside.2"} : (!spec.stream<tokens, 8>, !spec.segmentation<"spacebyte" of <tokens, 8>>) -> !spec.stream<segments("spacebyte"), 8>
// CHECK-NEXT: %4 = spec.project %3 {bias = false, path = "stages.1.inside.3", width = 16 : i64} : (!spec.stream<segments("spacebyte"), 8>) -> !spec.stream<segments("spacebyte"), 16>
// CHECK-NEXT: %5 = spec.layer %4 {feed_forward = 64 : i64, head_size = 4 : i64, heads = 4 : i64, key_value_heads = 4 : i64, path = "stages.1.inside.4.inside.0"} : (!spec.stream<segments("spacebyte"), 16>) -> !spec.stream<segments("spacebyte"), 16>
// CHECK-NEXT: %6 = spec.layer %5 {feed_forward = 64 : i64, head_size = 4 : i64, heads = 4 : i64, key_value_heads = 4 : i64, path = "stages.1.inside.4.inside.1"} : (!spec.stream<segments("spacebyte"), 16>) -> !spec.stream<segments("spacebyte"), 16>
// CHECK-NEXT: %7 = spec.project %6 {bias = false, path = "stages.1.inside.5", width = 8 : i64} : (!spec.stream<segments("spacebyte"), 16>) -> !spec.stream<segments("spacebyte"), 8>
// CHECK-NEXT: %8 = spec.upsample %7, %2 {by = 1 : i64, method = #spec<upsample_method scatter>, path = "stages.1.inside.6"} : (!spec.stream<segments("spacebyte"), 8>, !spec.segmentation<"spacebyte" of <tokens, 8>>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %9 = spec.add %8, %1 {path = "stages.1.inside.7"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %10 = spec.layer %9 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.8.inside.0"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %11 = spec.norm %10 {path = "stages.1.inside.9"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: spec.head %11 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.spacebyte %0 {global = {heads = 4 : i64}, layers = [1, 2, 1], local = {heads = 2 : i64}, path = "stages.1", width = 16 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}
