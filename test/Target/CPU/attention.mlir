// Attention forward: blocks of 32 queries against blocks of 32 keys, none of which the mask leaves out whole; the scores are a matmul
// of their own, and a row's greatest score and its sum of exponentials are carried from block to block.
// RUN: sluice-opt %s --sluice-generate-kernels=target=cpu-avx2 | FileCheck %s

// CHECK-LABEL: func.func @{{[a-z]+_[0-9a-f]+}}_cpu_avx2(
// CHECK:         scf.for %{{.*}} to %{{.*}} step %c2_
// The queries of a block, transposed.
// CHECK:           scf.for %{{.*}} to %c32{{[_0-9]*}} step %c8
// The blocks of keys.
// CHECK:           scf.for %{{.*}} step %c32{{[_0-9]*}} {
// CHECK:             scf.if %{{.*}} {
// Scores: 6 keys by 16 queries.
// CHECK:               scf.for %{{.*}} to %c32{{[_0-9]*}} step %c16
// CHECK:                 %{{.*}}:12 = scf.for {{.*}} -> (vector<8xf32>,
// CHECK-COUNT-12:          math.fma %{{.*}} : vector<8xf32>
// Sums of exponentials, with the greatest score so far.
// CHECK:             %{{.*}}:4 = scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// Values, added to the sums of earlier blocks.
// CHECK:             scf.for %{{.*}} step %c6

#domain = #dispatch.domain<batch = 1, positions = 128, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 128 : i64} {
  func.func @forward(%x: tensor<1x128x48xf32>) {
    %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 16 : i64,
        query_column = 0 : i64, key_column = 16 : i64, value_column = 32 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      dispatch.yield %s : f32
    } : (tensor<1x128x48xf32>, tensor<1x128x48xf32>, tensor<1x128x48xf32>) -> (tensor<1x128x16xf32>, tensor<1x128x1xf32>)
    return
  }
}
