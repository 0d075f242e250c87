// Ops without a gradient are rejected at the op.
// RUN: sluice-opt %s --sluice-differentiate -split-input-file -verify-diagnostics

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.parameter @w : tensor<4x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 4>}
  sluice.parameter @p : tensor<8x4xf32> {initial = "normal", names = ["p"], sizes = array<i64: 8>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %p = sluice.read @p : tensor<8x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32>
    // expected-error@+1 {{S-021: a position table is shared between two stages, which has no gradient yet}}
    %y = sluice.position %p : (tensor<8x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %z = sluice.position %p : (tensor<8x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %s = sluice.map(%x, %y, %z) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %ab = arith.addf %a, %b : f32
      %abc = arith.addf %ab, %c : f32
      sluice.yield %abc : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %loss = sluice.cross_entropy %s, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %loss : !sluice.seq<@s1, 0, f32>
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.parameter @w : tensor<4x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 4>}
  sluice.parameter @g : tensor<4xf32> {initial = "ones", names = ["g"], sizes = array<i64: 4>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %g = sluice.read @g : tensor<4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32>
    // expected-error@+1 {{S-022: a norm's gain is shared between two stages, which has no gradient yet}}
    %y, %m, %r = sluice.norm %x, %g {epsilon = 1.0e-5 : f64, rms} : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %z, %n, %q = sluice.norm %y, %g {epsilon = 1.0e-5 : f64, rms} : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %loss = sluice.cross_entropy %z, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
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

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.parameter @w : tensor<4x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 4>}
  sluice.parameter @b : tensor<8x1xf32> {initial = "zeros", names = ["b"], sizes = array<i64: 8>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %b = sluice.read @b : tensor<8x1xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32>
    // expected-error@+1 {{S-047: a table by distance is shared between two stages, which has no gradient yet}}
    %y, %lx = sluice.attention %x, %x, %x, %b attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, distance_bias,
        query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %e: f32):
      %c = arith.addf %s, %e : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, tensor<8x1xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>)
    %o, %ly = sluice.attention %y, %y, %y, %b attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, distance_bias,
        query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %e: f32):
      %c = arith.addf %s, %e : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, tensor<8x1xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>)
    %loss = sluice.cross_entropy %o, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %loss : !sluice.seq<@s1, 0, f32>
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.parameter @w : tensor<4x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 4>}
  sluice.parameter @r : tensor<4xf32> {initial = "normal", names = ["r"], sizes = array<i64: 4>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %r = sluice.read @r : tensor<4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32>
    // expected-error@+1 {{S-082: a learned first row is shared between two stages, which has no gradient yet}}
    %y = sluice.start %x, %r by 1 : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %z = sluice.start %y, %r by 2 : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %l = sluice.cross_entropy %z, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %l : !sluice.seq<@s1, 0, f32>
  }
}

// -----

// A product is forward only.
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
