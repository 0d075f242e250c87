// Ops without a gradient are rejected at the op.
// RUN: sluice-opt %s --sluice-differentiate -split-input-file -verify-diagnostics


module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.parameter @w : tensor<4x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 4>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %k = sluice.shift %x by 0 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    // expected-error@+1 {{S-023: attention has a gradient only where queries, keys and values are one packed sequence, or queries are another than keys and values}}
    %o, %l = sluice.attention %x, %x, %k attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64,
        key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %s : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>)
    %loss = sluice.cross_entropy %o, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %loss : !sluice.seq<@s1, 0, f32>
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.parameter @w : tensor<4x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 4>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %o = sluice.map(%x) {
    ^bb0(%a: f32):
      // expected-error@+1 {{S-020: no derivative is known for math.powf}}
      %b = math.powf %a, %a : f32
      sluice.yield %b : f32
    } : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %loss = sluice.cross_entropy %o, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %loss : !sluice.seq<@s1, 0, f32>
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @last on @target factor 0
  sluice.parameter @w : tensor<4x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 4>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32>
    // expected-error@+1 {{S-024: the last position is for generation and has no gradient}}
    %o = sluice.last %x : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@last, 4, f32>
    %loss = sluice.cross_entropy %o, %w, %t {offset = 1 : i64} : (!sluice.seq<@last, 4, f32>, tensor<4x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %loss : !sluice.seq<@s1, 0, f32>
  }
}

// -----

// A product runs forward alone.
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  sluice.axis @t
  sluice.scale @s1 on @t factor 1
  sluice.scale @s2 on @t factor 2
  sluice.parameter @w : tensor<4x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 4>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %s = sluice.shift %x by 1 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    // expected-error@+1 {{S-135: the combiner of this group is neither a sum nor a maximum, and has no gradient; it runs forward alone}}
    %g = sluice.shorten %s factor 2 combine identity 1.0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.mulf %a, %b : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s2, 4, f32>
    %o = sluice.upsample %g factor 2 : (!sluice.seq<@s2, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %loss = sluice.cross_entropy %o, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %loss : !sluice.seq<@s1, 0, f32>
  }
}

// -----

// A mask leaves rows out; an earlier map would identify that gradient.
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  sluice.axis @t
  sluice.scale @s1 on @t factor 1
  sluice.scale @s2 on @t factor 2
  sluice.parameter @w : tensor<4x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 4>}
  sluice.parameter @v : tensor<4xf32> {initial = "ones", names = ["v"], sizes = array<i64: 4>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %v = sluice.read @v : tensor<4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %s = sluice.shift %x by 1 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %y, %mean, %rstd = sluice.norm %x, %v {epsilon = 1.0e-5 : f64} : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>)
        -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    // expected-error@+1 {{S-134: the group of rows that this op combines has a mask, which has no gradient yet}}
    %g = sluice.shorten %s factor 2 mask %rstd sum : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 0, f32>) -> !sluice.seq<@s2, 4, f32>
    %o = sluice.upsample %g factor 2 : (!sluice.seq<@s2, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %loss = sluice.cross_entropy %o, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %loss : !sluice.seq<@s1, 0, f32>
  }
}
