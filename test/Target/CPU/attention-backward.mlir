// Attention backward, one pass over pairs of blocks: scores again, and the products of the output's gradient with the values, side by
// side; then dV, dK and dQ, each a matmul. Nothing of the size of all scores is stored.
// RUN: sluice-opt %s --sluice-generate-kernels=target=cpu-avx2 | FileCheck %s

// CHECK-LABEL: func.func @{{[a-z]+_[0-9a-f]+}}_cpu_avx2(
// CHECK-NOT:     memref<128x128xf32>
// CHECK:           scf.for %{{.*}} step %c32{{[_0-9]*}} {
// CHECK:             scf.if %{{.*}} {
// Queries times keys, and gradients times values.
// CHECK-COUNT-2:         %{{.*}}:12 = scf.for {{.*}} -> (vector<8xf32>,
// dV and dK.
// CHECK-COUNT-2:         %{{.*}}:12 = scf.for {{.*}} -> (vector<8xf32>,
// CHECK-NOT:     memref<128x128xf32>
// CHECK:         return

#domain = #dispatch.domain<batch = 1, positions = 128, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 128 : i64} {
  func.func @backward(%x: tensor<1x128x48xf32>, %o: tensor<1x128x16xf32>, %l: tensor<1x128x1xf32>) {
    %dx = dispatch.attention_backward %x, %x, %x, %o, %l, %o attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64,
        head_size = 16 : i64, query_column = 0 : i64, key_column = 16 : i64, value_column = 32 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      dispatch.yield %s : f32
    } derivative {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
      dispatch.yield %g : f32
    } : (tensor<1x128x48xf32>, tensor<1x128x48xf32>, tensor<1x128x48xf32>, tensor<1x128x16xf32>, tensor<1x128x1xf32>, tensor<1x128x16xf32>) -> tensor<1x128x48xf32>
    return
  }
}
