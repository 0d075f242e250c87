// RUN: sluice-opt %s | sluice-opt | FileCheck %s

#table = #dispatch.access<table>
#row = #dispatch.access<row, factor = 1>
#group = #dispatch.access<row[p * 4 + i - 3], group = 4, factor = 1>
#vector = #dispatch.access<vector>


// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<2x16x8xf32>, %g: tensor<8xf32>) -> tensor<2x4x8xf32> {
  // CHECK: dispatch.rows %{{.*}}, %{{.*}} attributes
  // CHECK-SAME: #dispatch.access<row[p * 4 + i - 3], group = 4, factor = 1
  // CHECK-SAME: domain = #dispatch.domain<batch = 2, positions = 4, factor = 4>, draws_by_update
  // CHECK: dispatch.reduce_group add %{{.*}} : tensor<4x8xf32> -> tensor<8xf32>
  // CHECK: dispatch.spread %{{.*}} : tensor<8xf32> -> tensor<4x8xf32>
  // CHECK: dispatch.reduce add %{{.*}} : tensor<8xf32> -> f32
  // CHECK: dispatch.column : tensor<8xi32>
  // CHECK: dispatch.position
  // CHECK: dispatch.random {fixed_step, id = 1 : i64, width = 8 : i64} : tensor<8xf32>
  // CHECK: dispatch.yield %{{.*}} : tensor<8xf32>
  %y = dispatch.rows %x, %g attributes {domain = #dispatch.domain<batch = 2, positions = 4, factor = 4>,
      accesses = [#group, #vector], result_accesses = [#row], zero_invalid, draws_by_update} {
  ^bb0(%rows: tensor<4x8xf32>, %gain: tensor<8xf32>):
    %sum = dispatch.reduce_group add %rows : tensor<4x8xf32> -> tensor<8xf32>
    %sums = dispatch.spread %sum : tensor<8xf32> -> tensor<4x8xf32>
    %total = dispatch.reduce add %sum : tensor<8xf32> -> f32
    %column = dispatch.column : tensor<8xi32>
    %position = dispatch.position
    %random = dispatch.random {id = 1 : i64, width = 8 : i64, fixed_step} : tensor<8xf32>
    %scaled = arith.mulf %sum, %random : tensor<8xf32>
    dispatch.yield %scaled : tensor<8xf32>
  } : (tensor<2x16x8xf32>, tensor<8xf32>) -> tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
}

// CHECK-LABEL: func.func @contract
func.func @contract(%x: tensor<2x16x8xf32>, %w: tensor<5x8xf32>, %b: tensor<5xf32>) -> tensor<2x16x5xf32> {
  // CHECK: dispatch.contract %{{.*}}, %{{.*}}, %{{.*}} attributes
  %y = dispatch.contract %x, %w, %b attributes {domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
      accesses = [#vector], result_accesses = [#row]} {
  ^bb0(%acc: f32, %bias: f32):
    %sum = arith.addf %acc, %bias : f32
    dispatch.yield %sum : f32
  } : (tensor<2x16x8xf32>, tensor<5x8xf32>, tensor<5xf32>) -> tensor<2x16x5xf32>
  return %y : tensor<2x16x5xf32>
}

// CHECK-LABEL: func.func @contract_rotated
func.func @contract_rotated(%x: tensor<2x16x8xf32>, %w: tensor<6x8xf32>, %t: tensor<16x2xf32>) -> tensor<2x16x6xf32> {
  // CHECK: dispatch.contract %{{.*}}, %{{.*}}, %{{.*}} attributes {{.*}}rotated_columns = 4
  %y = dispatch.contract %x, %w, %t attributes {domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
      accesses = [#table], result_accesses = [#row], rotated_columns = 4 : i64} {
  ^bb0(%acc: f32):
    dispatch.yield %acc : f32
  } : (tensor<2x16x8xf32>, tensor<6x8xf32>, tensor<16x2xf32>) -> tensor<2x16x6xf32>
  return %y : tensor<2x16x6xf32>
}

// CHECK-LABEL: func.func @contract_grouped
func.func @contract_grouped(%x: tensor<2x1x40xf32>, %w: tensor<10x16xi8>, %scales: tensor<10xf32>, %s: tensor<2x3xi64>) -> tensor<2x1x5xf32> {
  // CHECK: dispatch.contract %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} attributes {{.*}}grouped
  %y = dispatch.contract %x, %w, %scales, %s attributes {domain = #dispatch.domain<batch = 2, positions = 1, factor = 1, scheduled = true>,
      accesses = [#vector], result_accesses = [#row], grouped} {
  ^bb0(%acc: f32):
    dispatch.yield %acc : f32
  } : (tensor<2x1x40xf32>, tensor<10x16xi8>, tensor<10xf32>, tensor<2x3xi64>) -> tensor<2x1x5xf32>
  return %y : tensor<2x1x5xf32>
}

// CHECK-LABEL: func.func @weight_gradient
func.func @weight_gradient(%dy: tensor<2x16x5xf32>, %x: tensor<2x16x8xf32>) -> (tensor<5x8xf32>, tensor<5xf32>) {
  // CHECK: dispatch.weight_gradient %{{.*}}, %{{.*}} attributes
  %w, %b = dispatch.weight_gradient %dy, %x attributes {domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
      operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 1>}
      : (tensor<2x16x5xf32>, tensor<2x16x8xf32>) -> (tensor<5x8xf32>, tensor<5xf32>)
  return %w, %b : tensor<5x8xf32>, tensor<5xf32>
}

// CHECK-LABEL: func.func @attention
func.func @attention(%x: tensor<2x16x12xf32>, %dy: tensor<2x16x4xf32>) -> tensor<2x16x12xf32> {
  // CHECK: dispatch.attention %{{.*}} attributes
  %o, %l = dispatch.attention %x, %x, %x attributes {domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
      heads = 2 : i64, kv_heads = 2 : i64, head_size = 2 : i64, query_column = 0 : i64, key_column = 4 : i64,
      value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } : (tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<2x16x12xf32>) -> (tensor<2x16x4xf32>, tensor<2x16x2xf32>)
  // CHECK: dispatch.attention_backward %{{.*}} attributes
  // CHECK: derivative {
  %dx = dispatch.attention_backward %x, %x, %x, %o, %l, %dy attributes {domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
      heads = 2 : i64, kv_heads = 2 : i64, head_size = 2 : i64, query_column = 0 : i64, key_column = 4 : i64,
      value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } derivative {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
    dispatch.yield %g : f32
  } : (tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<2x16x4xf32>, tensor<2x16x2xf32>, tensor<2x16x4xf32>) -> tensor<2x16x12xf32>
  return %dx : tensor<2x16x12xf32>
}

// Rows 0 and 1 of a step, two hypotheses of one line, read the keys of row 0.
// CHECK-LABEL: func.func @attention_of_a_line
func.func @attention_of_a_line(%x: tensor<2x1x4xf32>, %keys: tensor<2x5x8xf32>, %counts: tensor<2xi64>, %lines: tensor<2xi32>,
    %schedule: tensor<2x3xi64>) -> tensor<2x1x4xf32> {
  // CHECK: dispatch.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} attributes
  %o, %l = dispatch.attention %x, %keys, %keys, %counts, %lines, %schedule attributes {
      domain = #dispatch.domain<batch = 2, positions = 1, factor = 1, scheduled = true>,
      key_domain = #dispatch.domain<batch = 2, positions = 5, factor = 0>,
      heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64, key_column = 0 : i64, value_column = 4 : i64,
      mask = affine_set<(p, q)[n] : (q >= 0)>} {
  ^bb0(%score: f32, %p: i32, %q: i32, %head: i32):
    dispatch.yield %score : f32
  } : (tensor<2x1x4xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2xi64>, tensor<2xi32>, tensor<2x3xi64>)
      -> (tensor<2x1x4xf32>, tensor<2x1x1xf32>)
  return %o : tensor<2x1x4xf32>
}

// CHECK-LABEL: func.func @attention_between_scales
func.func @attention_between_scales(%x: tensor<2x16x4xf32>, %y: tensor<2x4x8xf32>) -> (tensor<2x16x4xf32>, tensor<2x4x8xf32>) {
  // CHECK: dispatch.attention %{{.*}} attributes {{.*}}key_domain = #dispatch.domain<batch = 2, positions = 4, factor = 4>
  %o, %l = dispatch.attention %x, %y, %y attributes {domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
      key_domain = #dispatch.domain<batch = 2, positions = 4, factor = 4>,
      heads = 2 : i64, kv_heads = 2 : i64, head_size = 2 : i64, query_column = 0 : i64, key_column = 0 : i64,
      value_column = 4 : i64, mask = affine_set<(p, q)[n] : (p - 4 * q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } : (tensor<2x16x4xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> (tensor<2x16x4xf32>, tensor<2x16x2xf32>)
  // CHECK: %{{.*}}:2 = dispatch.attention_backward
  %dx, %dy = dispatch.attention_backward %x, %y, %y, %o, %l, %o attributes {domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
      key_domain = #dispatch.domain<batch = 2, positions = 4, factor = 4>,
      heads = 2 : i64, kv_heads = 2 : i64, head_size = 2 : i64, query_column = 0 : i64, key_column = 0 : i64,
      value_column = 4 : i64, mask = affine_set<(p, q)[n] : (p - 4 * q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } derivative {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
    dispatch.yield %g : f32
  } : (tensor<2x16x4xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x16x4xf32>, tensor<2x16x2xf32>, tensor<2x16x4xf32>) -> (tensor<2x16x4xf32>, tensor<2x4x8xf32>)
  return %dx, %dy : tensor<2x16x4xf32>, tensor<2x4x8xf32>
}

// CHECK-LABEL: func.func @scatter
func.func @scatter(%t: tensor<2x17xi32>, %dy: tensor<2x16x8xf32>, %init: tensor<7x8xf32>) -> tensor<7x8xf32> {
  // CHECK: dispatch.scatter_rows %{{.*}}, %{{.*}}, %{{.*}} attributes
  %d = dispatch.scatter_rows %t, %dy, %init attributes {domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>}
      : (tensor<2x17xi32>, tensor<2x16x8xf32>, tensor<7x8xf32>) -> tensor<7x8xf32>
  return %d : tensor<7x8xf32>
}

// CHECK-LABEL: func.func @cross_entropy
func.func @cross_entropy(%x: tensor<2x16x8xf32>, %w: tensor<7x8xf32>, %t: tensor<2x17xi32>, %b: tensor<7xf32>)
    -> (tensor<2x16xf32>, tensor<2x16x8xf32>, tensor<7x8xf32>, tensor<7xf32>) {
  // CHECK: dispatch.cross_entropy %{{.*}}, %{{.*}}, %{{.*}} attributes
  %e = dispatch.cross_entropy %x, %w, %t attributes {domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
      offset = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0>}
      : (tensor<2x16x8xf32>, tensor<7x8xf32>, tensor<2x17xi32>) -> tensor<2x16xf32>
  // The incoming gradient of a mean is `factor` over the scored rows; any other is an operand.
  // CHECK: dispatch.cross_entropy %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} attributes
  // CHECK-SAME: first = 3 : i64, offset = 1 : i64
  // CHECK-SAME: smoothing = 1.000000e-01 : f32
  %l, %s, %dx = dispatch.cross_entropy %x, %w, %t, %b, %e attributes {domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
      offset = 1 : i64, first = 3 : i64, smoothing = 0.1 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>,
      resultSegmentSizes = array<i32: 1, 1, 1>} : (tensor<2x16x8xf32>, tensor<7x8xf32>, tensor<2x17xi32>, tensor<7xf32>, tensor<2x16xf32>)
      -> (tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16x8xf32>)
  // CHECK: dispatch.cross_entropy_weight_gradient %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} attributes
  %dw, %db = dispatch.cross_entropy_weight_gradient %x, %w, %t, %s, %b attributes {
      domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>, offset = 1 : i64,
      factor = 0.5 : f32, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0>} : (tensor<2x16x8xf32>, tensor<7x8xf32>, tensor<2x17xi32>,
      tensor<2x16xf32>, tensor<7xf32>) -> (tensor<7x8xf32>, tensor<7xf32>)
  return %l, %dx, %dw, %db : tensor<2x16xf32>, tensor<2x16x8xf32>, tensor<7x8xf32>, tensor<7xf32>
}

#greatest = #dispatch.access<row[p * 4 + i - 3], group = 4, factor = 1, outside = 0xFF800000 : f32>

// CHECK-LABEL: func.func @greatest
func.func @greatest(%x: tensor<2x16x8xf32>) -> tensor<2x4x8xf32> {
  // CHECK: #dispatch.access<row[p * 4 + i - 3], group = 4, factor = 1, outside = 0xFF800000 : f32>
  // CHECK: dispatch.reduce_group max %{{.*}} : tensor<4x8xf32> -> tensor<8xf32>
  %y = dispatch.rows %x attributes {domain = #dispatch.domain<batch = 2, positions = 4, factor = 4>,
      accesses = [#greatest], result_accesses = [#row]} {
  ^bb0(%rows: tensor<4x8xf32>):
    %max = dispatch.reduce_group max %rows : tensor<4x8xf32> -> tensor<8xf32>
    dispatch.yield %max : tensor<8xf32>
  } : (tensor<2x16x8xf32>) -> tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
}

#ones = #dispatch.access<row[p * 4 + i - 3], group = 4, factor = 1, outside = 1.0 : f32>

// CHECK-LABEL: func.func @product
func.func @product(%x: tensor<2x16x8xf32>) -> tensor<2x4x8xf32> {
  // CHECK: outside = 1.000000e+00 : f32>
  // CHECK: dispatch.reduce_group combine %{{.*}} identity 1.000000e+00 : f32 {
  // CHECK-NEXT: ^bb0(%[[SO_FAR:.*]]: f32, %[[LATER:.*]]: f32):
  // CHECK-NEXT:   arith.mulf %[[SO_FAR]], %[[LATER]] : f32
  // CHECK-NEXT:   dispatch.yield
  // CHECK-NEXT: } : tensor<4x8xf32> -> tensor<8xf32>
  // An explicit kind prints as its name.
  // CHECK: dispatch.reduce_group add %{{.*}} : tensor<4x8xf32> -> tensor<8xf32>
  %y = dispatch.rows %x attributes {domain = #dispatch.domain<batch = 2, positions = 4, factor = 4>,
      accesses = [#ones], result_accesses = [#row]} {
  ^bb0(%rows: tensor<4x8xf32>):
    %product = dispatch.reduce_group combine %rows identity 1.0 : f32 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.mulf %a, %b : f32
      dispatch.yield %c : f32
    } : tensor<4x8xf32> -> tensor<8xf32>
    %sum = dispatch.reduce_group combine %rows identity 0.0 : f32 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      dispatch.yield %c : f32
    } : tensor<4x8xf32> -> tensor<8xf32>
    %both = arith.addf %product, %sum : tensor<8xf32>
    dispatch.yield %both : tensor<8xf32>
  } : (tensor<2x16x8xf32>) -> tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
}

#scanned = #dispatch.domain<batch = 2, positions = 16, factor = 1>

// CHECK-LABEL: func.func @segments
func.func @segments(%bits: tensor<2x16x1xf32>) -> (tensor<2x16xi32>, tensor<2x5xi32>, tensor<2x2xi32>) {
  // CHECK: dispatch.segment_scan %{{.*}} attributes
  %c, %e, %n = dispatch.segment_scan %bits attributes {domain = #scanned}
      : (tensor<2x16x1xf32>) -> (tensor<2x16xi32>, tensor<2x5xi32>, tensor<2x2xi32>)
  return %c, %e, %n : tensor<2x16xi32>, tensor<2x5xi32>, tensor<2x2xi32>
}

#before = #dispatch.access<row[p - 1], extended>
#own = #dispatch.access<row, extended>
#members = #dispatch.access<range[v + 1], factor = 1, index = 0, last = 1>
#end = #dispatch.access<gather, factor = 1, index = 1>

// The sum of the rows of each segment, and the last of them.
// CHECK-LABEL: func.func @members
func.func @members(%e: tensor<2x5xi32>, %x: tensor<2x16x8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5x8xf32>) {
  // CHECK: extended>
  // CHECK-SAME: #dispatch.access<range
  // CHECK-SAME: index = 0, last = 1>
  // CHECK-SAME: #dispatch.access<gather
  %sums, %lasts = dispatch.rows %e, %e, %x, %x attributes {domain = #dispatch.domain<batch = 2, positions = 5, factor = 0>,
      accesses = [#before, #own, #members, #end], result_accesses = [#row, #row]} {
  ^bb0(%first: i32, %last: i32, %sum: tensor<8xf32>, %row: tensor<8xf32>):
    dispatch.yield %sum, %row : tensor<8xf32>, tensor<8xf32>
  } : (tensor<2x5xi32>, tensor<2x5xi32>, tensor<2x16x8xf32>, tensor<2x16x8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5x8xf32>)
  return %sums, %lasts : tensor<2x5x8xf32>, tensor<2x5x8xf32>
}

// CHECK-LABEL: func.func @straight_through
func.func @straight_through(%hard: f32, %soft: f32) -> f32 {
  // CHECK: dispatch.straight_through %{{.*}}, %{{.*}} : f32
  %bit = dispatch.straight_through %hard, %soft : f32
  return %bit : f32
}
