// Invalid uses of sequences of two axes.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics --sluice-form-dispatches

module attributes {sluice.batch = 2 : i64, sluice.context = 9 : i64} {
  sluice.axis @target
  sluice.axis @source given 9 vocabulary 7
  sluice.scale @s1 on @target factor 1
  sluice.scale @e1 on @source factor 1
  func.func @sum(%x: !sluice.seq<@s1, 4, f32>, %w: tensor<4x4xf32>) {
    // expected-error@+1 {{S-039: expected sequences of one axis, as axes meet in attention alone, found @target and @source}}
    %y = sluice.linear %x, %w : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>) -> !sluice.seq<@e1, 4, f32>
    return
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 9 : i64} {
  sluice.axis @target
  sluice.axis @source given 5 vocabulary 7
  sluice.scale @s1 on @target factor 1
  sluice.scale @e1 on @source factor 1
  func.func @encode(%x: !sluice.seq<@e1, 8, f32>, %k: !sluice.seq<@s1, 8, f32>) {
    // expected-error@+1 {{S-040: expected keys of a given axis where queries are of another given axis, found queries of the given axis @source and keys of @target}}
    %y, %lse = sluice.attention %x, %k, %k attributes {heads = 1, kv_heads = 1, head_size = 8, query_column = 0,
      key_column = 0, value_column = 0, mask = affine_set<(p, q)[n] : (q >= 0)>} {
    ^bb0(%a: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %a : f32
    } : (!sluice.seq<@e1, 8, f32>, !sluice.seq<@s1, 8, f32>, !sluice.seq<@s1, 8, f32>)
        -> (!sluice.seq<@e1, 8, f32>, !sluice.seq<@e1, 1, f32>)
    return
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 9 : i64} {
  sluice.axis @source given 5 vocabulary 7
  sluice.scale @e1 on @source factor 1
  func.func @distance_below_zero(%x: !sluice.seq<@e1, 8, f32>, %b: tensor<3x1xf32>) {
    // expected-error@+1 {{S-046: expected a distance of at least 0 for each of 5 keys with "centered", found one below 0}}
    %y, %lse = sluice.attention %x, %x, %x, %b attributes {heads = 1, kv_heads = 1, head_size = 8, query_column = 0,
      key_column = 0, value_column = 0, distance_bias, centered, distance = affine_map<(p, q) -> (p - q + 3)>,
      mask = affine_set<(p, q)[n] : (q >= 0)>} {
    ^bb0(%a: f32, %p: i32, %q: i32, %h: i32, %e: f32):
      sluice.yield %a : f32
    } : (!sluice.seq<@e1, 8, f32>, !sluice.seq<@e1, 8, f32>, !sluice.seq<@e1, 8, f32>, tensor<3x1xf32>)
        -> (!sluice.seq<@e1, 8, f32>, !sluice.seq<@e1, 1, f32>)
    return
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 9 : i64} {
  // expected-error@+1 {{S-042: expected a capacity of at least 1 and below 2^31, found 0}}
  sluice.axis @source given 0 vocabulary 7
  sluice.scale @e1 on @source factor 1
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 9 : i64} {
  sluice.axis @source given 5 vocabulary 9
  sluice.scale @e1 on @source factor 1
  func.func @lookup(%s: !sluice.seq<@e1, 0, i32>, %table: tensor<7x8xf32>) {
    // expected-error@+1 {{S-043: expected a row for each of the 9 tokens of the given input @source, found 7}}
    %x = sluice.embed %s, %table : (!sluice.seq<@e1, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@e1, 8, f32>
    return
  }
}
