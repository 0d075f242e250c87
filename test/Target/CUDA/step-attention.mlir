// Attention of a step has few queries and no use for tensor cores: threads share the keys, keep running sums of their own, and join these
// by shuffles and over shared memory.
// RUN: sluice-opt %s --sluice-generate-kernels=target=sm_80 | FileCheck %s

// CHECK-LABEL: func.func @{{[a-z]+_[0-9a-f]+}}(
// CHECK-SAME:    ["nvvm.reqntid", "256"]
// CHECK-NOT:     nvvm.mma.sync
// CHECK:         %[[SCHEDULE:.*]] = memref.view {{.*}} to memref<1x3xi64>
// CHECK-COUNT-3: memref.load %[[SCHEDULE]]
// CHECK-NOT:     nvvm.mma.sync
// CHECK:         scf.for {{.*}} iter_args(
// CHECK:           nvvm.shfl.sync{{ +}}bfly
// CHECK:           math.exp
// CHECK:         nvvm.barrier0
// CHECK-NOT:     nvvm.mma.sync
// CHECK:         return

#domain = #dispatch.domain<batch = 1, positions = 128, factor = 1, scheduled = true>
module attributes {sluice.batch = 1 : i64, sluice.context = 128 : i64} {
  func.func @step(%x: tensor<1x128x48xbf16>, %schedule: tensor<1x3xi64>) {
    %o, %l = dispatch.attention %x, %x, %x, %schedule attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 16 : i64,
        query_column = 0 : i64, key_column = 16 : i64, value_column = 32 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      dispatch.yield %s : f32
    } : (tensor<1x128x48xbf16>, tensor<1x128x48xbf16>, tensor<1x128x48xbf16>, tensor<1x3xi64>) -> (tensor<1x128x16xbf16>, tensor<1x128x1xf32>)
    return
  }
}
