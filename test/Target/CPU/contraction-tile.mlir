// A contraction's tile is as many rows as registers hold the sums of, two vectors wide. The weight's columns are laid side by side
// first, in panels of two vectors. With 16 registers a tile has 5 rows, with 32 it has 12; each row's factor is broadcast.
// RUN: sluice-opt %s --sluice-generate-kernels=target=cpu-avx2 | FileCheck %s --check-prefix=AVX2
// RUN: sluice-opt %s --sluice-generate-kernels=target=cpu-avx512 | FileCheck %s --check-prefix=AVX512

// AVX2-LABEL: func.func @{{[a-z]+_[0-9a-f]+}}_cpu_avx2(
// AVX2:         scf.for %{{.*}} to %{{.*}} step %c5
// AVX2:         %[[SUMS:.*]]:10 = scf.for %[[K:.*]] = {{.*}} iter_args({{.*}}) -> (vector<8xf32>, vector<8xf32>,
// AVX2:           %[[LEFT:.*]] = vector.load %{{.*}} : memref<{{.*}}x64x16xf32>, vector<8xf32>
// AVX2:           %[[RIGHT:.*]] = vector.load %{{.*}} : memref<{{.*}}x64x16xf32>, vector<8xf32>
// AVX2:           %[[FACTOR:.*]] = memref.load %{{.*}} : memref<128x64xf32>
// AVX2-NEXT:      %[[WIDE:.*]] = vector.broadcast %[[FACTOR]] : f32 to vector<8xf32>
// AVX2-NEXT:      vector.fma %[[WIDE]], %[[LEFT]],
// AVX2-NEXT:      vector.fma %[[WIDE]], %[[RIGHT]],

// AVX512-LABEL: func.func @{{[a-z]+_[0-9a-f]+}}_cpu_avx512(
// AVX512:         scf.for %{{.*}} to %{{.*}} step %c12
// AVX512:         %{{.*}}:24 = scf.for %{{.*}} iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>,
// AVX512-COUNT-24:  vector.fma %{{.*}} : vector<16xf32>
// AVX512-NEXT:      scf.yield

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 128, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 128 : i64} {
  func.func @linear(%x: tensor<1x128x64xf32>, %w: tensor<128x64xf32>) {
    %y = dispatch.contract %x, %w attributes {domain = #domain, accesses = [], result_accesses = [#row]} {
    ^bb0(%a: f32):
      dispatch.yield %a : f32
    } : (tensor<1x128x64xf32>, tensor<128x64xf32>) -> tensor<1x128x128xf32>
    return
  }
}
