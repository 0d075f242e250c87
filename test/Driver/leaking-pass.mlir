// A pass that lets a row read a row that it could not read before is named, with the op and the rows. Here an upstream pass is guilty: the
// transform interpreter runs a script that sets an attribute. A script of the same kind that lets rows read less is let go.
// RUN: not sluice-opt %s --verify-each-causality --transform-interpreter=entry-point=early 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: not sluice-opt %s --verify-each-causality --sluice-form-dispatches --transform-interpreter=entry-point=ahead --sluice-separate-places 2>&1 | FileCheck %s --check-prefix=AHEAD
// RUN: sluice-opt %s --verify-each-causality --sluice-form-dispatches --transform-interpreter=entry-point=narrow | FileCheck %s --check-prefix=NARROW

// EARLY: leaking-pass.mlir:[[#LINE:]]:{{[0-9]+}}: error: internal error: the pass transform-interpreter added a dependence:
// EARLY-SAME: shift of {{.*}}leaking-pass.mlir:[[#LINE]]:{{[0-9]+}} in @evaluate: of 1 tokens, row 0 reads row 0 of tokens {{.*}}, which it did not before

// AHEAD: error: internal error: the pass transform-interpreter added a dependence:
// AHEAD-SAME: attention of {{.*}} in @evaluate: of 3 tokens, row 0 reads row 1 of tokens of {{.*}}, which it did not before; row 0 then depends on token 2

// NARROW: #[[MASK:.*]] = affine_set<(d0, d1)[s0] : (d0 - d1 - 2 >= 0)>
// NARROW:   dispatch.attention {{.*}} mask = #[[MASK]]

module attributes {transform.with_named_sequence, sluice.batch = 1 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @s2 on @target factor 2
  sluice.parameter @w : tensor<5x4xf32> {names = ["w"], sizes = array<i64: 5>, initial = "normal"}
  func.func @evaluate(%tokens: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<5x4xf32>
    %x = sluice.embed %tokens, %w : (!sluice.seq<@s1, 0, i32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %late = sluice.shift %x by 1 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %pairs = sluice.shorten %late factor 2 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s2, 4, f32>
    %mixed, %lse = sluice.attention %pairs, %pairs, %pairs attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
        query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %s : f32
    } : (!sluice.seq<@s2, 4, f32>, !sluice.seq<@s2, 4, f32>, !sluice.seq<@s2, 4, f32>)
        -> (!sluice.seq<@s2, 4, f32>, !sluice.seq<@s2, 1, f32>)
    %y = sluice.upsample %mixed factor 2 : (!sluice.seq<@s2, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %l = sluice.cross_entropy %y, %w, %tokens {offset = 1 : i64}
        : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %l : !sluice.seq<@s1, 0, f32>
  }

  transform.named_sequence @is_shift(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["sluice.shift"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @is_attention(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["dispatch.attention"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @early(%root: !transform.any_op {transform.readonly}) {
    %shift = transform.collect_matching @is_shift in %root : (!transform.any_op) -> !transform.any_op
    %by = transform.param.constant 0 : i64 -> !transform.param<i64>
    transform.annotate %shift "by" = %by : !transform.any_op, !transform.param<i64>
    transform.yield
  }
  transform.named_sequence @ahead(%root: !transform.any_op {transform.readonly}) {
    %attention = transform.collect_matching @is_attention in %root : (!transform.any_op) -> !transform.any_op
    %mask = transform.param.constant affine_set<(p, q)[n] : (p - q + 1 >= 0)> -> !transform.any_param
    transform.annotate %attention "mask" = %mask : !transform.any_op, !transform.any_param
    transform.yield
  }
  transform.named_sequence @narrow(%root: !transform.any_op {transform.readonly}) {
    %attention = transform.collect_matching @is_attention in %root : (!transform.any_op) -> !transform.any_op
    %mask = transform.param.constant affine_set<(p, q)[n] : (p - q - 2 >= 0)> -> !transform.any_param
    transform.annotate %attention "mask" = %mask : !transform.any_op, !transform.any_param
    transform.yield
  }
}
