// Attention whose queries, keys and values leave columns out has no kernel for its gradient.
// RUN: sluice-opt %s --sluice-form-dispatches -verify-diagnostics

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
