// Concatenated patches, then layers inside each patch, which starts with a row of the previous
// patch.
// RUN: sluice-opt %s --spec-expand-composites | FileCheck %s

// CHECK: %0 = spec.embedding  {path = "stages.0"} : () -> !spec.stream<tokens, 8>
// CHECK-NEXT: %1 = spec.shorten %0 {factor = 4 : i64, method = #spec<shorten_method concatenate>, path = "stages.1.inside.0", width = 16 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens by 4, 16>
// CHECK-NEXT: %2 = spec.layer %1 {feed_forward = 64 : i64, head_size = 8 : i64, heads = 2 : i64, key_value_heads = 2 : i64, path = "stages.1.inside.1.inside.0"} : (!spec.stream<tokens by 4, 16>) -> !spec.stream<tokens by 4, 16>
// CHECK-NEXT: %3 = spec.norm %2 {path = "stages.1.inside.2"} : (!spec.stream<tokens by 4, 16>) -> !spec.stream<tokens by 4, 16>
// CHECK-NEXT: %4 = spec.upsample %3 {factor = 4 : i64, method = #spec<upsample_method split>, path = "stages.1.inside.3", width = 8 : i64} : (!spec.stream<tokens by 4, 16>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %5 = spec.shift %4 {by = 3 : i64, path = "stages.1.inside.4", start = #spec<start null>} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %6 = spec.project %0 {bias = false, path = "stages.1.inside.5"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %7 = spec.add %6, %5 {path = "stages.1.inside.6"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %8 = spec.replace %7, %5 {block = 4 : i64, path = "stages.1.inside.7", start = 3 : i64} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %9 = spec.layer %8 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, mask = #spec.mask<block from 3 to 4>, path = "stages.1.inside.8.inside.0"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: %10 = spec.norm %9 {path = "stages.1.inside.9"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK-NEXT: spec.head %10 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()

spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.megabyte %0 {global = {heads = 2 : i64}, layers = [1, 1], local = {heads = 2 : i64}, patch = 4 : i64, path = "stages.1", width = 16 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}
