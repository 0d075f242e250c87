// Windows of another size than their step: their backward ops, and the rows and columns of each
// read.
// RUN: sluice-opt %s --sluice-differentiate | FileCheck %s
// RUN: sluice-opt %s --sluice-differentiate --sluice-form-dispatches | FileCheck %s --check-prefix=ROWS

// A row belongs to several windows of 3: windows of the moving average are summed, windows of the fold and of the maximum overlap,
// on the coarse scale, so that the opposite shift may read past the end.
// CHECK-LABEL: func.func @gradient(
// CHECK:         %[[MOVING:.*]] = sluice.shorten %{{.*}} factor 1 window 3 :
// CHECK:         %[[SHIFTED:.*]] = sluice.shift %[[MOVING]] by 1
// CHECK:         sluice.fold %[[SHIFTED]] factor 2 window 3
// CHECK:         %[[DF:.*]] = sluice.linear_input_gradient
// CHECK-NEXT:    %[[GROUPS:.*]] = sluice.overlap_add %[[DF]] factor 2 window 3 {{.*}} -> !sluice.seq<@coarse, 8, f32>
// CHECK-NEXT:    %[[UNFOLDED:.*]] = sluice.unfold %[[GROUPS]] factor 2
// CHECK-NEXT:    sluice.shift %[[UNFOLDED]] by -1
// CHECK:         %[[AHEAD:.*]] = sluice.shift %{{.*}} by -2
// CHECK-NEXT:    sluice.shorten %[[AHEAD]] factor 1 window 3 sum

// Window m ends where group m of the shifted rows does. The part of window m + 1 in group m begins a row before its columns.
// ROWS-LABEL: func.func @gradient(
// ROWS:         dispatch.rows %{{.*}} attributes {accesses = [#dispatch.access<row[p * 2 + i - 2], group = 3, factor = 1>
// ROWS:         dispatch.rows %[[DW:.*]], %[[DW]] attributes {accesses = [#dispatch.access<row, group = 2, factor = 2, column = (i + 1) * 4>, #dispatch.access<row[p + 1], group = 2, factor = 2, column = (i - 1) * 4>]
// ROWS-NEXT:    ^bb0(%[[A:[^:]*]]: tensor<2x4xf32>, %[[B:[^:]*]]: tensor<2x4xf32>):
// ROWS-NEXT:      %[[SUM:.*]] = arith.addf %[[A]], %[[B]]
// ROWS-NEXT:      dispatch.yield %[[SUM]]

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.scale @coarse on @tokens factor 2
  sluice.parameter @table : tensor<7x4xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @weight : tensor<4x12xf32> {names = ["weight"], sizes = array<i64: 4>, initial = "normal", decay}
  func.func @evaluate(%tokens: !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32> {
    %table = sluice.read @table : tensor<7x4xf32>
    %weight = sluice.read @weight : tensor<4x12xf32>
    %x = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x4xf32>) -> !sluice.seq<@fine, 4, f32>
    %m = sluice.shorten %x factor 1 window 3 : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@fine, 4, f32>
    %s = sluice.shift %m by 1 : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@fine, 4, f32>
    %f = sluice.fold %s factor 2 window 3 : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@coarse, 12, f32>
    %l = sluice.linear %f, %weight : (!sluice.seq<@coarse, 12, f32>, tensor<4x12xf32>) -> !sluice.seq<@coarse, 4, f32>
    %u = sluice.upsample %l factor 2 : (!sluice.seq<@coarse, 4, f32>) -> !sluice.seq<@fine, 4, f32>
    %y = sluice.map(%x, %u) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.mulf %a, %b : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>) -> !sluice.seq<@fine, 4, f32>
    %losses = sluice.cross_entropy %y, %table, %tokens {offset = 1 : i64} : (!sluice.seq<@fine, 4, f32>, tensor<7x4xf32>, !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32>
    return %losses : !sluice.seq<@fine, 0, f32>
  }
}
