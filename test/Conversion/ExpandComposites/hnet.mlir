// Levels nest: the inner one replaces the outer one's layers on chunks. The outer one has a router, the inner one a rule.
// RUN: sluice-opt %s --spec-expand-composites | FileCheck %s

// CHECK: %0 = spec.embedding  {path = "stages.0"} : () -> !spec.stream<tokens, 8>
// CHECK-NEXT: %1 = spec.layer %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.0.inside.0"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %2 = spec.norm %1 {path = "stages.1.inside.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %3 = spec.project %2 {bias = false, initial = #spec<initial zeros>, path = "stages.1.inside.2"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %4 = spec.boundaries %2 {at = #spec<at start>, name = "hnet", path = "stages.1.inside.3", ratio = #spec.target<4.000000e+00 : f64>, weight = 3.000000e-02 : f64} : (!spec.stream<tokens, 8>) -> !spec.segmentation<"hnet" of <tokens, 8>>
// CHECK-NEXT: %5 = spec.shorten %2, %4 {method = #spec<shorten_method first>, path = "stages.1.inside.4"} : (!spec.stream<tokens, 8>, !spec.segmentation<"hnet" of <tokens, 8>>) -> !spec.stream<segments("hnet"), 8>
// CHECK-NEXT: %6 = spec.project %5 {bias = false, path = "stages.1.inside.5", width = 16 : i64} : (!spec.stream<segments("hnet"), 8>) -> !spec.stream<segments("hnet"), 16>
// CHECK-NEXT: %7 = spec.norm %6 {path = "stages.1.inside.6"} : (!spec.stream<segments("hnet"), 16>) -> !spec.stream<segments("hnet"), 16>
// CHECK-NEXT: %8 = spec.project %7 {bias = false, initial = #spec<initial zeros>, path = "stages.1.inside.7"} : (!spec.stream<segments("hnet"), 16>) -> !spec.stream<segments("hnet"), 16>
// CHECK-NEXT: %9 = spec.boundaries %7 {at = #spec<at start>, name = "hnet_2", path = "stages.1.inside.8", rule = #spec<rule whitespace>} : (!spec.stream<segments("hnet"), 16>) -> !spec.segmentation<"hnet_2" of <segments("hnet"), 16>>
// CHECK-NEXT: %10 = spec.shorten %7, %9 {method = #spec<shorten_method first>, path = "stages.1.inside.9"} : (!spec.stream<segments("hnet"), 16>, !spec.segmentation<"hnet_2" of <segments("hnet"), 16>>) -> !spec.stream<segments("hnet_2"), 16>
// CHECK-NEXT: %11 = spec.project %10 {bias = false, path = "stages.1.inside.10", width = 16 : i64} : (!spec.stream<segments("hnet_2"), 16>) -> !spec.stream<segments("hnet_2"), 16>
// CHECK-NEXT: %12 = spec.layer %11 {feed_forward = 64 : i64, head_size = 8 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.11.inside.0"} : (!spec.stream<segments("hnet_2"), 16>) -> !spec.stream<segments("hnet_2"), 16>
// CHECK-NEXT: %13 = spec.norm %12 {path = "stages.1.inside.12"} : (!spec.stream<segments("hnet_2"), 16>) -> !spec.stream<segments("hnet_2"), 16>
// CHECK-NEXT: %14 = spec.project %13 {bias = false, path = "stages.1.inside.13", width = 16 : i64} : (!spec.stream<segments("hnet_2"), 16>) -> !spec.stream<segments("hnet_2"), 16>
// CHECK-NEXT: %15 = spec.upsample %14, %9 {by = 1 : i64, path = "stages.1.inside.14"} : (!spec.stream<segments("hnet_2"), 16>, !spec.segmentation<"hnet_2" of <segments("hnet"), 16>>) -> !spec.stream<segments("hnet"), 16>
// CHECK-NEXT: %16 = spec.add %15, %8 {path = "stages.1.inside.15"} : (!spec.stream<segments("hnet"), 16>, !spec.stream<segments("hnet"), 16>) -> !spec.stream<segments("hnet"), 16>
// CHECK-NEXT: %17 = spec.norm %16 {path = "stages.1.inside.16"} : (!spec.stream<segments("hnet"), 16>) -> !spec.stream<segments("hnet"), 16>
// CHECK-NEXT: %18 = spec.project %17 {bias = false, path = "stages.1.inside.17", width = 8 : i64} : (!spec.stream<segments("hnet"), 16>) -> !spec.stream<segments("hnet"), 8>
// CHECK-NEXT: %19 = spec.upsample %18, %4 {by = 1 : i64, method = #spec<upsample_method smooth>, path = "stages.1.inside.18"} : (!spec.stream<segments("hnet"), 8>, !spec.segmentation<"hnet" of <tokens, 8>>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %20 = spec.add %19, %3 {path = "stages.1.inside.19"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %21 = spec.layer %20 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.20.inside.0"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %22 = spec.norm %21 {path = "stages.1.inside.21"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: spec.head %22 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.hnet %0 {boundaries = [{ratio = #spec.target<4.000000e+00 : f64>}, {rule = #spec<rule whitespace>}], global = {heads = 2 : i64}, layers = [1, [0, 1, 0], 1], local = {heads = 2 : i64}, path = "stages.1", width = array<i64: 16, 16>} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}
