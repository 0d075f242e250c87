// Graph attention in place of both convolutions: no map before it, as its values have one, and one set of weights for both layers.
// RUN: sluice-opt %s --spec-expand-composites | FileCheck %s

// CHECK: %3 = spec.norm %1 {path = "stages.3.inside.0"}
// CHECK-NEXT: %4 = spec.graph_convolution %3, %2 {activation = #spec<activation relu>, method = #spec<graph_method attention>, path = "stages.3.inside.1", share = "stages.3.intra"}
// CHECK-NEXT: %5 = spec.dropout %4 {path = "stages.3.inside.2", rate = 1.000000e-01 : f64}
// CHECK-NEXT: %6 = spec.add %5, %1 {path = "stages.3.inside.3"}
// CHECK-NEXT: %7 = spec.shorten %6, %2 {path = "stages.3.inside.4"}
// CHECK-NEXT: %8 = spec.norm %7 {path = "stages.3.inside.5"}
// CHECK-NEXT: %9 = spec.graph_convolution %8 {activation = #spec<activation relu>, edges = "links", method = #spec<graph_method attention>, path = "stages.3.inside.6", share = "stages.3.inter"}
// CHECK-NEXT: %10 = spec.dropout %9 {path = "stages.3.inside.7", rate = 1.000000e-01 : f64}
// CHECK-NEXT: %11 = spec.add %10, %7 {path = "stages.3.inside.8"}
// CHECK-NEXT: %12 = spec.rectified_attention %6, %11
// CHECK: path = "stages.3.inside.12", share = "stages.3.intra"}
spec.model attributes {batch = 2 : i64, length = 32 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  spec.input @source {length = 7 : i64, type = #spec<contents tokens>, vocabulary = 256 : i64}
  spec.input @ends {on = "source", type = #spec<contents tokens>, vocabulary = 2 : i64}
  spec.input @links {on = "ends", type = #spec<contents edges>}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.embedding {input = "source", path = "stages.1"} : () -> !spec.stream<input("source"), 8>
  %2 = spec.boundaries %1 {bits = "ends", name = "words", path = "stages.2", rule = #spec<rule bits>} : (!spec.stream<input("source"), 8>) -> !spec.segmentation<"words" of <input("source"), 8>>
  %3 = spec.umst %1, %2 {count = 2 : i64, dropout = 0.1 : f64, edges = "links", graph_maps = #spec<graph_maps layers>, heads = 2 : i64, inter = #spec<graph_use gat>, intra = #spec<graph_use gat>, path = "stages.3"} : (!spec.stream<input("source"), 8>, !spec.segmentation<"words" of <input("source"), 8>>) -> !spec.stream<input("source"), 8>
  %4 = spec.layer %0, %3 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, mask = #spec.mask<bidirectional>, path = "stages.4"} : (!spec.stream<tokens, 8>, !spec.stream<input("source"), 8>) -> !spec.stream<tokens, 8>
  spec.head %4 {path = "stages.5", tied = true} : (!spec.stream<tokens, 8>) -> ()
}
