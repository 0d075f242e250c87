// Rows and candidates of one type, and parts that divide the batch.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics

module attributes {sluice.batch = 2 : i64, sluice.context = 9 : i64} {
  sluice.axis @tokens
  sluice.scale @s1 on @tokens factor 1
  func.func @wide(%x: !sluice.seq<@s1, 5, f32>, %v: !sluice.seq<@s1, 4, f32>) {
    // expected-error@+1 {{S-178: expected rows and candidates of one type, and one f32 per row on their scale, found '!sluice.seq<@s1, 5, f32>', '!sluice.seq<@s1, 4, f32>' and '!sluice.seq<@s1, 0, f32>'}}
    %l = sluice.contrast %x, %v : (!sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 0, f32>
    return
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 9 : i64} {
  sluice.axis @tokens
  sluice.scale @s1 on @tokens factor 1
  func.func @parts(%x: !sluice.seq<@s1, 5, f32>, %v: !sluice.seq<@s1, 5, f32>) {
    // expected-error@+1 {{S-178: expected a number of parts that divides the batch of 2, found 3}}
    %l = sluice.contrast %x, %v {parts = 3 : i64} : (!sluice.seq<@s1, 5, f32>, !sluice.seq<@s1, 5, f32>) -> !sluice.seq<@s1, 0, f32>
    return
  }
}

// -----

module attributes {sluice.batch = 3 : i64, sluice.context = 9 : i64} {
  sluice.axis @tokens
  sluice.scale @s1 on @tokens factor 1
  func.func @counted() {
    // expected-error@+1 {{S-179: expected one f32 per row of factor 1, a first row of at least 0, and parts that divide the batch of 3, found '!sluice.seq<@s1, 0, f32>', row 0, every 1 and 2 parts}}
    %w = sluice.counted_rows {parts = 2 : i64} : !sluice.seq<@s1, 0, f32>
    return
  }
}

// -----

module attributes {sluice.batch = 3 : i64, sluice.context = 9 : i64} {
  sluice.axis @tokens
  sluice.scale @s1 on @tokens factor 1
  func.func @sum(%w: !sluice.seq<@s1, 1, f32>) {
    // expected-error@+1 {{S-180: expected weights of one f32 per row and a name, found '!sluice.seq<@s1, 1, f32>' and "next"}}
    sluice.weight_sum %w as "next" from 0 : !sluice.seq<@s1, 1, f32>
    return
  }
}
