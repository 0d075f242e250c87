// Layers on rows, the means of words, and a graph convolution with its residual sum between layers on words. A count of 0 adds no layer.
// RUN: sluice-opt %s --spec-expand-composites | FileCheck %s

// CHECK: %3 = spec.layer %1 {dropout = 1.000000e-01 : f64, feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, mask = #spec.mask<bidirectional>, path = "stages.3.inside.0.inside.0"}
// CHECK-NEXT: %4 = spec.layer %3 {{{.*}}path = "stages.3.inside.0.inside.1"}
// CHECK-NEXT: %5 = spec.shorten %4, %2 {path = "stages.3.inside.1"}
// CHECK-NEXT: %6 = spec.norm %5 {path = "stages.3.inside.2"}
// CHECK-NEXT: %7 = spec.graph_convolution %6 {edges = "links", path = "stages.3.inside.3"}
// CHECK-NEXT: %8 = spec.project %7 {activation = #spec<activation relu>, path = "stages.3.inside.4"}
// CHECK-NEXT: %9 = spec.dropout %8 {path = "stages.3.inside.5", rate = 1.000000e-01 : f64}
// CHECK-NEXT: %10 = spec.add %9, %5 {path = "stages.3.inside.6"}
// CHECK-NEXT: %11 = spec.layer %10 {{{.*}}path = "stages.3.inside.7.inside.0"}
// CHECK-NEXT: %12 = spec.norm %11 {path = "stages.3.inside.8"}
// CHECK-NEXT: %13 = spec.layer %0, %12
spec.model attributes {batch = 2 : i64, length = 32 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  spec.input @source {length = 7 : i64, type = #spec<contents tokens>, vocabulary = 256 : i64}
  spec.input @ends {on = "source", type = #spec<contents tokens>, vocabulary = 2 : i64}
  spec.input @links {on = "ends", type = #spec<contents edges>}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.embedding {input = "source", path = "stages.1"} : () -> !spec.stream<input("source"), 8>
  %2 = spec.boundaries %1 {bits = "ends", name = "words", path = "stages.2", rule = #spec<rule bits>} : (!spec.stream<input("source"), 8>) -> !spec.segmentation<"words" of <input("source"), 8>>
  %3 = spec.multi_stage %1, %2 {dropout = 0.1 : f64, edges = "links", heads = 2 : i64, layers = [2, 0, 1], path = "stages.3"} : (!spec.stream<input("source"), 8>, !spec.segmentation<"words" of <input("source"), 8>>) -> !spec.stream<input("words"), 8>
  %4 = spec.layer %0, %3 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, mask = #spec.mask<bidirectional>, path = "stages.4"} : (!spec.stream<tokens, 8>, !spec.stream<input("words"), 8>) -> !spec.stream<tokens, 8>
  spec.head %4 {path = "stages.5"} : (!spec.stream<tokens, 8>) -> ()
}
