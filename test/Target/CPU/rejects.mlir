// Ops without a CPU kernel, reported at the op: row bodies (R-00x, on either target), contractions, scatters, attention.
// RUN: sluice-opt %s --sluice-generate-kernels=target=cpu-avx2 -split-input-file -verify-diagnostics

#row = #dispatch.access<row, factor = 1>
#pairs = #dispatch.access<row[2 * p + i], group = 2, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 4, factor = 2>
func.func @greatest_of_a_group(%x0: tensor<1x8x8xf32>) {
  %y:1 = dispatch.rows %x0 attributes {domain = #domain, accesses = [#pairs], result_accesses = [#row]} {
  ^bb0(%r0: tensor<2x8xf32>):
    // expected-error@+1 {{R-001: a group of rows can only be reduced by add}}
    %m = dispatch.reduce max %r0 : tensor<2x8xf32> -> f32
    dispatch.yield %m : f32
  } : (tensor<1x8x8xf32>) -> (tensor<1x4xf32>)
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @constant_of_several_values(%x0: tensor<1x8x2xf32>) {
  %y:1 = dispatch.rows %x0 attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r0: tensor<2xf32>):
    // expected-error@+1 {{R-002: expected a row constant of one value, found several}}
    %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %s = arith.addf %r0, %c : tensor<2xf32>
    dispatch.yield %s : tensor<2xf32>
  } : (tensor<1x8x2xf32>) -> (tensor<1x8x2xf32>)
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @no_op_of_rows(%x0: tensor<1x8x8xf32>) {
  %y:1 = dispatch.rows %x0 attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r0: tensor<8xf32>):
    // expected-error@+1 {{R-003: not an op of row bodies}}
    %c = tensor.cast %r0 : tensor<8xf32> to tensor<?xf32>
    %d = tensor.cast %c : tensor<?xf32> to tensor<8xf32>
    dispatch.yield %d : tensor<8xf32>
  } : (tensor<1x8x8xf32>) -> (tensor<1x8x8xf32>)
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#columns = #dispatch.access<columns>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @sums_in_parts(%x0: tensor<1x8x8xf32>) {
  // expected-error@+1 {{R-004: expected all column sums to have 2 parts, found 4}}
  %y:2 = dispatch.rows %x0 attributes {domain = #domain, accesses = [#row], result_accesses = [#columns, #columns]} {
  ^bb0(%r0: tensor<8xf32>):
    dispatch.yield %r0, %r0 : tensor<8xf32>, tensor<8xf32>
  } : (tensor<1x8x8xf32>) -> (tensor<2x8xf32>, tensor<4x8xf32>)
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#gather = #dispatch.access<gather, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @gathered_by_nothing(%x0: tensor<8x8xf32>) {
  // expected-error@+1 {{R-005: expected operand 0 to be gathered by an i32 body argument, found index -1}}
  %y:1 = dispatch.rows %x0 attributes {domain = #domain, accesses = [#gather], result_accesses = [#row]} {
  ^bb0(%r0: tensor<8xf32>):
    dispatch.yield %r0 : tensor<8xf32>
  } : (tensor<8x8xf32>) -> (tensor<1x8x8xf32>)
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#pairs = #dispatch.access<row[2 * p + i], group = 2, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 4, factor = 2>
func.func @one_row_of_two(%x0: tensor<1x8x8xf32>) {
  // expected-error@+1 {{R-006: expected body argument 0 to hold 2 rows, found 1}}
  %y:1 = dispatch.rows %x0 attributes {domain = #domain, accesses = [#pairs], result_accesses = [#row]} {
  ^bb0(%r0: tensor<8xf32>):
    dispatch.yield %r0 : tensor<8xf32>
  } : (tensor<1x8x8xf32>) -> (tensor<1x4x8xf32>)
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @more_columns_than_there_are(%x0: tensor<1x8x8xf32>) {
  // expected-error@+1 {{R-008: expected body argument 0 to be at most 8 columns of 'f32', found 'tensor<9xf32>'}}
  %y:1 = dispatch.rows %x0 attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r0: tensor<9xf32>):
    dispatch.yield %r0 : tensor<9xf32>
  } : (tensor<1x8x8xf32>) -> (tensor<1x8x9xf32>)
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @fewer_columns_than_the_result(%x0: tensor<1x8x8xf32>) {
  // expected-error@+1 {{R-009: expected a row or element of 'tensor<1x8x9xf32>' yielded, found 'tensor<8xf32>'}}
  %y:1 = dispatch.rows %x0 attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r0: tensor<8xf32>):
    dispatch.yield %r0 : tensor<8xf32>
  } : (tensor<1x8x8xf32>) -> (tensor<1x8x9xf32>)
  return
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @rows_wider_than_the_table(%i: tensor<1x8xi32>, %v: tensor<1x8x8xf32>) {
  // expected-error@+1 {{R-007: expected rows of 9 columns}}
  %t = dispatch.scatter_rows %i, %v attributes {domain = #domain} : (tensor<1x8xi32>, tensor<1x8x8xf32>) -> tensor<5x9xf32>
  return
}

// -----

#late = #dispatch.access<row[p - 1], factor = 1>
#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @extra_of_earlier_rows(%x: tensor<1x8x8xf32>, %w: tensor<8x8xf32>, %e: tensor<1x8x8xf32>) {
  // expected-error@+1 {{expected extra operands with access row (identity map), vector or scalar, found #dispatch.access<row}}
  %y = dispatch.contract %x, %w, %e attributes {domain = #domain, accesses = [#late], result_accesses = [#row]} {
  ^bb0(%a: f32, %s: f32):
    dispatch.yield %a : f32
  } : (tensor<1x8x8xf32>, tensor<8x8xf32>, tensor<1x8x8xf32>) -> tensor<1x8x8xf32>
  return
}

// -----

#late = #dispatch.access<row[p - 1], factor = 1>
#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @result_elsewhere(%x: tensor<1x8x8xf32>, %w: tensor<8x8xf32>) {
  // expected-error@+1 {{expected results with access row (identity map), found #dispatch.access<row}}
  %y = dispatch.contract %x, %w attributes {domain = #domain, accesses = [], result_accesses = [#late]} {
  ^bb0(%a: f32):
    dispatch.yield %a : f32
  } : (tensor<1x8x8xf32>, tensor<8x8xf32>) -> tensor<1x8x8xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @epilogue_of_many(%x: tensor<1x8x8xf32>, %w: tensor<8x8xf32>) {
  %y = dispatch.contract %x, %w attributes {domain = #domain, accesses = [], result_accesses = [#row]} {
  ^bb0(%a: f32):
    // expected-error@+1 {{expected an elementwise op in an epilogue, found vector.broadcast}}
    %b = vector.broadcast %a : f32 to vector<2xf32>
    dispatch.yield %a : f32
  } : (tensor<1x8x8xf32>, tensor<8x8xf32>) -> tensor<1x8x8xf32>
  return
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @heads_in_no_groups(%x: tensor<1x8x28xf32>) {
  // expected-error@+1 {{expected heads to be a multiple of kv_heads, found 3 and 2}}
  %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain, heads = 3 : i64, kv_heads = 2 : i64, head_size = 4 : i64, query_column = 0 : i64,
      key_column = 12 : i64, value_column = 20 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } : (tensor<1x8x28xf32>, tensor<1x8x28xf32>, tensor<1x8x28xf32>) -> (tensor<1x8x12xf32>, tensor<1x8x3xf32>)
  return
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @all_dropped(%x: tensor<1x8x12xf32>) {
  // expected-error@+1 {{expected dropout in [0, 1), found 1.000000e+00}}
  %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64,
      key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>, dropout = 1.0 : f32, random_id = 1 : i64} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } : (tensor<1x8x12xf32>, tensor<1x8x12xf32>, tensor<1x8x12xf32>) -> (tensor<1x8x4xf32>, tensor<1x8x1xf32>)
  return
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @all_dropped_backward(%x: tensor<1x8x12xf32>, %o: tensor<1x8x4xf32>, %l: tensor<1x8x1xf32>) {
  // expected-error@+1 {{expected dropout in [0, 1), found 1.000000e+00}}
  %dx = dispatch.attention_backward %x, %x, %x, %o, %l, %o attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64,
      head_size = 4 : i64, query_column = 0 : i64, key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>, dropout = 1.0 : f32, random_id = 1 : i64} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } derivative {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
    dispatch.yield %g : f32
  } : (tensor<1x8x12xf32>, tensor<1x8x12xf32>, tensor<1x8x12xf32>, tensor<1x8x4xf32>, tensor<1x8x1xf32>, tensor<1x8x4xf32>) -> tensor<1x8x12xf32>
  return
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @mask_of_a_remainder(%x: tensor<1x8x12xf32>) {
  // expected-error@+1 {{expected a mask that is affine in (p, q) and one length, found affine_set<}}
  %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64,
      key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p * n - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    dispatch.yield %s : f32
  } : (tensor<1x8x12xf32>, tensor<1x8x12xf32>, tensor<1x8x12xf32>) -> (tensor<1x8x4xf32>, tensor<1x8x1xf32>)
  return
}

// -----

#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @score_of_vectors(%x: tensor<1x8x12xf32>) {
  %o, %l = dispatch.attention %x, %x, %x attributes {domain = #domain, heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64,
      key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    // expected-error@+1 {{expected scalar arith or math in an attention region, found vector.broadcast}}
    %b = vector.broadcast %s : f32 to vector<2xf32>
    %v = vector.extract %b[0] : f32 from vector<2xf32>
    dispatch.yield %v : f32
  } : (tensor<1x8x12xf32>, tensor<1x8x12xf32>, tensor<1x8x12xf32>) -> (tensor<1x8x4xf32>, tensor<1x8x1xf32>)
  return
}
