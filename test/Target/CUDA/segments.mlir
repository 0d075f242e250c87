// The scan is one warp a text: 32 bits by one ballot, and a thread's count is the number of bits up to its own. Sums between two ends are a
// loop of each thread over its columns.
// RUN: split-file %s %t
// RUN: sluice-opt %t/scan.mlir --sluice-generate-kernels=target=sm_80 | FileCheck %s --check-prefix=SCAN
// RUN: sluice-opt %t/range.mlir --sluice-generate-kernels=target=sm_80 | FileCheck %s --check-prefix=RANGE

// SCAN:      func.func @{{[a-z]+_[0-9a-f]+}}(
// SCAN-SAME:   ["nvvm.reqntid", "32"]
// SCAN:      %[[LANE:.*]] = arith.shli
// SCAN:      %[[OWN:.*]] = arith.subi %[[LANE]],
// SCAN:      scf.for {{.*}} step %c256{{[_0-9]*}} iter_args(%[[BEFORE:.*]] = %c0_i32
// SCAN:        %[[BITS:.*]] = nvvm.vote.sync ballot
// SCAN:        %[[EARLIER:.*]] = arith.andi %[[BITS]], %[[OWN]]
// SCAN:        math.ctpop %[[EARLIER]]
// SCAN:        math.ctpop %[[BITS]]
// SCAN-COUNT-7: nvvm.vote.sync ballot

// RANGE:     func.func @{{[a-z]+_[0-9a-f]+}}(
// RANGE:     %[[SUM:.*]] = scf.for {{.*}} iter_args(%[[BEFORE:.*]] = %{{.*}}) -> (vector<8xf32>)
// RANGE:       %[[ROW:.*]] = arith.extf %{{.*}} : vector<8xbf16> to vector<8xf32>
// RANGE:       arith.addf %[[BEFORE]], %[[ROW]]
// RANGE:     arith.truncf %[[SUM]]

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
  func.func @sums(%ends: tensor<2x16xi32>, %x: tensor<2x64x16xbf16>) {
    %y = dispatch.rows %ends, %ends, %x attributes {domain = #words, accesses = [#before, #own, #range], result_accesses = [#row]} {
    ^bb0(%a: i32, %b: i32, %sum: tensor<16xf32>):
      dispatch.yield %sum : tensor<16xf32>
    } : (tensor<2x16xi32>, tensor<2x16xi32>, tensor<2x64x16xbf16>) -> tensor<2x16x16xbf16>
    return
  }
}
