// RUN: sluice-opt %s -split-input-file --sluice-derive-step -verify-diagnostics

// expected-error@+1 {{expected a function @predict to derive the step of, found none}}
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
}

// -----

// Every row needs the complete sequence, so no step can compute it.
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @last on @target factor 0
  func.func @predict(%t: !sluice.seq<@s1, 0, i32>, %e: tensor<7x8xf32>) -> !sluice.seq<@last, 8, f32> {
    %x = sluice.embed %t, %e : (!sluice.seq<@s1, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@s1, 8, f32>
    // expected-error@+1 {{expected a model from which a step can be derived, found that no bound was found for the positions that it reads}}
    %a, %n = sluice.attention %x, %x, %x attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 8 : i64, query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (q >= 0)>} {
    ^bb0(%score: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %score : f32
    } : (!sluice.seq<@s1, 8, f32>, !sluice.seq<@s1, 8, f32>, !sluice.seq<@s1, 8, f32>) -> (!sluice.seq<@s1, 8, f32>, !sluice.seq<@s1, 1, f32>)
    %z = sluice.last %a : (!sluice.seq<@s1, 8, f32>) -> !sluice.seq<@last, 8, f32>
    return %z : !sluice.seq<@last, 8, f32>
  }
}

// -----

// An encoder's rows do not arrive token by token.
module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.axis @source
  sluice.scale @s1 on @target factor 1
  sluice.scale @other on @source factor 1
  sluice.scale @last on @target factor 0
  // expected-error@+1 {{expected a model from which a step can be derived, found that it is on another axis than the predicted tokens}}
  func.func @predict(%t: !sluice.seq<@s1, 0, i32>, %k: !sluice.seq<@other, 8, f32>, %e: tensor<7x8xf32>) -> !sluice.seq<@last, 8, f32> {
    %x = sluice.embed %t, %e : (!sluice.seq<@s1, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@s1, 8, f32>
    %a, %n = sluice.attention %x, %k, %k attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 8 : i64, query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (q >= 0)>} {
    ^bb0(%score: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %score : f32
    } : (!sluice.seq<@s1, 8, f32>, !sluice.seq<@other, 8, f32>, !sluice.seq<@other, 8, f32>) -> (!sluice.seq<@s1, 8, f32>, !sluice.seq<@s1, 1, f32>)
    %z = sluice.last %a : (!sluice.seq<@s1, 8, f32>) -> !sluice.seq<@last, 8, f32>
    return %z : !sluice.seq<@last, 8, f32>
  }
}

// -----

module attributes {sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  func.func @predict(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, i32> {
    return %t : !sluice.seq<@s1, 0, i32>
  }
  // expected-error@+1 {{expected no @step yet, found one}}
  func.func @step() {
    return
  }
}
