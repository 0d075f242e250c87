// A delayed mean of each segment; layers without a norm where there are none.
// RUN: sluice-opt %s --spec-expand-composites | FileCheck %s

// CHECK: %0 = spec.embedding  {path = "stages.0"} : () -> !spec.stream<tokens, 8>
// CHECK-NEXT: %1 = spec.layer %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, norm = #spec<norm rms>, path = "stages.1.inside.0.inside.0"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %2 = spec.norm %1 {norm = #spec<norm rms>, path = "stages.1.inside.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %3 = spec.boundaries %2 {name = "dynamic", path = "stages.1.inside.2", rule = #spec<rule whitespace>} : (!spec.stream<tokens, 8>) -> !spec.segmentation<"dynamic" of <tokens, 8>>
// CHECK-NEXT: %4 = spec.shorten %2, %3 {path = "stages.1.inside.3"} : (!spec.stream<tokens, 8>, !spec.segmentation<"dynamic" of <tokens, 8>>) -> !spec.stream<segments("dynamic"), 8>
// CHECK-NEXT: %5 = spec.shift %4 {by = 1 : i64, path = "stages.1.inside.4", start = #spec<start null>} : (!spec.stream<segments("dynamic"), 8>) -> !spec.stream<segments("dynamic"), 8>
// CHECK-NEXT: %6 = spec.project %5 {bias = false, path = "stages.1.inside.5", width = 4 : i64} : (!spec.stream<segments("dynamic"), 8>) -> !spec.stream<segments("dynamic"), 4>
// CHECK-NEXT: %7 = spec.layer %6 {feed_forward = 16 : i64, head_size = 2 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.6.inside.0"} : (!spec.stream<segments("dynamic"), 4>) -> !spec.stream<segments("dynamic"), 4>
// CHECK-NEXT: %8 = spec.norm %7 {path = "stages.1.inside.7"} : (!spec.stream<segments("dynamic"), 4>) -> !spec.stream<segments("dynamic"), 4>
// CHECK-NEXT: %9 = spec.project %8 {bias = false, path = "stages.1.inside.8", width = 8 : i64} : (!spec.stream<segments("dynamic"), 4>) -> !spec.stream<segments("dynamic"), 8>
// CHECK-NEXT: %10 = spec.upsample %9, %3 {by = 0 : i64, path = "stages.1.inside.9"} : (!spec.stream<segments("dynamic"), 8>, !spec.segmentation<"dynamic" of <tokens, 8>>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %11 = spec.add %10, %2 {path = "stages.1.inside.10"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: spec.head %11 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.dynamic %0 {boundaries = {rule = #spec<rule whitespace>}, global = {heads = 2 : i64}, layers = [1, 1, 0], local = {heads = 2 : i64, norm = #spec<norm rms>}, path = "stages.1", width = 4 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}
