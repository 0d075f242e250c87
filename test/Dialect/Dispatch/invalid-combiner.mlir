// Combiners of groups, and numbers outside of sequences.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics

func.func @combiner_of_one(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{D-070: expected a combiner of two numbers of f32 that yields one, found one of (f32)}}
  %y = dispatch.reduce_group combine %x identity 1.0 : f32 {
  ^bb0(%a: f32):
    dispatch.yield %a : f32
  } : tensor<4x8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @combiner_of_columns(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{D-070: expected elementwise arith and math in a combiner, found dispatch.random}}
  %y = dispatch.reduce_group combine %x identity 1.0 : f32 {
  ^bb0(%a: f32, %b: f32):
    %c = dispatch.random {id = 1 : i64, width = 8 : i64} : f32
    dispatch.yield %c : f32
  } : tensor<4x8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @identity_of_another(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{D-070: expected an identity that the combiner leaves alone on either side, found 0.000000e+00 : f32, which makes 0 of 1}}
  %y = dispatch.reduce_group combine %x identity 0.0 : f32 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    dispatch.yield %c : f32
  } : tensor<4x8xf32> -> tensor<8xf32>
  return
}

// -----

// The later row's own number: a masked number after it would replace it.
func.func @identity_on_one_side(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{D-070: expected an identity that the combiner leaves alone on either side}}
  %y = dispatch.reduce_group combine %x identity 0.0 : f32 {
  ^bb0(%a: f32, %b: f32):
    dispatch.yield %b : f32
  } : tensor<4x8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @identity_of_another_type(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{D-070: expected an identity of f32, found one of i32}}
  %y = dispatch.reduce_group combine %x identity 0 : i32 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    dispatch.yield %c : f32
  } : tensor<4x8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @identity_beyond_bf16(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{D-070: expected an identity that bf16 holds too, found 1.000000e-01 : f32}}
  %y = dispatch.reduce_group combine %x identity 0.1 : f32 {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    dispatch.yield %c : f32
  } : tensor<4x8xf32> -> tensor<8xf32>
  return
}

// -----

func.func @combiner_of_no_name(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{expected add, max or combine, found min}}
  %y = dispatch.reduce_group min %x : tensor<4x8xf32> -> tensor<8xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#outside = #dispatch.access<row[p - 1], factor = 1, outside = 1.0 : f32>
func.func @number_outside_of_integers(%x: tensor<2x16xi32>) {
  // expected-error@+1 {{D-071: expected rows of f32 or bf16, of access row, to be numbers outside, or a range's minus infinity, found operand 0 of 'tensor<2x16xi32>'}}
  %y = dispatch.rows %x attributes {domain = #dispatch.domain<batch = 2, positions = 16, factor = 1>,
      accesses = [#outside], result_accesses = [#row]} {
  ^bb0(%i: i32):
    dispatch.yield %i : i32
  } : (tensor<2x16xi32>) -> tensor<2x16xi32>
  return
}
