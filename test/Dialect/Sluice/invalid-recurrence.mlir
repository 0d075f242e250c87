// RUN: sluice-opt %s -split-input-file -verify-diagnostics
// Constraints of sluice.recurrence.

sluice.axis @t
sluice.scale @s on @t factor 1
func.func @cell_without_sums(%x: !sluice.seq<@s, 4, f32>) {
  // expected-error@+1 {{S-164: expected a cell that yields its states, f32, and has a sum or more and the states as arguments, found 1 arguments and 1 states}}
  %h = sluice.recurrence %x {
  ^bb0(%before: f32):
    sluice.yield %before : f32
  } : (!sluice.seq<@s, 4, f32>) -> !sluice.seq<@s, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @s on @t factor 1
func.func @input_of_other_columns(%x: !sluice.seq<@s, 5, f32>) {
  // expected-error@+1 {{S-165: expected states of f32 of as many columns each, and inputs of 2 times as many, found '!sluice.seq<@s, 2, f32>' and '!sluice.seq<@s, 5, f32>'}}
  %h = sluice.recurrence %x {
  ^bb0(%a: f32, %b: f32, %before: f32):
    sluice.yield %a : f32
  } : (!sluice.seq<@s, 5, f32>) -> !sluice.seq<@s, 2, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @s on @t factor 1
func.func @weight_without_sums(%x: !sluice.seq<@s, 4, f32>, %u: tensor<4x4xf32>) {
  // expected-error@+1 {{S-166: expected 2 results, the states and with a weight the sums, found 1}}
  %h = sluice.recurrence %x weight %u {
  ^bb0(%a: f32, %before: f32):
    sluice.yield %a : f32
  } : (!sluice.seq<@s, 4, f32>, tensor<4x4xf32>) -> !sluice.seq<@s, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @s on @t factor 1
func.func @weight_of_another_shape(%x: !sluice.seq<@s, 4, f32>, %u: tensor<4x3xf32>) {
  // expected-error@+1 {{S-166: expected a weight 'tensor<4x4xf32>' of f32 or bf16, and sums like the input, found 'tensor<4x3xf32>' and '!sluice.seq<@s, 4, f32>'}}
  %h, %sums = sluice.recurrence %x weight %u {
  ^bb0(%a: f32, %before: f32):
    sluice.yield %a : f32
  } : (!sluice.seq<@s, 4, f32>, tensor<4x3xf32>) -> (!sluice.seq<@s, 4, f32>, !sluice.seq<@s, 4, f32>)
  return
}

// -----

sluice.axis @t
sluice.scale @s on @t factor 1
func.func @reset_by_rows(%x: !sluice.seq<@s, 4, f32>) {
  // expected-error@+1 {{S-167: expected one number per row of @s to reset rows, and a period of at least 0, found '!sluice.seq<@s, 4, f32>' and 0}}
  %h = sluice.recurrence %x reset %x {
  ^bb0(%a: f32, %before: f32):
    sluice.yield %a : f32
  } : (!sluice.seq<@s, 4, f32>, !sluice.seq<@s, 4, f32>) -> !sluice.seq<@s, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @s on @t factor 1
func.func @bound_without_resets(%x: !sluice.seq<@s, 4, f32>) {
  // expected-error@+1 {{S-167: expected `reset_within` of at least 0, and 0 without `reset`, found 3}}
  %h = sluice.recurrence %x attributes {reset_within = 3 : i64} {
  ^bb0(%a: f32, %before: f32):
    sluice.yield %a : f32
  } : (!sluice.seq<@s, 4, f32>) -> !sluice.seq<@s, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @s on @t factor 1
func.func @no_input() {
  // expected-error@+1 {{S-165: expected an input, found none}}
  %h = sluice.recurrence {
  ^bb0(%a: f32, %before: f32):
    sluice.yield %a : f32
  } : () -> !sluice.seq<@s, 4, f32>
  return
}
