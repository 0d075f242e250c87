// LSH attention: a product with the rotations, a scan that orders rows by bucket, and attention in that order over a row's own
// chunk and over the one before.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics --sluice-form-dispatches | FileCheck %s

// CHECK-DAG:     #[[OWN:.*]] = affine_set<(d0, d1)[s0] : (d0 - d1 - 1 >= 0, d1 - (d0 floordiv 4) * 4 >= 0)>
// CHECK-DAG:     #[[BEFORE:.*]] = affine_set<(d0, d1)[s0] : ((d0 floordiv 4) * 4 - d1 - 1 >= 0, d1 - ((d0 floordiv 4) * 4 - 4) >= 0)>
// CHECK-LABEL: func.func @predict
// CHECK:         %[[R:.*]] = plan.bind "constant:rotations"
// CHECK:         dispatch.contract %[[X:[0-9]+]], %[[R]]
// CHECK:         dispatch.segment_scan
// CHECK:         %[[Q:.*]] = dispatch.rows %{{.*}}, %[[X]]
// CHECK:         dispatch.attention %[[Q]], %[[Q]],
// CHECK-SAME:      mask = #[[OWN]]
// CHECK:         dispatch.attention %[[Q]], %[[Q]],
// CHECK-SAME:      mask = #[[BEFORE]]
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.parameter @table : tensor<7x8xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @rotations : tensor<2x8xf32> {names = ["rotations"], sizes = array<i64: 2>, initial = "rotations", frozen}
  func.func @predict(%tokens: !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 8, f32> {
    %table = sluice.read @table : tensor<7x8xf32>
    %r = sluice.read @rotations : tensor<2x8xf32>
    %x = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@fine, 8, f32>
    %b = sluice.hashed_buckets %x, %r : (!sluice.seq<@fine, 8, f32>, tensor<2x8xf32>) -> !sluice.seq<@fine, 1, f32>
    %o, %s = sluice.hashed_attention %x, %x, %x, %b {heads = 2 : i64, head_size = 4 : i64, bucket_count = 4 : i64, chunk = 4 : i64} : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 1, f32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 2, f32>)
    return %o : !sluice.seq<@fine, 8, f32>
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.parameter @table : tensor<7x8xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @rotations : tensor<2x8xf32> {names = ["rotations"], sizes = array<i64: 2>, initial = "rotations", frozen}
  func.func @predict(%tokens: !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 8, f32> {
    %table = sluice.read @table : tensor<7x8xf32>
    %r = sluice.read @rotations : tensor<2x8xf32>
    %x = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@fine, 8, f32>
    %b = sluice.hashed_buckets %x, %r : (!sluice.seq<@fine, 8, f32>, tensor<2x8xf32>) -> !sluice.seq<@fine, 1, f32>
    // expected-error@+1 {{S-113: attention by sorted hashes is not compiled, as which rows a row reads depends on later ones; use the causal rule}}
    %o, %s = sluice.hashed_attention %x, %x, %x, %b {heads = 2 : i64, head_size = 4 : i64, bucket_count = 4 : i64, chunk = 4 : i64, sorted} : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 1, f32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 2, f32>)
    return %o : !sluice.seq<@fine, 8, f32>
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.parameter @table : tensor<7x8xf32> {names = ["table"], sizes = array<i64: 7>, initial = "normal"}
  sluice.parameter @rotations : tensor<2x8xf32> {names = ["rotations"], sizes = array<i64: 2>, initial = "rotations", frozen}
  func.func @predict(%tokens: !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 8, f32> {
    %table = sluice.read @table : tensor<7x8xf32>
    %r = sluice.read @rotations : tensor<2x8xf32>
    %x = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@fine, 8, f32>
    %v = sluice.embed %tokens, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@fine, 8, bf16>
    %b = sluice.hashed_buckets %x, %r : (!sluice.seq<@fine, 8, f32>, tensor<2x8xf32>) -> !sluice.seq<@fine, 1, f32>
    // expected-error@+1 {{S-114: expected rows of one type for LSH attention, found '!sluice.seq<@fine, 8, f32>' and '!sluice.seq<@fine, 8, bf16>'}}
    %o, %s = sluice.hashed_attention %x, %x, %v, %b {heads = 2 : i64, head_size = 4 : i64, bucket_count = 4 : i64, chunk = 4 : i64} : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, bf16>, !sluice.seq<@fine, 1, f32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 2, f32>)
    return %o : !sluice.seq<@fine, 8, f32>
  }
}
