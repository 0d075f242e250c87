// RUN: sluice-opt %s -split-input-file -verify-diagnostics

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @rows(%x: tensor<2x16x8xf32>) {
  // expected-error@+1 {{D-001: expected 1 arguments of the rows body, found 0}}
  %y = dispatch.rows %x attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
    %c = arith.constant dense<0.0> : tensor<8xf32>
    dispatch.yield %c : tensor<8xf32>
  } : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @rows(%x: tensor<2x16x8xf32>) {
  // expected-error@+1 {{D-002: expected the rows body to end in dispatch.yield}}
  %y = dispatch.rows %x attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<8xf32>):
    %c = arith.constant dense<0.0> : tensor<8xf32>
  } : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @rows(%x: tensor<2x16x8xf32>) {
  // expected-error@+1 {{D-003: expected 1 values yielded by the rows body, found 2}}
  %y = dispatch.rows %x attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<8xf32>):
    dispatch.yield %r, %r : tensor<8xf32>, tensor<8xf32>
  } : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @rows(%x: tensor<2x16x8xf32>) {
  // expected-error@+1 {{D-004: expected 1 accesses of operands, found 2}}
  %y = dispatch.rows %x attributes {domain = #domain, accesses = [#row, #row], result_accesses = [#row]} {
  ^bb0(%r: tensor<8xf32>):
    dispatch.yield %r : tensor<8xf32>
  } : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @rows(%x: tensor<2x16x8xf32>) {
  // expected-error@+1 {{D-005: expected #dispatch.access, found 3}}
  %y = dispatch.rows %x attributes {domain = #domain, accesses = [3 : i64], result_accesses = [#row]} {
  ^bb0(%r: tensor<8xf32>):
    dispatch.yield %r : tensor<8xf32>
  } : (tensor<2x16x8xf32>) -> tensor<2x16x8xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @contract(%x: tensor<2x16x8xf32>, %w: tensor<5x7xf32>) {
  // expected-error@+1 {{D-006: expected input rows of 7 columns, found 8}}
  %y = dispatch.contract %x, %w attributes {domain = #domain, accesses = [], result_accesses = [#row]} {
  ^bb0(%acc: f32):
    dispatch.yield %acc : f32
  } : (tensor<2x16x8xf32>, tensor<5x7xf32>) -> tensor<2x16x5xf32>
  return
}

// -----

#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @weight_gradient(%dy: tensor<2x16x5xf32>, %x: tensor<2x16x8xf32>) {
  // expected-error@+1 {{D-007: expected a gradient of 5x8, found 'tensor<8x5xf32>'}}
  %w = dispatch.weight_gradient %dy, %x attributes {domain = #domain, operandSegmentSizes = array<i32: 1, 1, 0, 0>,
      resultSegmentSizes = array<i32: 1, 0>} : (tensor<2x16x5xf32>, tensor<2x16x8xf32>) -> tensor<8x5xf32>
  return
}

// -----

#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @attention(%x: tensor<2x16x12xf32>) {
  // expected-error@+1 {{D-008: expected a mask over (p, q)}}
  %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain,
      heads = 2 : i64, kv_heads = 2 : i64, head_size = 2 : i64, query_column = 0 : i64, key_column = 4 : i64,
      value_column = 8 : i64, mask = affine_set<(p)[n] : (p >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } : (tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<2x16x12xf32>) -> (tensor<2x16x4xf32>, tensor<2x16x2xf32>)
  return
}

// -----

#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @cross_entropy_width(%x: tensor<2x16x8xf32>, %w: tensor<7x9xf32>, %t: tensor<2x17xi32>) {
  // expected-error@+1 {{D-009: expected rows [B, T, d] and weights [V, d], found 'tensor<2x16x8xf32>' and 'tensor<7x9xf32>'}}
  %l = dispatch.cross_entropy %x, %w, %t attributes {domain = #domain, offset = 1 : i64,
      operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0>} : (tensor<2x16x8xf32>, tensor<7x9xf32>, tensor<2x17xi32>) -> tensor<2x16xf32>
  return
}

// -----

#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @cross_entropy_type(%x: tensor<2x16x8xf32>, %w: tensor<7x8xf64>, %t: tensor<2x17xi32>) {
  // expected-error@+1 {{D-010: expected rows and weights of one type, f32 or bf16, found 'tensor<2x16x8xf32>' and 'tensor<7x8xf64>'}}
  %l = dispatch.cross_entropy %x, %w, %t attributes {domain = #domain, offset = 1 : i64,
      operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0>} : (tensor<2x16x8xf32>, tensor<7x8xf64>, tensor<2x17xi32>) -> tensor<2x16xf32>
  return
}

// -----

#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @cross_entropy_tokens(%x: tensor<2x16x8xf32>, %w: tensor<7x8xf32>, %t: tensor<3x17xi32>) {
  // expected-error@+1 {{D-011: expected tokens of i32, one row per row of the batch, found 'tensor<3x17xi32>'}}
  %l = dispatch.cross_entropy %x, %w, %t attributes {domain = #domain, offset = 1 : i64,
      operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0>} : (tensor<2x16x8xf32>, tensor<7x8xf32>, tensor<3x17xi32>) -> tensor<2x16xf32>
  return
}

// -----

#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @cross_entropy_row_gradient(%x: tensor<2x16x8xf32>, %w: tensor<7x8xf32>, %t: tensor<2x17xi32>, %g: tensor<2x15xf32>) {
  // expected-error@+1 {{D-050: expected one incoming gradient per row, 2, 16, found 'tensor<2x15xf32>'}}
  %l = dispatch.cross_entropy %x, %w, %t, %g attributes {domain = #domain, offset = 1 : i64,
      operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>, resultSegmentSizes = array<i32: 1, 0, 0>}
      : (tensor<2x16x8xf32>, tensor<7x8xf32>, tensor<2x17xi32>, tensor<2x15xf32>) -> tensor<2x16xf32>
  return
}

// -----

#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @cross_entropy_smoothing(%x: tensor<2x16x8xf32>, %w: tensor<7x8xf32>, %t: tensor<2x17xi32>) {
  // expected-error@+1 {{D-051: expected a first row of at least 0 and smoothing in [0, 1), found 0 and 1.0}}
  %l = dispatch.cross_entropy %x, %w, %t attributes {domain = #domain, offset = 1 : i64, smoothing = 1.0 : f32,
      operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0, 0>}
      : (tensor<2x16x8xf32>, tensor<7x8xf32>, tensor<2x17xi32>) -> tensor<2x16xf32>
  return
}

// -----

#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @cross_entropy_weight_gradient(%x: tensor<2x16x8xf32>, %w: tensor<7x8xf32>, %t: tensor<2x17xi32>, %s: tensor<2x16xf32>) {
  // expected-error@+1 {{D-012: expected a gradient of 'tensor<7x8xf32>', found 'tensor<8x7xf32>'}}
  %dw = dispatch.cross_entropy_weight_gradient %x, %w, %t, %s attributes {domain = #domain, offset = 1 : i64,
      operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>} : (tensor<2x16x8xf32>, tensor<7x8xf32>, tensor<2x17xi32>, tensor<2x16xf32>) -> tensor<8x7xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#step = #dispatch.domain<batch = 2, positions = 1, factor = 1, scheduled = true>
func.func @contract_step_types(%x: tensor<2x1x8xbf16>, %w: tensor<5x8xf32>, %s: tensor<2x3xi64>) {
  // expected-error@+1 {{D-013: expected rows of f32 or bf16, and a weight of their type, bf16 or i8, found 'bf16' and 'f32'}}
  %y = dispatch.contract %x, %w, %s attributes {domain = #step, accesses = [], result_accesses = [#row]} {
  ^bb0(%acc: f32):
    dispatch.yield %acc : f32
  } : (tensor<2x1x8xbf16>, tensor<5x8xf32>, tensor<2x3xi64>) -> tensor<2x1x5xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#vector = #dispatch.access<vector>
#step = #dispatch.domain<batch = 2, positions = 1, factor = 1, scheduled = true>
func.func @contract_groups(%x: tensor<2x1x40xf32>, %w: tensor<5x40xi8>, %scales: tensor<10xf32>, %s: tensor<2x3xi64>) {
  // expected-error@+1 {{D-087: expected a scheduled op and a weight of i8 [2 N, 16], a row for each group, found 'tensor<5x40xi8>'}}
  %y = dispatch.contract %x, %w, %scales, %s attributes {domain = #step, accesses = [#vector], result_accesses = [#row], grouped} {
  ^bb0(%acc: f32):
    dispatch.yield %acc : f32
  } : (tensor<2x1x40xf32>, tensor<5x40xi8>, tensor<10xf32>, tensor<2x3xi64>) -> tensor<2x1x5xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#vector = #dispatch.access<vector>
#step = #dispatch.domain<batch = 2, positions = 1, factor = 1, scheduled = true>
func.func @contract_scales(%x: tensor<2x1x40xf32>, %w: tensor<10x16xi8>, %scales: tensor<5xf32>, %s: tensor<2x3xi64>) {
  // expected-error@+1 {{D-087: expected a last extra of 'tensor<10xf32>' with access vector, found 'tensor<5xf32>'}}
  %y = dispatch.contract %x, %w, %scales, %s attributes {domain = #step, accesses = [#vector], result_accesses = [#row], grouped} {
  ^bb0(%acc: f32):
    dispatch.yield %acc : f32
  } : (tensor<2x1x40xf32>, tensor<10x16xi8>, tensor<5xf32>, tensor<2x3xi64>) -> tensor<2x1x5xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @contract_whole(%x: tensor<2x16x8xf32>, %w: tensor<5x8xi8>) {
  // expected-error@+1 {{D-013: expected factors of one type, f32 or bf16, found 'f32' and 'i8'}}
  %y = dispatch.contract %x, %w attributes {domain = #domain, accesses = [], result_accesses = [#row]} {
  ^bb0(%acc: f32):
    dispatch.yield %acc : f32
  } : (tensor<2x16x8xf32>, tensor<5x8xi8>) -> tensor<2x16x5xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @contract_types(%x: tensor<2x16x8xbf16>, %w: tensor<5x8xf32>) {
  // expected-error@+1 {{D-013: expected factors of one type, f32 or bf16, found 'bf16' and 'f32'}}
  %y = dispatch.contract %x, %w attributes {domain = #domain, accesses = [], result_accesses = [#row]} {
  ^bb0(%acc: f32):
    dispatch.yield %acc : f32
  } : (tensor<2x16x8xbf16>, tensor<5x8xf32>) -> tensor<2x16x5xf32>
  return
}

// -----

#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @weight_gradient_type(%dy: tensor<2x16x5xbf16>, %x: tensor<2x16x8xbf16>) {
  // expected-error@+1 {{D-014: expected f32 for statistics, biases, tables, losses and the gradients of weights, found 'tensor<5x8xbf16>'}}
  %w = dispatch.weight_gradient %dy, %x attributes {domain = #domain, operandSegmentSizes = array<i32: 1, 1, 0, 0>,
      resultSegmentSizes = array<i32: 1, 0>} : (tensor<2x16x5xbf16>, tensor<2x16x8xbf16>) -> tensor<5x8xbf16>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @body_type(%x: tensor<2x16x8xbf16>) {
  // expected-error@+1 {{D-015: expected the body to hold 'tensor<2x16x8xbf16>' as 'f32', found 'tensor<8xbf16>'}}
  %y = dispatch.rows %x attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<8xbf16>):
    dispatch.yield %r : tensor<8xbf16>
  } : (tensor<2x16x8xbf16>) -> tensor<2x16x8xbf16>
  return
}

// -----

#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @scatter_type(%i: tensor<2x17xi32>, %v: tensor<2x16x8xf16>) {
  // expected-error@+1 {{D-016: expected values of f32 or bf16, found 'tensor<2x16x8xf16>'}}
  %t = dispatch.scatter_rows %i, %v attributes {domain = #domain} : (tensor<2x17xi32>, tensor<2x16x8xf16>) -> tensor<9x8xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @rotated_by_no_table(%x: tensor<2x16x8xf32>, %w: tensor<4x8xf32>) {
  // expected-error@+1 {{D-017: expected a result, and a last extra of f32 [T, D] with access table to rotate it by}}
  %y = dispatch.contract %x, %w attributes {domain = #domain, accesses = [], result_accesses = [#row], rotated_columns = 4 : i64} {
  ^bb0(%acc: f32):
    dispatch.yield %acc : f32
  } : (tensor<2x16x8xf32>, tensor<4x8xf32>) -> tensor<2x16x4xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#table = #dispatch.access<table>
#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @rotated_by_half_a_head(%x: tensor<2x16x8xf32>, %w: tensor<6x8xf32>, %t: tensor<16x4xf32>) {
  // expected-error@+1 {{D-017: expected whole heads of an even number of columns to be rotated, and an angle for each position, found 6 of 'tensor<2x16x6xf32>' by 'tensor<16x4xf32>'}}
  %y = dispatch.contract %x, %w, %t attributes {domain = #domain, accesses = [#table], result_accesses = [#row], rotated_columns = 6 : i64} {
  ^bb0(%acc: f32):
    dispatch.yield %acc : f32
  } : (tensor<2x16x8xf32>, tensor<6x8xf32>, tensor<16x4xf32>) -> tensor<2x16x6xf32>
  return
}

// -----

#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @rotated_back_by_half(%x: tensor<2x16x9xf32>, %o: tensor<2x16x3xf32>, %l: tensor<2x16x1xf32>, %t: tensor<16x3xf32>) {
  // expected-error@+1 {{D-017: expected heads of an even number of columns to be rotated back, and an angle for each position, found heads of 3 by 'tensor<16x3xf32>'}}
  %dx = dispatch.attention_backward %x, %x, %x, %o, %l, %o, %t attributes {domain = #domain,
      heads = 1 : i64, kv_heads = 1 : i64, head_size = 3 : i64, query_column = 0 : i64, key_column = 3 : i64,
      value_column = 6 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } derivative {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
    dispatch.yield %g : f32
  } : (tensor<2x16x9xf32>, tensor<2x16x9xf32>, tensor<2x16x9xf32>, tensor<2x16x3xf32>, tensor<2x16x1xf32>, tensor<2x16x3xf32>, tensor<16x3xf32>) -> tensor<2x16x9xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1, scheduled = true>
func.func @rows(%x: tensor<2x16x8xf32>, %schedule: tensor<2x2xi64>) {
  // expected-error@+1 {{D-018: expected a schedule of 'tensor<2x3xi64>' as the last operand, found 'tensor<2x2xi64>'}}
  %y = dispatch.rows %x, %schedule attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<8xf32>):
    dispatch.yield %r : tensor<8xf32>
  } : (tensor<2x16x8xf32>, tensor<2x2xi64>) -> tensor<2x16x8xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1, scheduled = true>
func.func @rows(%x: tensor<2x16x8xf32>, %schedule: tensor<2x3xi64>) {
  // expected-error@+1 {{D-019: expected a domain that is not scheduled, for results that are not rows, or are written where rows are not valid}}
  %y = dispatch.rows %x, %schedule attributes {domain = #domain, accesses = [#row], result_accesses = [#row], zero_invalid} {
  ^bb0(%r: tensor<8xf32>):
    dispatch.yield %r : tensor<8xf32>
  } : (tensor<2x16x8xf32>, tensor<2x3xi64>) -> tensor<2x16x8xf32>
  return
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 4, factor = 0, scheduled = true>
func.func @attention(%q: tensor<1x4x24xf32>, %schedule: tensor<1x3xi64>) {
  // expected-error@+1 {{D-020: expected a scheduled domain of a scale}}
  %o, %l = dispatch.attention %q, %q, %q, %schedule attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 8 : i64, query_column = 0 : i64, key_column = 8 : i64, value_column = 16 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %k: i32, %h: i32):
    dispatch.yield %s : f32
  } : (tensor<1x4x24xf32>, tensor<1x4x24xf32>, tensor<1x4x24xf32>, tensor<1x3xi64>) -> (tensor<1x4x8xf32>, tensor<1x4x1xf32>)
  return
}

// -----

#fine = #dispatch.domain<batch = 2, positions = 16, factor = 1>
#coarse = #dispatch.domain<batch = 2, positions = 4, factor = 4>
func.func @keys_of_another_domain(%x: tensor<2x16x4xf32>, %y: tensor<2x5x8xf32>) {
  // expected-error@+1 {{D-021: expected queries and outputs of #dispatch.domain<batch = 2, positions = 16, factor = 1> and keys and values of #dispatch.domain<batch = 2, positions = 4, factor = 4>, found 'tensor<2x16x4xf32>', 'tensor<2x5x8xf32>' and 'tensor<2x5x8xf32>'}}
  %o:2 = dispatch.attention %x, %y, %y attributes {domain = #fine, key_domain = #coarse,
      heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64, key_column = 0 : i64,
      value_column = 4 : i64, mask = affine_set<(p, q)[n] : (p - 4 * q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } : (tensor<2x16x4xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> (tensor<2x16x4xf32>, tensor<2x16x1xf32>)
  return
}

// -----

func.func @group(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{D-023: expected a group of rows [k, d] and a row [d] of its type, found 'tensor<4x8xf32>' and 'tensor<4xf32>'}}
  %y = dispatch.reduce_group max %x : tensor<4x8xf32> -> tensor<4xf32>
  return
}

// -----

#fine = #dispatch.domain<batch = 2, positions = 16, factor = 1>
#coarse = #dispatch.domain<batch = 2, positions = 4, factor = 4>
func.func @one_gradient_of_two_domains(%x: tensor<2x16x4xf32>, %y: tensor<2x4x8xf32>, %l: tensor<2x16x1xf32>) {
  // expected-error@+1 {{D-022: expected a gradient of queries, keys and values, or one of queries and one or two of keys and values, of as many rows as queries, keys and values, then the gradients of the terms, found 'tensor<2x16x4xf32>'}}
  %d = dispatch.attention_backward %x, %y, %y, %x, %l, %x attributes {domain = #fine, key_domain = #coarse,
      heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64, key_column = 0 : i64,
      value_column = 4 : i64, mask = affine_set<(p, q)[n] : (p - 4 * q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } derivative {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
    dispatch.yield %g : f32
  } : (tensor<2x16x4xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x16x4xf32>, tensor<2x16x1xf32>, tensor<2x16x4xf32>) -> tensor<2x16x4xf32>
  return
}

// -----

func.func @spread(%x: tensor<8xf32>) {
  // expected-error@+1 {{D-023: expected a group of rows [k, d] and a row [d] of its type, found 'tensor<4x8xi32>' and 'tensor<8xf32>'}}
  %y = dispatch.spread %x : tensor<8xf32> -> tensor<4x8xi32>
  return
}

// -----

#queries = #dispatch.domain<batch = 2, positions = 16, factor = 1>
#given = #dispatch.domain<batch = 2, positions = 5, factor = 0>
func.func @counts_of_another_batch(%x: tensor<2x16x4xf32>, %y: tensor<2x5x8xf32>, %n: tensor<3xi64>) {
  // expected-error@+1 {{D-024: expected the keys' counts, their rows, then a schedule, or fewer of these, as extra operands, counts of 'tensor<2xi64>', found 'tensor<3xi64>'}}
  %o:2 = dispatch.attention %x, %y, %y, %n attributes {domain = #queries, key_domain = #given,
      heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64, key_column = 0 : i64,
      value_column = 4 : i64, mask = affine_set<(p, q)[n] : (q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } : (tensor<2x16x4xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<3xi64>) -> (tensor<2x16x4xf32>, tensor<2x16x1xf32>)
  return
}

// -----

#queries = #dispatch.domain<batch = 2, positions = 16, factor = 1>
#given = #dispatch.domain<batch = 2, positions = 5, factor = 0>
func.func @key_rows_without_a_schedule(%x: tensor<2x16x4xf32>, %y: tensor<2x5x8xf32>, %n: tensor<2xi64>, %r: tensor<2xi32>) {
  // expected-error@+1 {{D-024: expected the keys' counts, their rows, then a schedule, or fewer of these, as extra operands, counts of 'tensor<2xi64>', found 'tensor<2xi64>', 'tensor<2xi32>'}}
  %o:2 = dispatch.attention %x, %y, %y, %n, %r attributes {domain = #queries, key_domain = #given,
      heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64, key_column = 0 : i64,
      value_column = 4 : i64, mask = affine_set<(p, q)[n] : (q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } : (tensor<2x16x4xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2xi64>, tensor<2xi32>) -> (tensor<2x16x4xf32>, tensor<2x16x1xf32>)
  return
}

// -----

#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @more_biases_than_positions(%x: tensor<2x16x12xf32>, %b: tensor<17x1xf32>) {
  // expected-error@+1 {{D-025: expected, after queries, keys and values whose factors are in the ratio of the distance's steps, two tensors}}
  %o:2 = dispatch.attention %x, %x, %x, %b attributes {domain = #domain, distance_bias, heads = 1 : i64, kv_heads = 1 : i64,
      head_size = 4 : i64, query_column = 0 : i64, key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } : (tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<17x1xf32>) -> (tensor<2x16x4xf32>, tensor<2x16x1xf32>)
  return
}

// -----

#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @region_without_its_product(%x: tensor<2x16x12xf32>, %r: tensor<2x16x4xf32>) {
  // expected-error@+1 {{D-001: expected 5 arguments of the score body, found 4}}
  %o:2 = dispatch.attention %x, %x, %x, %r, %r attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64,
      head_size = 4 : i64, query_column = 0 : i64, key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } : (tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<2x16x4xf32>, tensor<2x16x4xf32>) -> (tensor<2x16x4xf32>, tensor<2x16x1xf32>)
  return
}

// -----

#domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @derivative_by_the_score_alone(%x: tensor<2x16x12xf32>, %r: tensor<2x16x4xf32>, %l: tensor<2x16x1xf32>) {
  // expected-error@+1 {{D-003: expected 2 values yielded by the derivative body, found 1}}
  %d:3 = dispatch.attention_backward %x, %x, %x, %r, %l, %r, %r, %r attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64,
      head_size = 4 : i64, query_column = 0 : i64, key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %t: f32):
    dispatch.yield %s : f32
  } derivative {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %t: f32, %g: f32):
    dispatch.yield %g : f32
  } : (tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<2x16x4xf32>, tensor<2x16x1xf32>, tensor<2x16x4xf32>, tensor<2x16x4xf32>,
       tensor<2x16x4xf32>) -> (tensor<2x16x12xf32>, tensor<2x16x4xf32>, tensor<2x16x4xf32>)
  return
}

// -----

#segments = #dispatch.domain<batch = 2, positions = 5, factor = 0>
#range = #dispatch.access<range, factor = 1, last = 0>
func.func @range_to_a_row(%x: tensor<2x16x8xf32>) {
  // expected-error@+1 {{D-026: expected operand 0 to be of rank 3, a row for each of the domain's batch, and found by elements of i32, found 'tensor<2x16x8xf32>' and the indices -1 and 0}}
  %y = dispatch.rows %x attributes {domain = #segments, accesses = [#range], result_accesses = [#range]} {
  ^bb0(%a: tensor<8xf32>):
    dispatch.yield %a : tensor<8xf32>
  } : (tensor<2x16x8xf32>) -> tensor<2x5x8xf32>
  return
}

// -----

#segments = #dispatch.domain<batch = 2, positions = 5, factor = 0>
#row = #dispatch.access<row, extended>
func.func @numbers_that_do_not_ascend(%x: tensor<2x5xf32>) {
  // expected-error@+1 {{D-027: expected elements of i32, of access row or gathered, to extend past their ends, found operand 0 of 'tensor<2x5xf32>'}}
  %y = dispatch.rows %x attributes {domain = #segments, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%a: f32):
    dispatch.yield %a : f32
  } : (tensor<2x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

#rows = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @two_bits_a_row(%x: tensor<2x16x2xf32>) {
  // expected-error@+1 {{D-028: expected one bit per row of #dispatch.domain<batch = 2, positions = 16, factor = 1>, and of i32 a count per row, ends and two totals per batch row, found 'tensor<2x16x2xf32>'}}
  %c:3 = dispatch.segment_scan %x attributes {domain = #rows} : (tensor<2x16x2xf32>) -> (tensor<2x16xi32>, tensor<2x5xi32>, tensor<2x2xi32>)
  return
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 16, factor = 1>
func.func @mask_of_one_position(%x: tensor<1x16x12xf32>) {
  // expected-error@+1 {{D-008: expected a mask over (p, q), found affine_set<(d0)[s0] : (d0 >= 0)>}}
  %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
      query_column = 0 : i64, key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p)[n] : (p >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } : (tensor<1x16x12xf32>, tensor<1x16x12xf32>, tensor<1x16x12xf32>) -> (tensor<1x16x4xf32>, tensor<1x16x1xf32>)
  return
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 16, factor = 1>
func.func @mask_of_one_position_backward(%x: tensor<1x16x12xf32>, %o: tensor<1x16x4xf32>, %l: tensor<1x16x1xf32>) {
  // expected-error@+1 {{D-008: expected a mask over (p, q), found affine_set<(d0)[s0] : (d0 >= 0)>}}
  %dx = dispatch.attention_backward %x, %x, %x, %o, %l, %o attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64,
      head_size = 4 : i64, query_column = 0 : i64, key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p)[n] : (p >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } derivative {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
    dispatch.yield %g : f32
  } : (tensor<1x16x12xf32>, tensor<1x16x12xf32>, tensor<1x16x12xf32>, tensor<1x16x4xf32>, tensor<1x16x1xf32>, tensor<1x16x4xf32>)
      -> tensor<1x16x12xf32>
  return
}

// -----

#rows = #dispatch.domain<batch = 2, positions = 16, factor = 1, scheduled = true>
func.func @scan_of_some_rows(%x: tensor<2x16x1xf32>) {
  // expected-error@+1 {{D-019: expected a domain that is not scheduled, for a scan}}
  %c:3 = dispatch.segment_scan %x attributes {domain = #rows} : (tensor<2x16x1xf32>) -> (tensor<2x16xi32>, tensor<2x5xi32>, tensor<2x2xi32>)
  return
}

// -----

#rows = #dispatch.domain<batch = 2, positions = 16, factor = 1, scheduled = true>
func.func @sum_of_some_rows(%x: tensor<2x16x8xf32>) {
  // expected-error@+1 {{D-019: expected a domain that is not scheduled, for a sum over rows}}
  %w = dispatch.weight_gradient %x, %x attributes {domain = #rows, operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 0>}
      : (tensor<2x16x8xf32>, tensor<2x16x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

#rows = #dispatch.domain<batch = 2, positions = 16, factor = 1 axis = "words">
func.func @mean_over_texts_of_their_own_lengths(%x: tensor<2x16x8xf32>, %w: tensor<5x8xf32>, %t: tensor<2x17xi32>) {
  // expected-error@+1 {{D-029: expected one incoming gradient per row, as texts of the axis "words" have different numbers of rows, found none}}
  %l:3 = dispatch.cross_entropy %x, %w, %t attributes {domain = #rows, offset = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>,
      resultSegmentSizes = array<i32: 1, 1, 1>} : (tensor<2x16x8xf32>, tensor<5x8xf32>, tensor<2x17xi32>)
      -> (tensor<2x16xf32>, tensor<2x16xf32>, tensor<2x16x8xf32>)
  return
}

// -----

#rows = #dispatch.domain<batch = 2, positions = 5, factor = 0>
#row = #dispatch.access<row>
#before = #dispatch.access<row[p - 1]>
#sum = #dispatch.access<range[v + 5], index = 0, last = 1, list = 0, weight = 2>
func.func @weights_of_other_rows(%lists: tensor<2x9xi32>, %w: tensor<2x4xf32>, %x: tensor<2x5x8xf32>) {
  // expected-error@+1 {{D-080: expected a list or a number of draws, i32, and f32 weights, or fewer of them, for sums of operand 3 of 'tensor<2x5x8xf32>' in a domain that is not scheduled, found the arguments 0, -1 and 2}}
  %y = dispatch.rows %lists, %lists, %w, %x attributes {domain = #rows, accesses = [#before, #row, #row, #sum], result_accesses = [#row]} {
  ^bb0(%first: i32, %end: i32, %n: f32, %a: tensor<8xf32>):
    dispatch.yield %a : tensor<8xf32>
  } : (tensor<2x9xi32>, tensor<2x9xi32>, tensor<2x4xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
  return
}

// -----

#rows = #dispatch.domain<batch = 2, positions = 5, factor = 0>
#row = #dispatch.access<row>
#sum = #dispatch.access<range[v + i], index = 0, last = 0, softmax = #dispatch.softmax<source = 1, target = 2, norm = 1, leak = 2.000000e-01 : f32>>
func.func @softmax_of_other_rows(%n: tensor<2x5xi32>, %s: tensor<2x5xf32>, %t: tensor<2x4xf32>, %x: tensor<2x5x8xf32>) {
  // expected-error@+1 {{D-081: expected one f32 per row of operand 3 in each argument of the weights of its sum, found the arguments 1, 2 and 1}}
  %y = dispatch.rows %n, %s, %t, %x attributes {domain = #rows, accesses = [#row, #row, #row, #sum], result_accesses = [#row]} {
  ^bb0(%first: i32, %own: f32, %other: f32, %a: tensor<8xf32>):
    dispatch.yield %a : tensor<8xf32>
  } : (tensor<2x5xi32>, tensor<2x5xf32>, tensor<2x4xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
  return
}

// -----

#rows = #dispatch.domain<batch = 2, positions = 16, factor = 1>
func.func @range_of_other_queries(%x: tensor<2x16x12xf32>, %n: tensor<2x8xi32>) {
  // expected-error@+1 {{D-082: expected ranges of one i32 per query of a domain that is not scheduled, found 'tensor<2x8xi32>', 'tensor<2x8xi32>'}}
  %o, %lse = dispatch.attention %x, %x, %x, %n, %n attributes {domain = #rows, heads = 2 : i64, kv_heads = 2 : i64, head_size = 2 : i64, query_column = 0 : i64,
      key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (n - 1 - q >= 0)>} {
  ^bb0(%score: f32, %p: i32, %q: i32, %head: i32):
    dispatch.yield %score : f32
  } : (tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<2x16x12xf32>, tensor<2x8xi32>, tensor<2x8xi32>) -> (tensor<2x16x4xf32>, tensor<2x16x2xf32>)
  return
}
