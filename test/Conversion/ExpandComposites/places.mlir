// Stages inside a composite one have its locations.
// RUN: not sluice-opt %s -split-input-file --spec-expand-composites 2>&1 | FileCheck %s

// Written settings of local layers are verified even without such a layer.
// CHECK: a.json:3:19: error: expected "heads" to divide the width, found 3 heads for width 8
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.dynamic %0 {boundaries = {rule = #spec<rule whitespace>}, global = {heads = 2 : i64}, layers = [0, 1, 0], local = {heads = 3 : i64}, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8> loc(fused<{local = loc("a.json":3:5), "local.heads" = loc("a.json":3:19)}>["a.json":2:1])
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Heads of `defaults` do not divide a width of the stage; the error is at the stage.
// CHECK: b.json:5:12: error: expected a width that the 2 heads of "defaults" divide, found 7
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.spacebyte %0 {global = {heads = 2 : i64}, layers = [1, 1, 1], local = {heads = 2 : i64}, path = "stages.1", width = 7 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8> loc(fused<{"defaults.heads" = loc("b.json":1:9), "global.heads" = loc("b.json":1:9), width = loc("b.json":5:12)}>["b.json":4:1])
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// Heads of "global" do not divide it either.
// CHECK: c.json:6:20: error: expected "heads" to divide the width, found 2 heads for width 7
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.spacebyte %0 {global = {heads = 2 : i64}, layers = [1, 1, 1], local = {heads = 2 : i64}, path = "stages.1", width = 7 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8> loc(fused<{"defaults.heads" = loc("c.json":1:9), "global.heads" = loc("c.json":6:20), width = loc("c.json":5:12)}>["c.json":4:1])
  spec.head %1 {path = "stages.2"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// A layer of an hourglass has the location of the hierarchy, and keys of the hourglass.
// CHECK: d.json:8:20: error: expected a mask that counts segments
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.boundaries %0 {name = "words", path = "stages.1", rule = #spec<rule whitespace>} : (!spec.stream<tokens, 8>) -> !spec.segmentation<"words" of <tokens, 8>>
  %2 = spec.shorten %0, %1 {path = "stages.2"} : (!spec.stream<tokens, 8>, !spec.segmentation<"words" of <tokens, 8>>) -> !spec.stream<segments("words"), 8>
  %3 = spec.hourglass %2 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "0@1 1@2 0@1", mask = #spec.mask<tokens to 4>, path = "stages.3"} : (!spec.stream<segments("words"), 8>) -> !spec.stream<segments("words"), 8> loc(fused<{hierarchy = loc("d.json":7:20), mask = loc("d.json":8:20)}>["d.json":6:1])
  %4 = spec.upsample %3, %1 {by = 1 : i64, path = "stages.4"} : (!spec.stream<segments("words"), 8>, !spec.segmentation<"words" of <tokens, 8>>) -> !spec.stream<tokens, 8>
  spec.head %4 {path = "stages.5"} : (!spec.stream<tokens, 8>) -> ()
}

// -----

// A shortening of an hourglass has no key of its own.
// CHECK: e.json:3:7: error: expected scales of at most 2147483647 tokens a position, found 65536 * 65536
spec.model attributes {batch = 1 : i64, length = 16 : i64, name = "m", vocabulary = 256 : i64, width = 8 : i64} {
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.shorten %0 {factor = 65536 : i64, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens by 65536, 8>
  %2 = spec.hourglass %1 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, hierarchy = "0@1 1@65536 0@1", path = "stages.2"} : (!spec.stream<tokens by 65536, 8>) -> !spec.stream<tokens by 65536, 8> loc(fused<{hierarchy = loc("e.json":3:7)}>["e.json":2:1])
  %3 = spec.upsample %2 {factor = 65536 : i64, path = "stages.3"} : (!spec.stream<tokens by 65536, 8>) -> !spec.stream<tokens, 8>
  spec.head %3 {path = "stages.4"} : (!spec.stream<tokens, 8>) -> ()
}
