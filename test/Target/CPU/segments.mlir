// Kernels for segments: one scan over a text's bits, which carries how many there were, and sums of the rows between two ends.
// RUN: split-file %s %t
// RUN: sluice-opt %t/scan.mlir --sluice-generate-kernels=target=cpu-avx2 | FileCheck %s --check-prefix=SCAN
// RUN: sluice-opt %t/range.mlir --sluice-generate-kernels=target=cpu-avx2 | FileCheck %s --check-prefix=RANGE

// SCAN:      %[[BITS:.*]] = scf.for %[[ROW:.*]] = %{{.*}} to %c64{{[_0-9]*}} step %{{.*}} iter_args(%[[BEFORE:.*]] = %c0
// SCAN:        %[[BIT:.*]] = arith.cmpf ogt,
// SCAN:        %[[IS:.*]] = arith.andi %[[BIT]],
// A bit beyond the axis's rows has no end.
// SCAN:        %[[FITS:.*]] = arith.cmpi slt, %[[BEFORE]], %c16
// SCAN:        %[[END:.*]] = arith.andi %[[IS]], %[[FITS]] : i1
// SCAN:        scf.if %[[END]] {
// SCAN:          %[[PLACE:.*]] = arith.index_cast %[[ROW]] : index to i32
// SCAN:          memref.store %[[PLACE]], %{{.*}}[%{{.*}}, %[[BEFORE]]] : memref<2x16xi32>
// SCAN:        %[[ONE:.*]] = arith.select %[[IS]],
// SCAN:        %[[COUNT:.*]] = arith.addi %[[BEFORE]], %[[ONE]]
// SCAN:        memref.store %{{.*}} : memref<2x64xi32>
// SCAN:        scf.yield %[[COUNT]] : index
// SCAN:      %[[TOTAL:.*]] = arith.index_cast %[[BITS]] : index to i32
// SCAN:      memref.store %[[TOTAL]], %{{.*}} : memref<2x2xi32>

// RANGE:     %[[FIRST:.*]] = arith.maxsi %{{.*}}, %c0
// RANGE:     %[[LAST:.*]] = arith.minsi
// RANGE:     %[[SUM:.*]]:2 = scf.for %{{.*}} = %[[FIRST]] to %[[LAST]] step %{{.*}} iter_args(%[[LEFT:.*]] = %{{.*}}, %[[RIGHT:.*]] = %{{.*}}) -> (vector<8xf32>, vector<8xf32>)
// RANGE:       arith.addf %[[LEFT]],
// RANGE:       arith.addf %[[RIGHT]],
// RANGE:     vector.store %[[SUM]]#0,
// RANGE:     vector.store %[[SUM]]#1,

//--- scan.mlir
#rows = #dispatch.domain<batch = 2, positions = 64, factor = 1>
module attributes {sluice.batch = 2 : i64, sluice.context = 64 : i64} {
  func.func @scan(%bits: tensor<2x64x1xf32>) {
    %c:3 = dispatch.segment_scan %bits attributes {domain = #rows} : (tensor<2x64x1xf32>) -> (tensor<2x64xi32>, tensor<2x16xi32>, tensor<2x2xi32>)
    return
  }
}
//--- range.mlir
#row = #dispatch.access<row>
#before = #dispatch.access<row[p - 1], extended>
#own = #dispatch.access<row, extended>
#range = #dispatch.access<range, factor = 1, index = 0, last = 1>
#words = #dispatch.domain<batch = 2, positions = 16, factor = 0>
module attributes {sluice.batch = 2 : i64, sluice.context = 64 : i64} {
  func.func @sums(%ends: tensor<2x16xi32>, %x: tensor<2x64x16xf32>) {
    %y = dispatch.rows %ends, %ends, %x attributes {domain = #words, accesses = [#before, #own, #range], result_accesses = [#row]} {
    ^bb0(%a: i32, %b: i32, %sum: tensor<16xf32>):
      dispatch.yield %sum : tensor<16xf32>
    } : (tensor<2x16xi32>, tensor<2x16xi32>, tensor<2x64x16xf32>) -> tensor<2x16x16xf32>
    return
  }
}
