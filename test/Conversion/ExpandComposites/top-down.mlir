// Each scale reads complete groups of the coarser one; layers omit rows without such a group. Rows of the result may be scored from token 3
// on.
// RUN: sluice-opt %s --spec-expand-composites | FileCheck %s

// CHECK: %0 = spec.embedding  {path = "stages.0"} : () -> !spec.stream<tokens, 8>
// CHECK-NEXT: %1 = spec.shorten %0 {factor = 4 : i64, path = "stages.1.inside.0"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %2 = spec.layer %1 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.1"} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: %3 = spec.norm %2 {path = "stages.1.inside.2"} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens by 4, 8>
// CHECK-NEXT: spec.loss %3 {bag, factor = 5.000000e-01 : f64, first = 3 : i64, name = "bag_4", path = "stages.1.inside.3"} : (!spec.stream<tokens by 4, 8>) -> ()
// CHECK-NEXT: %4 = spec.upsample %3 {factor = 2 : i64, path = "stages.1.inside.4"} : (!spec.stream<tokens by 4, 8>) -> !spec.stream<tokens by 2, 8>
// CHECK-NEXT: %5 = spec.shift %4 {by = 1 : i64, path = "stages.1.inside.5"} : (!spec.stream<tokens by 2, 8>) -> !spec.stream<tokens by 2, 8>
// CHECK-NEXT: %6 = spec.shorten %0 {factor = 2 : i64, path = "stages.1.inside.6"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens by 2, 8>
// CHECK-NEXT: %7 = spec.project %6, %5 {activation = #spec<activation gelu>, path = "stages.1.inside.7"} : (!spec.stream<tokens by 2, 8>, !spec.stream<tokens by 2, 8>) -> !spec.stream<tokens by 2, 8>
// CHECK-NEXT: %8 = spec.layer %7 {feed_forward = 32 : i64, first = 1 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.8"} : (!spec.stream<tokens by 2, 8>) -> !spec.stream<tokens by 2, 8>
// CHECK-NEXT: %9 = spec.norm %8 {path = "stages.1.inside.9"} : (!spec.stream<tokens by 2, 8>) -> !spec.stream<tokens by 2, 8>
// CHECK-NEXT: spec.loss %9 {bag, factor = 5.000000e-01 : f64, first = 3 : i64, name = "bag_2", path = "stages.1.inside.10"} : (!spec.stream<tokens by 2, 8>) -> ()
// CHECK-NEXT: %10 = spec.upsample %9 {factor = 2 : i64, path = "stages.1.inside.11"} : (!spec.stream<tokens by 2, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %11 = spec.shift %10 {by = 1 : i64, path = "stages.1.inside.12"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %12 = spec.project %0, %11 {activation = #spec<activation gelu>, path = "stages.1.inside.13"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %13 = spec.layer %12 {feed_forward = 32 : i64, first = 3 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.14"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %14 = spec.norm %13 {first_tokens = 3 : i64, path = "stages.1.inside.15"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: spec.head %14 {first = 3 : i64, path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.top_down %0 {bags = 5.000000e-01 : f64, feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "1@4 1@2 1@1", path = "stages.1", projection_activation = #spec<activation gelu>} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {first = 3 : i64, path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}
