// Attention forward on tensor cores: a block of queries stays, blocks of keys and values come one ahead of their use. Scores never leave
// registers: their exponentials are the factors of the second product.
// RUN: sluice-opt %s --sluice-generate-kernels=target=sm_80 | FileCheck %s

// CHECK-LABEL: func.func @{{[a-z]+_[0-9a-f]+}}(
// CHECK:         nvvm.cp.async.commit.group
// CHECK:         %[[QUERIES:.*]] = nvvm.ldmatrix
// CHECK:         nvvm.cp.async.wait.group 0
// CHECK-NEXT:    nvvm.barrier0
// The next block of keys and values.
// CHECK-COUNT-2: nvvm.cp.async.shared.global
// CHECK:         nvvm.cp.async.commit.group
// Scores, their greatest by row across the threads that hold it, exponentials of base 2.
// CHECK-COUNT-8: nvvm.mma.sync
// CHECK-COUNT-4: nvvm.shfl.sync{{ +}}bfly
// CHECK-COUNT-8: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f32"
// CHECK-COUNT-8: nvvm.mma.sync

#domain = #dispatch.domain<batch = 1, positions = 128, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 128 : i64} {
  func.func @forward(%x: tensor<1x128x48xbf16>) {
    %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 16 : i64,
        query_column = 0 : i64, key_column = 16 : i64, value_column = 32 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      dispatch.yield %s : f32
    } : (tensor<1x128x48xbf16>, tensor<1x128x48xbf16>, tensor<1x128x48xbf16>) -> (tensor<1x128x16xbf16>, tensor<1x128x1xf32>)
    return
  }
}
