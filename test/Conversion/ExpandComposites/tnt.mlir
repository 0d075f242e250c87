// Pairs of layers, over the rows of a word and over all rows, with one set of weights for both layers of a pair.
// RUN: sluice-opt %s --spec-expand-composites | FileCheck %s

// CHECK: %3 = spec.layer %1 {dropout = 1.000000e-01 : f64, feed_forward = 12 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, mask = #spec.mask<bidirectional>, norm = #spec<norm rms>, path = "stages.3.inside.0", share = "stages.3.layer.0", within = "words"}
// CHECK-NEXT: %4 = spec.layer %3 {dropout = 1.000000e-01 : f64, feed_forward = 12 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, mask = #spec.mask<bidirectional>, norm = #spec<norm rms>, path = "stages.3.inside.1", share = "stages.3.layer.0"}
// CHECK-NEXT: %5 = spec.layer %4 {{{.*}}path = "stages.3.inside.2", share = "stages.3.layer.1", within = "words"}
// CHECK-NEXT: %6 = spec.layer %5 {{{.*}}path = "stages.3.inside.3", share = "stages.3.layer.1"}
// CHECK-NEXT: %7 = spec.norm %6 {norm = #spec<norm rms>, path = "stages.3.inside.4"}
// CHECK-NEXT: %8 = spec.layer %0, %7
spec.model attributes {batch = 2 : i64, length = 32 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  spec.input @source {length = 7 : i64, type = #spec<contents tokens>, vocabulary = 256 : i64}
  spec.input @ends {on = "source", type = #spec<contents tokens>, vocabulary = 2 : i64}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.embedding {input = "source", path = "stages.1"} : () -> !spec.stream<input("source"), 8>
  %2 = spec.boundaries %1 {bits = "ends", name = "words", path = "stages.2", rule = #spec<rule bits>} : (!spec.stream<input("source"), 8>) -> !spec.segmentation<"words" of <input("source"), 8>>
  %3 = spec.tnt %1, %2 {count = 2 : i64, dropout = 0.1 : f64, feed_forward = 12 : i64, heads = 2 : i64, norm = #spec<norm rms>, path = "stages.3", shared_layers = true} : (!spec.stream<input("source"), 8>, !spec.segmentation<"words" of <input("source"), 8>>) -> !spec.stream<input("source"), 8>
  %4 = spec.layer %0, %3 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, mask = #spec.mask<bidirectional>, path = "stages.4"} : (!spec.stream<tokens, 8>, !spec.stream<input("source"), 8>) -> !spec.stream<tokens, 8>
  spec.head %4 {path = "stages.5"} : (!spec.stream<tokens, 8>) -> ()
}
