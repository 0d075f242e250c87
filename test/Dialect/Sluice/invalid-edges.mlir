// Sums over edge lists, and resampling by numbers of rows, are defined for rows that are known before the first token.
// RUN: sluice-opt %s -split-input-file --verify-diagnostics

sluice.axis @tokens
sluice.scale @bytes on @tokens factor 1
func.func @edges_between_tokens(%x: !sluice.seq<@bytes, 8, f32>) {
  // expected-error@+1 {{S-160: expected rows of a given axis, as an edge may connect a row with a later one, and a capacity from 1 to 1073741823 without 'drawn', found '!sluice.seq<@bytes, 8, f32>' and 6}}
  %y = sluice.graph_sum %x over "links" capacity 6 : (!sluice.seq<@bytes, 8, f32>) -> !sluice.seq<@bytes, 8, f32>
  return
}

// -----

sluice.axis @source given 32 vocabulary 256
sluice.scale @rows on @source factor 1
func.func @no_edges() {
  // expected-error@+1 {{S-160: expected rows of a given axis, as an edge may connect a row with a later one, and a capacity from 1 to 1073741823 without 'drawn', found '!sluice.seq<@rows, 0, f32>' and 0}}
  %n = sluice.degrees over "links" capacity 0 : () -> !sluice.seq<@rows, 0, f32>
  return
}

// -----

sluice.axis @source given 32 vocabulary 256
sluice.scale @rows on @source factor 1
func.func @degrees_of_columns() {
  // expected-error@+1 {{S-161: expected one f32 per position, found '!sluice.seq<@rows, 1, f32>'}}
  %n = sluice.degrees over "links" capacity 6 : () -> !sluice.seq<@rows, 1, f32>
  return
}

// -----

sluice.axis @source given 32 vocabulary 256
sluice.scale @rows on @source factor 1
func.func @factors_of_columns(%x: !sluice.seq<@rows, 8, f32>, %n: !sluice.seq<@rows, 8, f32>) {
  // expected-error@+1 {{S-162: expected rows of one scale and number of columns, and one f32 per position there, found '!sluice.seq<@rows, 8, f32>' and '!sluice.seq<@rows, 8, f32>'}}
  %y = sluice.graph_sum %x left(%n) over "links" capacity 6 : (!sluice.seq<@rows, 8, f32>, !sluice.seq<@rows, 8, f32>) -> !sluice.seq<@rows, 8, f32>
  return
}

// -----

sluice.axis @source given 32 vocabulary 256 streams {ends = 2 : i64}
sluice.scale @rows on @source factor 1
func.func @rows_of_bits() {
  // expected-error@+1 {{S-163: expected 'of' with a stream of the axis of the input where rows are its segments, and none elsewhere, found '!sluice.seq<@rows, 0, f32>' and ends}}
  %n = sluice.degrees over "links" of "ends" capacity 6 : () -> !sluice.seq<@rows, 0, f32>
  return
}

// -----

sluice.axis @source given 32 vocabulary 256 streams {ends = 2 : i64}
sluice.scale @rows on @source factor 1
sluice.axis @words segments of @rows capacity 32
sluice.scale @units on @words factor 1
func.func @words_of_no_bits() {
  // expected-error@+1 {{S-163: expected 'of' with a stream of the axis of the input where rows are its segments, and none elsewhere, found '!sluice.seq<@units, 0, f32>' and none}}
  %n = sluice.degrees over "links" capacity 6 : () -> !sluice.seq<@units, 0, f32>
  return
}

// -----

sluice.axis @source given 32 vocabulary 256 streams {ends = 2 : i64}
sluice.scale @rows on @source factor 1
sluice.axis @words segments of @rows capacity 32
sluice.scale @units on @words factor 1
func.func @resampled_to_the_same_scale(%x: !sluice.seq<@units, 8, f32>) {
  // expected-error@+1 {{S-164: expected rows of a given axis and rows of its segments, of as many columns, found '!sluice.seq<@units, 8, f32>' and '!sluice.seq<@units, 8, f32>'}}
  %y = sluice.resample %x linear : (!sluice.seq<@units, 8, f32>) -> !sluice.seq<@units, 8, f32>
  return
}
