// What the verifier of attention by hashes refuses.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics

func.func @chunk_of_three(%x: !sluice.seq<@s1, 4, f32>, %r: tensor<6x4xf32>) {
  // expected-error@+1 {{S-110: expected heads, a head size and hashes of at least 1, and a chunk of a power of two rows, found 2, 2, 3 and 3}}
  %o, %s = sluice.hashed_attention %x, %x, %x, %r {heads = 2 : i64, head_size = 2 : i64, hashes = 3 : i64, chunk = 3 : i64} : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, tensor<6x4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
  return
}

// -----

func.func @other_keys(%x: !sluice.seq<@s1, 4, f32>, %y: !sluice.seq<@s1, 4, f32>, %r: tensor<6x4xf32>) {
  // expected-error@+1 {{S-111: expected queries that are the keys, and values, of 4 columns on one scale, found '!sluice.seq<@s1, 4, f32>', '!sluice.seq<@s1, 4, f32>' and '!sluice.seq<@s1, 4, f32>'}}
  %o, %s = sluice.hashed_attention %x, %y, %x, %r {heads = 2 : i64, head_size = 2 : i64, hashes = 3 : i64, chunk = 4 : i64} : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, tensor<6x4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
  return
}

// -----

func.func @rotations_of_five(%x: !sluice.seq<@s1, 4, f32>, %r: tensor<5x4xf32>) {
  // expected-error@+1 {{S-112: expected for each hash as many rotations, of 4 columns, found 'tensor<5x4xf32>' for 3}}
  %o, %s = sluice.hashed_attention %x, %x, %x, %r {heads = 2 : i64, head_size = 2 : i64, hashes = 3 : i64, chunk = 4 : i64} : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, tensor<5x4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
  return
}
