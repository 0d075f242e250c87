// Ops without a dispatch. First, attention whose queries, keys and values omit columns: no kernel computes its gradient.
// RUN: sluice-opt %s --sluice-form-dispatches -split-input-file -verify-diagnostics

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  func.func @gradient(%x: !sluice.seq<@s1, 16, f32>, %y: !sluice.seq<@s1, 4, f32>, %l: !sluice.seq<@s1, 1, f32>) {
    // expected-error@+1 {{S-037: expected queries, keys and values to fill their sequences, each column one of them}}
    %d = sluice.attention_backward %x, %x, %x, %y, %l, %y attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
        query_column = 0 : i64, key_column = 4 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %s : f32
    } derivative {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
      sluice.yield %g : f32
    } : (!sluice.seq<@s1, 16, f32>, !sluice.seq<@s1, 16, f32>, !sluice.seq<@s1, 16, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>, !sluice.seq<@s1, 4, f32>)
        -> !sluice.seq<@s1, 16, f32>
    return
  }
}

// -----

// A group's rows must be rows in memory.
module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @s2 on @target factor 2
  sluice.parameter @w : tensor<7x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 7>}
  func.func @predict(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s2, 4, f32> {
    %w = sluice.read @w : tensor<7x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<7x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %g = sluice.fold %x factor 2 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s2, 8, f32>
    %u = sluice.unfold %g factor 2 : (!sluice.seq<@s2, 8, f32>) -> !sluice.seq<@s1, 4, f32>
    // expected-error@+1 {{S-048: expected a layer or a norm between an unfold and the maximum of its groups, found none}}
    %m = sluice.shorten %u factor 2 max : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s2, 4, f32>
    return %m : !sluice.seq<@s2, 4, f32>
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @s2 on @target factor 2
  sluice.parameter @w : tensor<7x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 7>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) {
    %w = sluice.read @w : tensor<7x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<7x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %m = sluice.shorten %x factor 2 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s2, 4, f32>
    %c = sluice.cross_entropy %m, %w, %t {offset = 1 : i64} : (!sluice.seq<@s2, 4, f32>, tensor<7x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s2, 0, f32>
    // expected-error@+1 {{S-052: expected losses on a scale of factor 1; upsample what they read}}
    sluice.objective %c {names = ["next"], factors = array<f64: 1.0>, first = array<i64: 0>} : !sluice.seq<@s2, 0, f32>
    return
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @s2 on @target factor 2
  sluice.parameter @w : tensor<7x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 7>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s2, 0, f32> {
    %w = sluice.read @w : tensor<7x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<7x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %l = sluice.cross_entropy %x, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<7x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    // expected-error@+1 {{S-053: expected rows of columns, found one number per row}}
    %c = sluice.shorten %l factor 2 : (!sluice.seq<@s1, 0, f32>) -> !sluice.seq<@s2, 0, f32>
    return %c : !sluice.seq<@s2, 0, f32>
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  // expected-error@+1 {{expected sequences as arguments, found 'tensor<7x4xf32>'; read a parameter}}
  func.func @predict(%t: !sluice.seq<@s1, 0, i32>, %w: tensor<7x4xf32>) -> !sluice.seq<@s1, 4, f32> {
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<7x4xf32>) -> !sluice.seq<@s1, 4, f32>
    return %x : !sluice.seq<@s1, 4, f32>
  }
}
