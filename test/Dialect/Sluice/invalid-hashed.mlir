// The verifiers of LSH attention reject these.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics

func.func @chunk_of_three(%x: !sluice.seq<@s1, 4, f32>, %b: !sluice.seq<@s1, 3, f32>) {
  // expected-error@+1 {{S-110: expected heads and a head size of at least 1, 2 buckets or more, and a chunk of a power of two rows, found 2, 2, 4 and 3}}
  %o, %s = sluice.hashed_attention %x, %x, %x, %b {heads = 2 : i64, head_size = 2 : i64, bucket_count = 4 : i64, chunk = 3 : i64} : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 3, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
  return
}

// -----

func.func @other_keys(%x: !sluice.seq<@s1, 4, f32>, %y: !sluice.seq<@s1, 4, f32>, %b: !sluice.seq<@s1, 3, f32>) {
  // expected-error@+1 {{S-111: expected queries that are the keys, and values, of 4 columns on one scale, found '!sluice.seq<@s1, 4, f32>', '!sluice.seq<@s1, 4, f32>' and '!sluice.seq<@s1, 4, f32>'}}
  %o, %s = sluice.hashed_attention %x, %y, %x, %b {heads = 2 : i64, head_size = 2 : i64, bucket_count = 4 : i64, chunk = 4 : i64} : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 3, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
  return
}

// -----

func.func @whole_buckets(%x: !sluice.seq<@s1, 4, f32>, %b: !sluice.seq<@s1, 3, bf16>) {
  // expected-error@+1 {{S-141: expected one bucket per hash, f32 on the scale of '!sluice.seq<@s1, 4, f32>', found '!sluice.seq<@s1, 3, bf16>'}}
  %o, %s = sluice.hashed_attention %x, %x, %x, %b {heads = 2 : i64, head_size = 2 : i64, bucket_count = 4 : i64, chunk = 4 : i64} : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 3, bf16>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
  return
}

// -----

func.func @rotations_of_five(%x: !sluice.seq<@s1, 4, f32>, %r: tensor<5x4xf32>) {
  // expected-error@+1 {{S-112: expected for each hash as many rotations, of 4 columns, found 'tensor<5x4xf32>' for 3}}
  %b = sluice.hashed_buckets %x, %r : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 3, f32>
  return
}

// -----

func.func @buckets_elsewhere(%x: !sluice.seq<@s1, 4, f32>, %r: tensor<6x4xf32>) {
  // expected-error@+1 {{S-140: expected buckets of f32 on the scale of their rows, found '!sluice.seq<@s1, 4, f32>' and '!sluice.seq<@s2, 3, f32>'}}
  %b = sluice.hashed_buckets %x, %r : (!sluice.seq<@s1, 4, f32>, tensor<6x4xf32>) -> !sluice.seq<@s2, 3, f32>
  return
}
