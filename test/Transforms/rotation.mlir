// Rotated queries and keys: the linear map that computes them rotates them in its epilogue, and attention reads them unchanged.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics --sluice-form-dispatches | FileCheck %s

// CHECK-LABEL: func.func @predict
// CHECK-DAG:     %[[ANGLES:.*]] = plan.bind "constant:angles"
// CHECK-DAG:     %[[WEIGHT:.*]] = plan.bind "parameter:weight"
// CHECK:         %[[QKV:.*]] = dispatch.contract %{{.*}}, %[[WEIGHT]], %[[ANGLES]] attributes {accesses = [#dispatch.access<table>
// CHECK-SAME:      rotated_columns = 12
// CHECK-NEXT:    ^bb0(%{{[^:,]*}}: f32):
// CHECK:         dispatch.attention %[[QKV]], %[[QKV]], %[[QKV]] attributes
// CHECK-NOT:     dispatch.rows %[[ANGLES]]

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.parameter @table : tensor<7x8xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @weight : tensor<16x8xf32> {names = ["weight"], sizes = array<i64: 16>, initial = "normal", decay}
  sluice.parameter @angles : tensor<10x4xf32> {names = ["angles"], sizes = array<i64: 10>, initial = "rotary", base = 10000.0 : f64, frozen}
  func.func @predict(%tokens: !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 8, f32> {
    %table = sluice.read @table : tensor<7x8xf32>
    %weight = sluice.read @weight : tensor<16x8xf32>
    %angles = sluice.read @angles : tensor<10x4xf32>
    %e = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@fine, 8, f32>
    %x = sluice.linear %e, %weight : (!sluice.seq<@fine, 8, f32>, tensor<16x8xf32>) -> !sluice.seq<@fine, 16, f32>
    %o, %lse = sluice.attention %x, %x, %x, %angles attributes {heads = 2 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
        query_column = 0 : i64, key_column = 8 : i64, value_column = 12 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %s : f32
    } : (!sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 16, f32>, tensor<10x4xf32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 2, f32>)
    return %o : !sluice.seq<@fine, 8, f32>
  }
}

// -----

// Another reader of the same columns would read rotated values.
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.parameter @table : tensor<7x8xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @weight : tensor<16x8xf32> {names = ["weight"], sizes = array<i64: 16>, initial = "normal", decay}
  sluice.parameter @angles : tensor<10x4xf32> {names = ["angles"], sizes = array<i64: 10>, initial = "rotary", base = 10000.0 : f64, frozen}
  func.func @predict(%tokens: !sluice.seq<@fine, 0, i32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 16, f32>) {
    %table = sluice.read @table : tensor<7x8xf32>
    %weight = sluice.read @weight : tensor<16x8xf32>
    %angles = sluice.read @angles : tensor<10x4xf32>
    %e = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@fine, 8, f32>
    %x = sluice.linear %e, %weight : (!sluice.seq<@fine, 8, f32>, tensor<16x8xf32>) -> !sluice.seq<@fine, 16, f32>
    // expected-error@+1 {{S-026: queries and keys are rotated only where they are the first columns, queries first, of a linear map that this attention alone reads}}
    %o, %lse = sluice.attention %x, %x, %x, %angles attributes {heads = 2 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
        query_column = 0 : i64, key_column = 8 : i64, value_column = 12 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %s : f32
    } : (!sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 16, f32>, tensor<10x4xf32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 2, f32>)
    return %o, %x : !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 16, f32>
  }
}

// -----

// So would an attention that does not rotate.
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.parameter @table : tensor<7x8xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @weight : tensor<16x8xf32> {names = ["weight"], sizes = array<i64: 16>, initial = "normal", decay}
  sluice.parameter @angles : tensor<10x4xf32> {names = ["angles"], sizes = array<i64: 10>, initial = "rotary", base = 10000.0 : f64, frozen}
  func.func @predict(%tokens: !sluice.seq<@fine, 0, i32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>) {
    %table = sluice.read @table : tensor<7x8xf32>
    %weight = sluice.read @weight : tensor<16x8xf32>
    %angles = sluice.read @angles : tensor<10x4xf32>
    %e = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@fine, 8, f32>
    %x = sluice.linear %e, %weight : (!sluice.seq<@fine, 8, f32>, tensor<16x8xf32>) -> !sluice.seq<@fine, 16, f32>
    // expected-error@+1 {{S-026: queries and keys are rotated only where they are the first columns, queries first, of a linear map that this attention alone reads}}
    %o, %lse = sluice.attention %x, %x, %x, %angles attributes {heads = 2 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
        query_column = 0 : i64, key_column = 8 : i64, value_column = 12 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %s : f32
    } : (!sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 16, f32>, tensor<10x4xf32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 2, f32>)
    %o2, %lse2 = sluice.attention %x, %x, %x attributes {heads = 2 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
        query_column = 0 : i64, key_column = 8 : i64, value_column = 12 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %s : f32
    } : (!sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 16, f32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 2, f32>)
    return %o, %o2 : !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>
  }
}

// -----

// Values are not rotated.
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.parameter @table : tensor<7x8xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @weight : tensor<16x8xf32> {names = ["weight"], sizes = array<i64: 16>, initial = "normal", decay}
  sluice.parameter @angles : tensor<10x4xf32> {names = ["angles"], sizes = array<i64: 10>, initial = "rotary", base = 10000.0 : f64, frozen}
  func.func @predict(%tokens: !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 8, f32> {
    %table = sluice.read @table : tensor<7x8xf32>
    %weight = sluice.read @weight : tensor<16x8xf32>
    %angles = sluice.read @angles : tensor<10x4xf32>
    %e = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@fine, 8, f32>
    %x = sluice.linear %e, %weight : (!sluice.seq<@fine, 8, f32>, tensor<16x8xf32>) -> !sluice.seq<@fine, 16, f32>
    // expected-error@+1 {{S-026: queries and keys are rotated only where they are the first columns, queries first, of a linear map that this attention alone reads}}
    %o, %lse = sluice.attention %x, %x, %x, %angles attributes {heads = 2 : i64, kv_heads = 1 : i64, head_size = 4 : i64,
        query_column = 0 : i64, key_column = 8 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      sluice.yield %s : f32
    } : (!sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 16, f32>, tensor<10x4xf32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 2, f32>)
    return %o : !sluice.seq<@fine, 8, f32>
  }
}
