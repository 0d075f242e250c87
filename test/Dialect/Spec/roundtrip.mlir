// RUN: sluice-opt %s | sluice-opt | FileCheck %s
// RUN: sluice-opt %s -o %t && sluice-opt %t | diff %t -

// CHECK: spec.model
spec.model attributes {batch = 2 : i64, length = 16 : i64, name = "segments", seed = 3 : i64, vocabulary = 256 : i64, width = 8 : i64} {
// CHECK: spec.precision
  spec.precision {compute = #spec<storage bf16>, residual = #spec<storage bf16>}
// CHECK: spec.training
  spec.training {accumulate = 2 : i64, optimizer = #spec<optimizer adam>, order = #spec<order cyclic>}
// CHECK: spec.schedule
  spec.schedule {floor = 5.000000e-01 : f64, steps = 10 : i64, warmup = 1 : i64}
// CHECK: spec.fall
  spec.fall {floor = 2.500000e-01 : f64, steps = 4 : i64}
// CHECK: spec.group
  spec.group {match = "*.bias", weight_decay = 0.000000e+00 : f64}
// CHECK: spec.embedding{{.*}} : () -> !spec.stream<tokens, 8>
  %0 = spec.embedding {ngram_rows = 65536 : i64, ngrams = array<i64: 2, 3>, path = "stages.0"} : () -> !spec.stream<tokens, 8>
// CHECK: spec.layer{{.*}} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %1 = spec.layer %0, %0, %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, over = [#spec.mask<tokens to 4>, #spec.mask<causal>], path = "stages.1"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.layers{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %2 = spec.layers %1 {count = 2 : i64, feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, mask = #spec.mask<window to 8>, path = "stages.2", relative = #spec.relative<bias of 4>} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.norm{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %3 = spec.norm %2 {norm = #spec<norm rms>, path = "stages.3"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.dropout{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %4 = spec.dropout %3 {path = "stages.4", rate = 5.000000e-01 : f64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.boundaries{{.*}} : (!spec.stream<tokens, 8>) -> !spec.segmentation<"words" of <tokens, 8>>
  %5 = spec.boundaries %4 {mode = #spec<mode reference_code>, name = "words", path = "stages.5", predictor = 4 : i64, rule = #spec<rule whitespace>, weight = 1.000000e+00 : f64} : (!spec.stream<tokens, 8>) -> !spec.segmentation<"words" of <tokens, 8>>
// CHECK: spec.shorten{{.*}} : (!spec.stream<tokens, 8>, !spec.segmentation<"words" of <tokens, 8>>) -> !spec.stream<segments("words"), 8>
  %6 = spec.shorten %4, %5 {path = "stages.6"} : (!spec.stream<tokens, 8>, !spec.segmentation<"words" of <tokens, 8>>) -> !spec.stream<segments("words"), 8>
// CHECK: spec.attend{{.*}} : (!spec.stream<segments("words"), 8>, !spec.stream<tokens, 8>, !spec.segmentation<"words" of <tokens, 8>>) -> !spec.stream<segments("words"), 8>
  %7 = spec.attend %6, %0, %5 {by = 1 : i64, head_size = 4 : i64, heads = 2 : i64, parts = 2 : i64, path = "stages.7"} : (!spec.stream<segments("words"), 8>, !spec.stream<tokens, 8>, !spec.segmentation<"words" of <tokens, 8>>) -> !spec.stream<segments("words"), 8>
// CHECK: spec.shift{{.*}} : (!spec.stream<segments("words"), 8>) -> !spec.stream<segments("words"), 8>
  %8 = spec.shift %7 {by = 1 : i64, path = "stages.8", start = #spec<start null>} : (!spec.stream<segments("words"), 8>) -> !spec.stream<segments("words"), 8>
// CHECK: spec.upsample{{.*}} : (!spec.stream<segments("words"), 8>, !spec.segmentation<"words" of <tokens, 8>>) -> !spec.stream<tokens, 8>
  %9 = spec.upsample %8, %5 {by = 1 : i64, path = "stages.9"} : (!spec.stream<segments("words"), 8>, !spec.segmentation<"words" of <tokens, 8>>) -> !spec.stream<tokens, 8>
// CHECK: spec.add{{.*}} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %10 = spec.add %9, %0 {path = "stages.10"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.shorten{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens by 2, 8>
  %11 = spec.shorten %10 {factor = 2 : i64, method = #spec<shorten_method concatenate>, path = "stages.11"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens by 2, 8>
// CHECK: spec.upsample{{.*}} : (!spec.stream<tokens by 2, 8>) -> !spec.stream<tokens, 8>
  %12 = spec.upsample %11 {factor = 2 : i64, method = #spec<upsample_method split>, path = "stages.12"} : (!spec.stream<tokens by 2, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.project{{.*}} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %13 = spec.project %12, %10 {activation = #spec<activation gelu>, path = "stages.13"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.recurrence{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 6>
  %recurrent = spec.recurrence %13 {cell = #spec<cell lstm_capped>, path = "stages.30", width = 6 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 6>
// CHECK: spec.clear{{.*}}block = 3 : i64{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %cleared = spec.clear %13 {block = 3 : i64, path = "stages.31"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.fit{{.*}}at = 2 : i64{{.*}}width = 12 : i64{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 12>
  %fitted = spec.fit %cleared {at = 2 : i64, path = "stages.32", width = 12 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 12>
// CHECK: spec.positions{{.*}}columns = 4 : i64{{.*}} : (!spec.stream<tokens, 12>) -> !spec.stream<tokens, 12>
  %placed = spec.positions %fitted {columns = 4 : i64, path = "stages.33"} : (!spec.stream<tokens, 12>) -> !spec.stream<tokens, 12>
// CHECK: spec.replace{{.*}} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %14 = spec.replace %13, %10 {block = 2 : i64, path = "stages.14"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.feed_forward{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %15 = spec.feed_forward %14 {feed_forward = 16 : i64, feed_forward_dropout = 1.000000e-01 : f64, feed_forward_in_bias = false, path = "stages.15"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.attention{{.*}} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>, !spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %16 = spec.attention %15, %15, %14, %10 {head_size = 4 : i64, heads = 2 : i64, key_value_heads = 1 : i64, path = "stages.16"} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>, !spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.loss{{.*}} : (!spec.stream<tokens, 8>) -> ()
  spec.loss %16 {factor = 5.000000e-01 : f64, name = "other", path = "stages.17"} : (!spec.stream<tokens, 8>) -> ()
// CHECK: spec.contrast{{.*}} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> ()
  spec.contrast %16, %15 {extra_batches = 1 : i64, name = "rows", path = "stages.31", shift = 0 : i64} : (!spec.stream<tokens, 8>, !spec.stream<tokens, 8>) -> ()
// CHECK: spec.head{{.*}} : (!spec.stream<tokens, 8>) -> ()
  spec.head %16 {path = "stages.18", tied = true} : (!spec.stream<tokens, 8>) -> ()
}

// CHECK: spec.model
spec.model attributes {batch = 2 : i64, length = 32 : i64, name = "composites", vocabulary = 256 : i64, width = 8 : i64} {
// CHECK: spec.input
  spec.input @weights {axis = #spec<input_axis tokens>, role = #spec<role weight>, type = #spec<contents numbers>, width = 1 : i64}
// CHECK: spec.precision
  spec.precision
// CHECK: spec.training
  spec.training
// CHECK: spec.schedule
  spec.schedule
// CHECK: spec.embedding{{.*}} : () -> !spec.stream<tokens, 8>
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
// CHECK: spec.hourglass{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %1 = spec.hourglass %0 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, hierarchy = "1@1 2@{2,4} 1@1", key_value_heads = 2 : i64, lsh = #spec.lsh<buckets = 4, chunk = 128, hashes = 2, causal = true>, path = "stages.1"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.top_down{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %2 = spec.top_down %1 {bags = 5.000000e-01 : f64, feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, hierarchy = "1@4 1@1", key_value_heads = 2 : i64, path = "stages.2"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.bottom_up{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %3 = spec.bottom_up %2 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, hierarchy = "1@1 1@2", key_value_heads = 2 : i64, lsh = #spec.lsh<buckets = 4, chunk = 128, hashes = 2, causal = true>, path = "stages.3", pooling = #spec<pooling repooled>} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.dynamic{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %4 = spec.dynamic %3 {boundaries = {predictor = 4 : i64, prior = #spec.target<2.500000e-01 : f64 from 5.000000e-01 : f64 steps 10 jumps 2>}, global = {heads = 2 : i64, lsh = #spec.lsh<buckets = 4, chunk = 128, hashes = 2, causal = true>}, layers = [1, 1, 1], local = {heads = 2 : i64, lsh = #spec.lsh<buckets = 4, chunk = 128, hashes = 2, causal = true>}, path = "stages.4"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.megabyte{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %5 = spec.megabyte %4 {global = {heads = 2 : i64, lsh = #spec.lsh<buckets = 4, chunk = 128, hashes = 2, causal = true>}, layers = [1, 1], local = {heads = 2 : i64, lsh = #spec.lsh<buckets = 4, chunk = 128, hashes = 2, causal = true>}, patch = 4 : i64, path = "stages.5", width = 16 : i64} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.block_transformer{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %6 = spec.block_transformer %5 {block = 4 : i64, global = {heads = 2 : i64, lsh = #spec.lsh<buckets = 4, chunk = 128, hashes = 2, causal = true>}, layers = [1, 1], local = {heads = 2 : i64, lsh = #spec.lsh<buckets = 4, chunk = 128, hashes = 2, causal = true>}, path = "stages.6"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.spacebyte{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %7 = spec.spacebyte %6 {global = {heads = 2 : i64, lsh = #spec.lsh<buckets = 4, chunk = 128, hashes = 2, causal = true>}, layers = [1, 1, 1], local = {heads = 2 : i64, lsh = #spec.lsh<buckets = 4, chunk = 128, hashes = 2, causal = true>}, path = "stages.7"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.hnet{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %8 = spec.hnet %7 {boundaries = [{name = "a"}, {name = "b"}], global = {heads = 2 : i64, lsh = #spec.lsh<buckets = 4, chunk = 128, hashes = 2, causal = true>}, layers = [1, [1, 1, 1], 1], local = {heads = 2 : i64, lsh = #spec.lsh<buckets = 4, chunk = 128, hashes = 2, causal = true>}, path = "stages.8", width = array<i64: 8, 16>} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.blt{{.*}} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
  %9 = spec.blt %8 {boundaries = {loss = "next", predictor = 3 : i64, rule = #spec<rule entropy>, threshold = 1.500000e+00 : f64}, global = {heads = 2 : i64, scales = [#spec.scale<factor = 2, moving = true, mask = <tokens to 8>>]}, layers = [1, 1, 1], local = {heads = 2 : i64, lsh = #spec.lsh<buckets = 4, chunk = 128, hashes = 2, causal = true>}, path = "stages.9"} : (!spec.stream<tokens, 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.head{{.*}} : (!spec.stream<tokens, 8>) -> ()
  spec.head %9 {first = 31 : i64, path = "stages.10", weights = "weights"} : (!spec.stream<tokens, 8>) -> ()
// CHECK: spec.weight @stages.10.weight {{.*}}frozen{{.*}}parameter = "stages.10.packed"
  spec.weight @stages.10.weight {decay, deviation = 2.000000e-02 : f64, frozen, initial = #spec<initial normal>, parameter = "stages.10.packed", path = "stages.10", shape = array<i64: 256, 8>}
}

// CHECK: spec.model
spec.model attributes {batch = 2 : i64, length = 32 : i64, name = "edges", vocabulary = 256 : i64, width = 8 : i64} {
// CHECK: spec.input @source
  spec.input @source {length = 7 : i64, type = #spec<contents tokens>, vocabulary = 256 : i64}
// CHECK: spec.input @links {capacity = 5 : i64, on = "source", type = #spec<contents edges>}
  spec.input @links {capacity = 5 : i64, on = "source", type = #spec<contents edges>}
// CHECK: spec.embedding
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
// CHECK: spec.embedding
  %1 = spec.embedding {input = "source", path = "stages.1"} : () -> !spec.stream<input("source"), 8>
// CHECK: spec.graph_convolution{{.*}}edges = "links", method = #spec<graph_method mean>{{.*}} : (!spec.stream<input("source"), 8>) -> !spec.stream<input("source"), 8>
  %2 = spec.graph_convolution %1 {edges = "links", method = #spec<graph_method mean>, path = "stages.2"} : (!spec.stream<input("source"), 8>) -> !spec.stream<input("source"), 8>
// CHECK: spec.layer
  %3 = spec.layer %0, %2 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, mask = #spec.mask<bidirectional>, path = "stages.3"} : (!spec.stream<tokens, 8>, !spec.stream<input("source"), 8>) -> !spec.stream<tokens, 8>
// CHECK: spec.head
  spec.head %3 {path = "stages.4"} : (!spec.stream<tokens, 8>) -> ()
}

// CHECK: spec.model
spec.model attributes {batch = 2 : i64, length = 32 : i64, name = "words", vocabulary = 256 : i64, width = 8 : i64} {
  spec.input @source {length = 7 : i64, type = #spec<contents tokens>, vocabulary = 256 : i64}
  spec.input @ends {on = "source", type = #spec<contents tokens>, vocabulary = 2 : i64}
// CHECK: spec.input @links {on = "ends", pattern = #spec<edge_pattern random>, type = #spec<contents edges>}
  spec.input @links {on = "ends", pattern = #spec<edge_pattern random>, type = #spec<contents edges>}
  %0 = spec.embedding {path = "stages.0"} : () -> !spec.stream<tokens, 8>
  %1 = spec.embedding {input = "source", path = "stages.1"} : () -> !spec.stream<input("source"), 8>
  %2 = spec.boundaries %1 {bits = "ends", name = "words", path = "stages.2", rule = #spec<rule bits>} : (!spec.stream<input("source"), 8>) -> !spec.segmentation<"words" of <input("source"), 8>>
// CHECK: spec.graph_convolution %{{.*}}, %{{.*}} {
  %3 = spec.graph_convolution %1, %2 {path = "stages.3"} : (!spec.stream<input("source"), 8>, !spec.segmentation<"words" of <input("source"), 8>>) -> !spec.stream<input("source"), 8>
  %4 = spec.shorten %3, %2 {method = #spec<shorten_method normalized>, path = "stages.4"} : (!spec.stream<input("source"), 8>, !spec.segmentation<"words" of <input("source"), 8>>) -> !spec.stream<input("words"), 8>
// CHECK: spec.rectified_attention{{.*}}vectors = 3
  %5 = spec.rectified_attention %3, %4 {head_size = 4 : i64, heads = 2 : i64, path = "stages.5", vectors = 3 : i64} : (!spec.stream<input("source"), 8>, !spec.stream<input("words"), 8>) -> !spec.stream<input("source"), 8>
// CHECK: spec.umst{{.*}}edges = "links"{{.*}}graph_maps = #spec<graph_maps layers>{{.*}}inter = #spec<graph_use pooling>
  %6 = spec.umst %5, %2 {count = 2 : i64, edges = "links", graph_maps = #spec<graph_maps layers>, heads = 2 : i64, inter = #spec<graph_use pooling>, path = "stages.6"} : (!spec.stream<input("source"), 8>, !spec.segmentation<"words" of <input("source"), 8>>) -> !spec.stream<input("source"), 8>
// CHECK: spec.tnt{{.*}}shared_layers = true
  %7 = spec.tnt %6, %2 {count = 2 : i64, heads = 2 : i64, path = "stages.7", shared_layers = true} : (!spec.stream<input("source"), 8>, !spec.segmentation<"words" of <input("source"), 8>>) -> !spec.stream<input("source"), 8>
// CHECK: spec.multi_stage{{.*}}layers = [2, 2, 2]{{.*}} -> !spec.stream<input("words"), 8>
  %8 = spec.multi_stage %7, %2 {edges = "links", heads = 2 : i64, layers = [2, 2, 2], path = "stages.8"} : (!spec.stream<input("source"), 8>, !spec.segmentation<"words" of <input("source"), 8>>) -> !spec.stream<input("words"), 8>
  %9 = spec.layer %0, %8 {feed_forward = 32 : i64, head_size = 4 : i64, heads = 2 : i64, key_value_heads = 2 : i64, mask = #spec.mask<bidirectional>, path = "stages.9"} : (!spec.stream<tokens, 8>, !spec.stream<input("words"), 8>) -> !spec.stream<tokens, 8>
  spec.head %9 {path = "stages.10"} : (!spec.stream<tokens, 8>) -> ()
}
