// Attention of a step has few queries: its schedule gives, from memory, their first position, their number, and the length of the sequence.
// Nothing has the size of all scores.
// RUN: sluice-opt %s --sluice-generate-kernels=target=cpu-avx2 | FileCheck %s

// CHECK-LABEL: func.func @{{[a-z]+_[0-9a-f]+}}_cpu_avx2(
// CHECK-NOT:     memref<128x128xf32>
// CHECK:         %[[SCHEDULE:.*]] = memref.view {{.*}} to memref<1x3xi64>
// CHECK-NOT:     memref<128x128xf32>
// CHECK:         memref.load %[[SCHEDULE]]
// CHECK:         memref.load %[[SCHEDULE]]
// CHECK:         memref.load %[[SCHEDULE]]
// CHECK:         return

#domain = #dispatch.domain<batch = 1, positions = 128, factor = 1, scheduled = true>
module attributes {sluice.batch = 1 : i64, sluice.context = 128 : i64} {
  func.func @step(%x: tensor<1x128x48xf32>, %schedule: tensor<1x3xi64>) {
    %o, %l = dispatch.attention %x, %x, %x, %schedule attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 16 : i64,
        query_column = 0 : i64, key_column = 16 : i64, value_column = 32 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      dispatch.yield %s : f32
    } : (tensor<1x128x48xf32>, tensor<1x128x48xf32>, tensor<1x128x48xf32>, tensor<1x3xi64>) -> (tensor<1x128x16xf32>, tensor<1x128x1xf32>)
    return
  }
}
