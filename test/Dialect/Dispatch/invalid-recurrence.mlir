// RUN: sluice-opt %s -split-input-file -verify-diagnostics
// Constraints of dispatch.recurrence.

#rows = #dispatch.domain<batch = 2, positions = 9, factor = 1>
#row = #dispatch.access<row, factor = 1>
func.func @columns_not_in_groups(%x: tensor<2x9x5xf32>) {
  // expected-error@+1 {{D-081: expected rows in whole groups of 4 columns, found 'tensor<2x9x5xf32>'}}
  %h = dispatch.recurrence %x attributes {domain = #rows, accesses = [#row], columns = 4 : i64, carried = 1 : i64} {
  ^bb0(%a: f32, %before: f32):
    dispatch.yield %a : f32
  } : (tensor<2x9x5xf32>) -> tensor<2x9x4xf32>
  return
}

// -----

#rows = #dispatch.domain<batch = 2, positions = 9, factor = 1>
#row = #dispatch.access<row, factor = 1>
func.func @weight_of_other_rows(%u: tensor<4x3xf32>, %x: tensor<2x9x4xf32>) {
  // expected-error@+1 {{D-082: expected a weight of f32 or bf16 for rows like 'tensor<2x9x4xf32>' and groups of 4, found 'tensor<4x3xf32>'}}
  %h = dispatch.recurrence %u, %x attributes {domain = #rows, accesses = [#row], columns = 4 : i64, carried = 1 : i64, weighted} {
  ^bb0(%p: f32, %a: f32, %before: f32):
    dispatch.yield %a : f32
  } : (tensor<4x3xf32>, tensor<2x9x4xf32>) -> tensor<2x9x4xf32>
  return
}

// -----

#rows = #dispatch.domain<batch = 2, positions = 9, factor = 1>
#row = #dispatch.access<row, factor = 1>
func.func @more_carried_results_than_results(%x: tensor<2x9x4xf32>) {
  // expected-error@+1 {{D-083: expected carried results among the 1, at least 1 with a weight, found 2}}
  %h = dispatch.recurrence %x attributes {domain = #rows, accesses = [#row], columns = 4 : i64, carried = 2 : i64} {
  ^bb0(%a: f32, %before: f32):
    dispatch.yield %a : f32
  } : (tensor<2x9x4xf32>) -> tensor<2x9x4xf32>
  return
}

// -----

#rows = #dispatch.domain<batch = 2, positions = 9, factor = 1>
#row = #dispatch.access<row, factor = 1>
func.func @reset_by_rows(%x: tensor<2x9x4xf32>) {
  // expected-error@+1 {{D-084: expected one number per row to cut rows off, found 'tensor<2x9x4xf32>'}}
  %h = dispatch.recurrence %x, %x attributes {domain = #rows, accesses = [#row], columns = 4 : i64, carried = 1 : i64, resets} {
  ^bb0(%a: f32, %before: f32):
    dispatch.yield %a : f32
  } : (tensor<2x9x4xf32>, tensor<2x9x4xf32>) -> tensor<2x9x4xf32>
  return
}

// -----

#rows = #dispatch.domain<batch = 2, positions = 9, factor = 1>
#row = #dispatch.access<row, factor = 1>
func.func @body_without_the_row_before(%x: tensor<2x9x4xf32>) {
  // expected-error@+1 {{D-085: expected a body of 2 arguments and 1 yielded values of f32, found 1 and 1}}
  %h = dispatch.recurrence %x attributes {domain = #rows, accesses = [#row], columns = 4 : i64, carried = 1 : i64} {
  ^bb0(%a: f32):
    dispatch.yield %a : f32
  } : (tensor<2x9x4xf32>) -> tensor<2x9x4xf32>
  return
}

// -----

#rows = #dispatch.domain<batch = 2, positions = 9, factor = 1>
#half = #dispatch.access<row[p floordiv 2], factor = 1>
func.func @rows_at_half_the_pace(%x: tensor<2x9x4xf32>) {
  // expected-error@+1 {{D-086: expected an access of row p + c, found #dispatch.access<row[p floordiv 2], factor = 1>}}
  %h = dispatch.recurrence %x attributes {domain = #rows, accesses = [#half], columns = 4 : i64, carried = 1 : i64} {
  ^bb0(%a: f32, %before: f32):
    dispatch.yield %a : f32
  } : (tensor<2x9x4xf32>) -> tensor<2x9x4xf32>
  return
}

// -----

#rows = #dispatch.domain<batch = 2, positions = 9, factor = 1>
#row = #dispatch.access<row, factor = 1>
func.func @negative_period(%x: tensor<2x9x4xf32>) {
  // expected-error@+1 {{D-084: expected a period of at least 0, found -1}}
  %h = dispatch.recurrence %x attributes {domain = #rows, accesses = [#row], columns = 4 : i64, carried = 1 : i64, reset_every = -1 : i64} {
  ^bb0(%a: f32, %before: f32):
    dispatch.yield %a : f32
  } : (tensor<2x9x4xf32>) -> tensor<2x9x4xf32>
  return
}

// -----

#rows = #dispatch.domain<batch = 2, positions = 9, factor = 1>
#row = #dispatch.access<row, factor = 1>
func.func @bound_without_resets(%x: tensor<2x9x4xf32>) {
  // expected-error@+1 {{D-084: expected `reset_within` of at least 0, and 0 without `resets`, found 3}}
  %h = dispatch.recurrence %x attributes {domain = #rows, accesses = [#row], columns = 4 : i64, carried = 1 : i64, reset_within = 3 : i64} {
  ^bb0(%a: f32, %before: f32):
    dispatch.yield %a : f32
  } : (tensor<2x9x4xf32>) -> tensor<2x9x4xf32>
  return
}
