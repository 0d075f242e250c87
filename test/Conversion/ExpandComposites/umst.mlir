// A layer of the public code's form: means over words, sums over the root of their rows, edges twice, one map of both scales.
// RUN: sluice-opt %s --spec-expand-composites | FileCheck %s

// CHECK: %3 = spec.norm %1 {path = "stages.3.inside.0"}
// CHECK-NEXT: %4 = spec.graph_convolution %3, %2 {method = #spec<graph_method mean>, path = "stages.3.inside.1"}
// CHECK-NEXT: %5 = spec.project %4 {activation = #spec<activation relu>, path = "stages.3.inside.2", share = "stages.3.layer.0"}
// CHECK-NEXT: %6 = spec.dropout %5 {path = "stages.3.inside.3", rate = 1.000000e-01 : f64}
// CHECK-NEXT: %7 = spec.graph_convolution %6, %2 {method = #spec<graph_method mean>, path = "stages.3.inside.4"}
// CHECK-NEXT: %8 = spec.dropout %7 {path = "stages.3.inside.5", rate = 1.000000e-01 : f64}
// CHECK-NEXT: %9 = spec.add %8, %1 {path = "stages.3.inside.6"}
// CHECK-NEXT: %10 = spec.shorten %9, %2 {method = #spec<shorten_method normalized>, path = "stages.3.inside.7"}
// CHECK-NEXT: %11 = spec.norm %10 {path = "stages.3.inside.8"}
// CHECK-NEXT: %12 = spec.graph_convolution %11 {edges = "links", path = "stages.3.inside.9"}
// CHECK-NEXT: %13 = spec.project %12 {activation = #spec<activation relu>, path = "stages.3.inside.10", share = "stages.3.layer.0"}
// CHECK-NEXT: %14 = spec.dropout %13 {path = "stages.3.inside.11", rate = 1.000000e-01 : f64}
// CHECK-NEXT: %15 = spec.graph_convolution %14 {edges = "links", path = "stages.3.inside.12"}
// CHECK-NEXT: %16 = spec.dropout %15 {path = "stages.3.inside.13", rate = 1.000000e-01 : f64}
// CHECK-NEXT: %17 = spec.add %16, %10 {path = "stages.3.inside.14"}
// CHECK-NEXT: %18 = spec.rectified_attention %9, %17 {dropout = 1.000000e-01 : f64, head_size = 4 : i64, heads = 2 : i64, path = "stages.3.inside.15", vectors = 3 : i64}
// CHECK-NEXT: %19 = spec.feed_forward %18 {dropout = 1.000000e-01 : f64, feed_forward = 32 : i64, path = "stages.3.inside.16"}
// CHECK-NEXT: %20 = spec.norm %19 {path = "stages.3.inside.17"}
spec.model attributes {batch = 2 : i64, length = 32 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  spec.input @source {length = 7 : i64, type = #spec<contents tokens>, vocabulary = 256 : i64}
  spec.input @ends {on = "source", type = #spec<contents tokens>, vocabulary = 2 : i64}
  spec.input @links {on = "ends", type = #spec<contents edges>}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.embedding {input = "source", path = "stages.1"} : () -> !spec.stream<input("source"), 8>
  %2 = spec.boundaries %1 {bits = "ends", name = "words", path = "stages.2", rule = #spec<rule bits>} : (!spec.stream<input("source"), 8>) -> !spec.segmentation<"words" of <input("source"), 8>>
  %3 = spec.umst %1, %2 {count = 1 : i64, dropout = 0.1 : f64, edges = "links", graph_maps = #spec<graph_maps scales>, heads = 2 : i64, mode = #spec<mode reference_code>, path = "stages.3", vectors = 3 : i64} : (!spec.stream<input("source"), 8>, !spec.segmentation<"words" of <input("source"), 8>>) -> !spec.stream<input("source"), 8>
  %4 = spec.layer %0, %3 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, mask = #spec.mask<bidirectional>, path = "stages.4"} : (!spec.stream<tokens, 8>, !spec.stream<input("source"), 8>) -> !spec.stream<tokens, 8>
  spec.head %4 {path = "stages.5"} : (!spec.stream<tokens, 8>) -> ()
}
