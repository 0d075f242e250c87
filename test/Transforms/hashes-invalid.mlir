// Rows of tables selected by maps of tokens: each number must have a row.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics --sluice-form-dispatches

module attributes {sluice.batch = 2 : i64, sluice.context = 9 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  func.func @beyond(%t: !sluice.seq<@s1, 0, i32>, %table: tensor<7x8xf32>) {
    %r = sluice.map(%t) {
    ^bb0(%a: i32):
      %mask = arith.constant 255 : i32
      %rows = arith.constant 8 : i32
      %low = arith.andi %a, %mask : i32
      %row = arith.remsi %low, %rows : i32
      sluice.yield %row : i32
    } : (!sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, i32>
    // expected-error@+1 {{S-126: expected a map of integers that ends in (x and c) mod n, of at most the table's 7 rows, found another; hash into the table}}
    %x = sluice.embed %r, %table : (!sluice.seq<@s1, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@s1, 8, f32>
    return
  }
}

// -----

// A remainder of a negative number is negative.
module attributes {sluice.batch = 2 : i64, sluice.context = 9 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  func.func @negative(%t: !sluice.seq<@s1, 0, i32>, %table: tensor<7x8xf32>) {
    %r = sluice.map(%t) {
    ^bb0(%a: i32):
      %rows = arith.constant 7 : i32
      %row = arith.remsi %a, %rows : i32
      sluice.yield %row : i32
    } : (!sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, i32>
    // expected-error@+1 {{S-126: expected a map of integers}}
    %x = sluice.embed %r, %table : (!sluice.seq<@s1, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@s1, 8, f32>
    return
  }
}
