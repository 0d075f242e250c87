// Where a CPU has AMX tiles, a contraction of bf16 has blocks of 2 x 2 tiles of sums. The weight's columns are packed as pairs along K,
// and rows are read in place. With a K that is no multiple of 32, rows are copied to scratch, with zeros up to the next one.
// RUN: sluice-opt %s --sluice-generate-kernels=target=cpu-amx | FileCheck %s

// CHECK-LABEL: func.func @{{[a-z]+_[0-9a-f]+}}_cpu_amx(
// CHECK:         %[[INPUT:.*]] = memref.view %{{.*}} to memref<128x64xi16>
// CHECK:         %[[PACKED:.*]] = memref.view %{{.*}} to memref<{{.*}}x32x32xi32>
// CHECK:         %[[SUMS:.*]] = memref.view %{{.*}} to memref<32x32xf32>
// CHECK:         scf.for %{{.*}} to %{{.*}} step %c32
// CHECK-COUNT-4:   amx.tile_zero : !amx.tile<16x16xf32>
// CHECK:           %[[TILES:.*]]:4 = scf.for %[[PAIR:.*]] = {{.*}} step %c16{{.*}} iter_args(
// CHECK:             %[[TOP:.*]] = amx.tile_load %[[INPUT]]{{.*}} into !amx.tile<16x32xbf16>
// CHECK:             %[[LEFT:.*]] = amx.tile_load %[[PACKED]][%{{.*}}, %[[PAIR]], %c0{{.*}}] : {{.*}} into !amx.tile<16x32xbf16>
// CHECK-NEXT:        amx.tile_mulf %[[TOP]], %[[LEFT]], %{{.*}} : !amx.tile<16x32xbf16>, !amx.tile<16x32xbf16>, !amx.tile<16x16xf32>
// CHECK:             %[[RIGHT:.*]] = amx.tile_load %[[PACKED]]
// CHECK-NEXT:        amx.tile_mulf %[[TOP]], %[[RIGHT]]
// CHECK:             %[[BOTTOM:.*]] = amx.tile_load %[[INPUT]]
// CHECK-NEXT:        amx.tile_mulf %[[BOTTOM]], %[[LEFT]]
// CHECK-NEXT:        amx.tile_mulf %[[BOTTOM]], %[[RIGHT]]
// CHECK-NEXT:        scf.yield
// CHECK-COUNT-4:   amx.tile_store %[[SUMS]]

// CHECK-LABEL: func.func @{{[a-z]+_[0-9a-f]+}}_cpu_amx(
// CHECK:         %[[COPY:.*]] = memref.view %{{.*}} to memref<32x64xi16>
// CHECK-NOT:     amx.tile_load %{{.*}} : memref<128x
// CHECK:         amx.tile_load %[[COPY]]

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 128, factor = 1>
module attributes {sluice.batch = 1 : i64, sluice.context = 128 : i64} {
  func.func @whole(%x: tensor<1x128x64xbf16>, %w: tensor<128x64xbf16>) {
    %y = dispatch.contract %x, %w attributes {domain = #domain, accesses = [], result_accesses = [#row]} {
    ^bb0(%a: f32):
      dispatch.yield %a : f32
    } : (tensor<1x128x64xbf16>, tensor<128x64xbf16>) -> tensor<1x128x128xbf16>
    return
  }
  func.func @padded(%x: tensor<1x128x40xbf16>, %w: tensor<128x40xbf16>) {
    %y = dispatch.contract %x, %w attributes {domain = #domain, accesses = [], result_accesses = [#row]} {
    ^bb0(%a: f32):
      dispatch.yield %a : f32
    } : (tensor<1x128x40xbf16>, tensor<128x40xbf16>) -> tensor<1x128x128xbf16>
    return
  }
}
