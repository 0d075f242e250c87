// Attention backward is two kernels in one launch: one a block of queries, for dQ, one a block of keys, for dK and dV. So no gradient is
// added up by several blocks, and sums have one order.
// RUN: sluice-opt %s --sluice-generate-kernels=target=sm_80 | FileCheck %s --implicit-check-not=atomic

// CHECK-LABEL: func.func @attention_{{[0-9a-f]+}}_queries(
// Scores, and gradients times values; then dQ.
// CHECK-COUNT-16: nvvm.mma.sync
// CHECK-LABEL: func.func @attention_{{[0-9a-f]+}}_keys(
// CHECK:         nvvm.mma.sync

#domain = #dispatch.domain<batch = 1, positions = 128, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 128 : i64} {
  func.func @backward(%x: tensor<1x128x48xbf16>, %o: tensor<1x128x16xbf16>, %l: tensor<1x128x1xf32>) {
    %dx = dispatch.attention_backward %x, %x, %x, %o, %l, %o attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64,
        head_size = 16 : i64, query_column = 0 : i64, key_column = 16 : i64, value_column = 32 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      dispatch.yield %s : f32
    } derivative {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
      dispatch.yield %g : f32
    } : (tensor<1x128x48xbf16>, tensor<1x128x48xbf16>, tensor<1x128x48xbf16>, tensor<1x128x16xbf16>, tensor<1x128x1xf32>, tensor<1x128x16xbf16>) -> tensor<1x128x48xbf16>
    return
  }
}
