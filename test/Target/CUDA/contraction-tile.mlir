// A contraction on tensor cores: both factors come to shared memory some steps ahead of their use, fragments are read by ldmatrix, and
// a warp's sums stay in registers.
// RUN: sluice-opt %s --sluice-generate-kernels=target=sm_80 | FileCheck %s

// CHECK-LABEL: func.func @{{[a-z]+_[0-9a-f]+}}(
// CHECK-SAME:    ["nvvm.reqntid", "128"]
// CHECK:         nvvm.cp.async.shared.global
// CHECK:         nvvm.cp.async.commit.group
// CHECK:         scf.for {{.*}} iter_args(
// CHECK:           nvvm.cp.async.wait.group 2
// CHECK-NEXT:      nvvm.barrier0
// CHECK:           nvvm.cp.async.shared.global
// CHECK:           nvvm.cp.async.commit.group
// CHECK:           %[[ROWS:.*]] = nvvm.ldmatrix {{.*}}num = 4
// CHECK:           nvvm.mma.sync A[{{.*}}] {{.*}}B[{{.*}}] {{.*}}C[
// CHECK-SAME:        shape = #nvvm.shape<m = 16, n = 8, k = 16>

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 128, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 128 : i64} {
  func.func @linear(%x: tensor<1x128x64xbf16>, %w: tensor<128x64xbf16>) {
    %y = dispatch.contract %x, %w attributes {domain = #domain, accesses = [], result_accesses = [#row]} {
    ^bb0(%a: f32):
      dispatch.yield %a : f32
    } : (tensor<1x128x64xbf16>, tensor<128x64xbf16>) -> tensor<1x128x128xbf16>
    return
  }
}
