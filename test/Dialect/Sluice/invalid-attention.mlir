// The verifiers of attention, of its backward and of a step's states reject these.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics

func.func @no_heads(%x: !sluice.seq<@s1, 12, f32>) {
  // expected-error@+1 {{S-013: expected heads, key/value heads and a head size of at least 1, found 2, 0 and 2}}
  %o, %l = sluice.attention %x, %x, %x attributes {heads = 2 : i64, kv_heads = 0 : i64, head_size = 2 : i64, query_column = 0 : i64,
      key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
  return
}

// -----

func.func @odd_heads_rotated(%x: !sluice.seq<@s1, 9, f32>, %t: tensor<16x3xf32>) {
  // expected-error@+1 {{S-027: expected heads of an even number of columns, and a table of as many cosines and sines a position, found heads of 3 and 'tensor<16x3xf32>'}}
  %o, %l = sluice.attention %x, %x, %x, %t attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 3 : i64, query_column = 0 : i64,
      key_column = 3 : i64, value_column = 6 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@s1, 9, f32>, !sluice.seq<@s1, 9, f32>, !sluice.seq<@s1, 9, f32>, tensor<16x3xf32>) -> (!sluice.seq<@s1, 3, f32>, !sluice.seq<@s1, 1, f32>)
  return
}

// -----

func.func @four_gradients(%x: !sluice.seq<@s1, 12, f32>, %y: !sluice.seq<@s1, 4, f32>, %l: !sluice.seq<@s1, 1, f32>) {
  // expected-error@+1 {{S-036: expected one, two or three gradients, and one per term, found 4}}
  %d:4 = sluice.attention_backward %x, %x, %x, %y, %l, %y attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
      query_column = 0 : i64, key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } derivative {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
    sluice.yield %g : f32
  } : (!sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>, !sluice.seq<@s1, 4, f32>)
      -> (!sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>)
  return
}

// -----

sluice.state @narrow ring 4 : !sluice.seq<@s1, 4, f32>
func.func @step(%x: !sluice.seq<@s1, 8, f32>) {
  // expected-error@+1 {{S-034: expected value, state and result of one type, found '!sluice.seq<@s1, 8, f32>', '!sluice.seq<@s1, 4, f32>' and '!sluice.seq<@s1, 8, f32>'}}
  %k = sluice.keep %x in @narrow : <@s1, 8, f32> -> <@s1, 8, f32>
  return
}

// -----

func.func @gradient_of_a_table(%x: !sluice.seq<@s1, 12, f32>, %y: !sluice.seq<@s1, 4, f32>, %l: !sluice.seq<@s1, 1, f32>) {
  // expected-error@+1 {{S-036: expected the gradient of a sequence, found 'tensor<16x12xf32>'}}
  %d = sluice.attention_backward %x, %x, %x, %y, %l, %y attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
      query_column = 0 : i64, key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } derivative {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
    sluice.yield %g : f32
  } : (!sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>, !sluice.seq<@s1, 4, f32>)
      -> tensor<16x12xf32>
  return
}

// -----

func.func @too_many_tables(%x: !sluice.seq<@s1, 12, f32>, %t: tensor<16x2xf32>) {
  // expected-error@+1 {{S-044: expected, after the sequences, none or two of terms by distance, then at most one table, of angles, found 'tensor<16x2xf32>', 'tensor<16x2xf32>'}}
  %o, %l = sluice.attention %x, %x, %x, %t, %t attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64,
      key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
  ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
    sluice.yield %s : f32
  } : (!sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, tensor<16x2xf32>, tensor<16x2xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>)
  return
}
