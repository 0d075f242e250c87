// Where a CPU has AMX tiles, attention of bf16 multiplies blocks of 2 x 2 tiles of sums: keys by queries, then values by probabilities.
// Rows of keys are packed as pairs of columns and are not transposed; values are, as pairs of keys. Sums go through scratch, from which
// vectors of scores are read.
// RUN: sluice-opt %s --sluice-generate-kernels=target=cpu-amx | FileCheck %s

// CHECK-LABEL: func.func @{{[a-z]+_[0-9a-f]+}}_cpu_amx(
// CHECK:         %[[KEYS:.*]] = memref.view %arg3{{.*}} to memref<128x16xi32>
// CHECK:         %[[VALUES:.*]] = memref.view %arg3{{.*}} to memref<128x16xi32>
// CHECK:         %[[SUMS:.*]] = memref.view %arg3{{.*}} to memref<32x32xf32>
// CHECK:         %[[QUERIES:.*]] = memref.view %arg3{{.*}} to memref<16x32xi32>
// CHECK:         %[[PROBABILITIES:.*]] = memref.view %arg3{{.*}} to memref<16x32xi32>
// Scores once, for blocks that the mask cuts too.
// CHECK-COUNT-4:   amx.tile_zero : !amx.tile<16x16xf32>
// CHECK:           %[[TILES:.*]]:4 = scf.for %[[PAIR:.*]] = {{.*}} step %c16{{.*}} iter_args(
// CHECK:             %[[TOP:.*]] = amx.tile_load %[[KEYS]]{{.*}} into !amx.tile<16x32xbf16>
// CHECK:             %[[LEFT:.*]] = amx.tile_load %[[QUERIES]][%[[PAIR]], {{.*}} into !amx.tile<16x32xbf16>
// CHECK-NEXT:        amx.tile_mulf %[[TOP]], %[[LEFT]], %{{.*}} : !amx.tile<16x32xbf16>, !amx.tile<16x32xbf16>, !amx.tile<16x16xf32>
// CHECK:             %[[RIGHT:.*]] = amx.tile_load %[[QUERIES]]
// CHECK-NEXT:        amx.tile_mulf %[[TOP]], %[[RIGHT]]
// CHECK:             %[[BOTTOM:.*]] = amx.tile_load %[[KEYS]]
// CHECK-NEXT:        amx.tile_mulf %[[BOTTOM]], %[[LEFT]]
// CHECK-NEXT:        amx.tile_mulf %[[BOTTOM]], %[[RIGHT]]
// CHECK-COUNT-4:   amx.tile_store %[[SUMS]]
// CHECK-NOT:       amx.tile_load %[[KEYS]]
// Values, with zeros for keys up to the next whole tile.
// CHECK:           amx.tile_load %[[VALUES]]
// CHECK:           amx.tile_load %[[PROBABILITIES]]
// CHECK-COUNT-4:   amx.tile_store %[[SUMS]]
// CHECK-NOT:       amx.tile_mulf

#domain = #dispatch.domain<batch = 1, positions = 128, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 128 : i64} {
  func.func @forward(%x: tensor<1x128x96xbf16>) {
    %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 32 : i64,
        query_column = 0 : i64, key_column = 32 : i64, value_column = 64 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      dispatch.yield %s : f32
    } : (tensor<1x128x96xbf16>, tensor<1x128x96xbf16>, tensor<1x128x96xbf16>) -> (tensor<1x128x32xbf16>, tensor<1x128x1xf32>)
    return
  }
}
