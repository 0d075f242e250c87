// A contraction's blocks have as many packed columns as half of a core's L2 cache holds, here panels of 2,048 x 32 f32 (256 KiB).
// RUN: sluice-opt %s --sluice-generate-kernels="target=cpu-avx512 l2-bytes=524288" | FileCheck %s --check-prefix=SMALL
// RUN: sluice-opt %s --sluice-generate-kernels="target=cpu-avx512 l2-bytes=2097152" | FileCheck %s --check-prefix=LARGE

// SMALL-LABEL: func.func @{{[a-z]+_[0-9a-f]+}}_cpu_avx512(
// SMALL:         memref.view %{{.*}} to memref<1x2048x32xf32>

// LARGE-LABEL: func.func @{{[a-z]+_[0-9a-f]+}}_cpu_avx512(
// LARGE:         memref.view %{{.*}} to memref<4x2048x32xf32>

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 2064, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 2064 : i64} {
  func.func @linear(%x: tensor<1x2064x2048xf32>, %w: tensor<512x2048xf32>) {
    %y = dispatch.contract %x, %w attributes {domain = #domain, accesses = [], result_accesses = [#row]} {
    ^bb0(%a: f32):
      dispatch.yield %a : f32
    } : (tensor<1x2064x2048xf32>, tensor<512x2048xf32>) -> tensor<1x2064x512xf32>
    return
  }
}
