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

sluice.axis @source given 32 vocabulary 256
sluice.scale @rows on @source factor 1
func.func @scores_of_columns(%x: !sluice.seq<@rows, 8, f32>) {
  // expected-error@+1 {{S-167: expected rows of one scale and number of columns, and per position there one f32 of each score and one i32 of each end of a range, found '!sluice.seq<@rows, 8, f32>' and '!sluice.seq<@rows, 8, f32>'}}
  %y, %lse = sluice.graph_attention %x, %x, %x over "links" capacity 6 leak 2.000000e-01
      : (!sluice.seq<@rows, 8, f32>, !sluice.seq<@rows, 8, f32>, !sluice.seq<@rows, 8, f32>) -> (!sluice.seq<@rows, 8, f32>, !sluice.seq<@rows, 0, f32>)
  return
}

// -----

sluice.axis @source given 32 vocabulary 256
sluice.scale @rows on @source factor 1
func.func @no_neighbours(%s: !sluice.seq<@rows, 0, f32>, %x: !sluice.seq<@rows, 8, f32>) {
  // expected-error@+1 {{S-168: expected edges with a capacity or a range, found none}}
  %y, %lse = sluice.graph_attention %s, %s, %x leak 2.000000e-01
      : (!sluice.seq<@rows, 0, f32>, !sluice.seq<@rows, 0, f32>, !sluice.seq<@rows, 8, f32>) -> (!sluice.seq<@rows, 8, f32>, !sluice.seq<@rows, 0, f32>)
  return
}

// -----

sluice.axis @tokens
sluice.scale @bytes on @tokens factor 1
func.func @range_of_tokens(%s: !sluice.seq<@bytes, 0, f32>, %x: !sluice.seq<@bytes, 8, f32>, %n: !sluice.seq<@bytes, 0, i32>) {
  // expected-error@+1 {{S-160: expected rows of a given axis, as a range may hold later rows, found '!sluice.seq<@bytes, 8, f32>'}}
  %y, %lse = sluice.graph_attention %s, %s, %x range(%n, %n) leak 2.000000e-01
      : (!sluice.seq<@bytes, 0, f32>, !sluice.seq<@bytes, 0, f32>, !sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 0, i32>, !sluice.seq<@bytes, 0, i32>)
      -> (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 0, f32>)
  return
}

// -----

sluice.axis @tokens
sluice.scale @bytes on @tokens factor 1
func.func @keys_within_tokens(%x: !sluice.seq<@bytes, 24, f32>, %n: !sluice.seq<@bytes, 0, i32>) {
  // expected-error@+1 {{S-169: expected ranges of one i32 per position of queries and keys, on a given axis, found '!sluice.seq<@bytes, 0, i32>', '!sluice.seq<@bytes, 0, i32>'}}
  %o, %sums = sluice.attention %x, %x, %x, %n, %n attributes {heads = 2 : i64, kv_heads = 2 : i64, head_size = 4 : i64, query_column = 0 : i64,
      key_column = 8 : i64, value_column = 16 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%score: f32, %p: i32, %q: i32, %head: i32):
    sluice.yield %score : f32
  } : (!sluice.seq<@bytes, 24, f32>, !sluice.seq<@bytes, 24, f32>, !sluice.seq<@bytes, 24, f32>, !sluice.seq<@bytes, 0, i32>, !sluice.seq<@bytes, 0, i32>)
      -> (!sluice.seq<@bytes, 8, f32>, !sluice.seq<@bytes, 2, f32>)
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
