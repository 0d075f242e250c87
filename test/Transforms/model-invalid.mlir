// Every pass over model IR rejects these at the op instead of crashing.
// RUN: sluice-opt %s -split-input-file -verify-diagnostics --sluice-convert-factors
// RUN: sluice-opt %s -split-input-file -verify-diagnostics --sluice-differentiate
// RUN: sluice-opt %s -split-input-file -verify-diagnostics --sluice-derive-step
// RUN: sluice-opt %s -split-input-file -verify-diagnostics --sluice-form-dispatches
// RUN: sluice-opt %s -split-input-file -verify-diagnostics --sluice-build-entries

// expected-error@+1 {{expected the module attribute sluice.context, an i64 of at least 1 and below 2^31, found another value}}
module attributes {sluice.batch = 2 : i64, sluice.context = 0 : i64} {
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  // expected-error@+1 {{expected a defined scale, found @s1}}
  func.func @evaluate(%x: !sluice.seq<@s1, 4, f32>) {
    return
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.parameter @w : tensor<4xf32> {initial = "zeros", names = ["w"], sizes = array<i64: 4>}
  func.func @evaluate() {
    // expected-error@+1 {{expected a parameter of the type that is read, found @w}}
    %w = sluice.read @w : tensor<5xf32>
    return
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  // expected-error@+1 {{expected a static shape, and names and sizes that fill its first dimension, of parameter @w}}
  sluice.parameter @w : tensor<4xf32> {initial = "zeros", names = ["w"], sizes = array<i64: 3>}
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  // expected-error@+1 {{expected functions of one block, found 0}}
  func.func private @evaluate()
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @t
  sluice.scale @s1 on @t factor 1
  // expected-error@+1 {{expected a width from 0 to below 2^31, found 4294967296}}
  func.func @evaluate(%x: !sluice.seq<@s1, 4294967296, f32>) {
    return
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @t
  sluice.scale @s1 on @t factor 1
  func.func @evaluate(%x: !sluice.seq<@s1, 4, f32>) {
    // expected-error@+1 {{expected factors, shifts and a mask's constants below 2^31}}
    %y = sluice.shift %x by 4294967296 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    return
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @t
  sluice.scale @s1 on @t factor 1
  func.func @evaluate(%h: !sluice.seq<@s1, 4, f32>, %w: tensor<7x4xf32>, %t: !sluice.seq<@s1, 0, i32>) {
    // expected-error@+1 {{expected a target offset of at least 0, found -1}}
    %loss = sluice.cross_entropy %h, %w, %t {offset = -1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<7x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  sluice.axis @words segments of @fine capacity 8
  sluice.scale @word on @words factor 1
  sluice.parameter @rotations : tensor<2x8xf32> {names = ["rotations"], sizes = array<i64: 2>, initial = "rotations", frozen}
  func.func @predict(%x: !sluice.seq<@word, 8, f32>) -> !sluice.seq<@word, 8, f32> {
    %r = sluice.read @rotations : tensor<2x8xf32>
    // expected-error@+1 {{S-115: expected rows of the tokens that are predicted for LSH attention, found rows of @words}}
    %b = sluice.hashed_buckets %x, %r : (!sluice.seq<@word, 8, f32>, tensor<2x8xf32>) -> !sluice.seq<@word, 1, f32>
    return %x : !sluice.seq<@word, 8, f32>
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  // expected-error@+1 {{expected a defined axis, found @t}}
  sluice.scale @s1 on @t factor 1
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @t
  sluice.scale @s1 on @t factor 1
  func.func @evaluate(%h: !sluice.seq<@s1, 4, f32>, %w: tensor<7x4xf32>, %t: !sluice.seq<@s1, 0, i32>) {
    // expected-error@+1 {{expected a first scored row of at least 0, found -1}}
    %loss = sluice.cross_entropy %h, %w, %t {offset = 1 : i64, first = -1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<7x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @t
  sluice.scale @s1 on @t factor 1
  func.func @evaluate(%h: !sluice.seq<@s1, 4, f32>, %w: tensor<7x4xf32>, %t: !sluice.seq<@s1, 0, i32>) {
    // expected-error@+1 {{expected label smoothing of at least 0 and below 1, found 1.000000e+00}}
    %loss = sluice.cross_entropy %h, %w, %t {offset = 1 : i64, smoothing = 1.0 : f32} : (!sluice.seq<@s1, 4, f32>, tensor<7x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return
  }
}
