// RUN: sluice-opt %s -split-input-file -verify-diagnostics
// Constraints of sluice.fit and sluice.place.

sluice.axis @t
sluice.scale @s on @t factor 1
func.func @no_column_in_common(%x: !sluice.seq<@s, 4, f32>) {
  // expected-error@+1 {{S-170: expected sequences of one scale that share a column, found '!sluice.seq<@s, 4, f32>' and, from column -4 on, '!sluice.seq<@s, 8, f32>'}}
  %y = sluice.fit %x at -4 : (!sluice.seq<@s, 4, f32>) -> !sluice.seq<@s, 8, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @s on @t factor 1
func.func @one_place(%x: !sluice.seq<@s, 4, f32>, %i: !sluice.seq<@s, 0, f32>) {
  // expected-error@+1 {{S-171: expected rows of at least two places and one f32 a position, of one scale, found '!sluice.seq<@s, 4, f32>' of '!sluice.seq<@s, 4, f32>' at '!sluice.seq<@s, 0, f32>'}}
  %y = sluice.place %x at %i : (!sluice.seq<@s, 4, f32>, !sluice.seq<@s, 0, f32>) -> !sluice.seq<@s, 4, f32>
  return
}

// -----

sluice.axis @t
sluice.scale @s on @t factor 1
func.func @gradient_of_parts(%g: !sluice.seq<@s, 10, f32>, %i: !sluice.seq<@s, 0, f32>) {
  // expected-error@+1 {{S-171: expected rows of at least two places}}
  %x = sluice.place_backward %g at %i : (!sluice.seq<@s, 10, f32>, !sluice.seq<@s, 0, f32>) -> !sluice.seq<@s, 4, f32>
  return
}
