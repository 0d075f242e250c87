// RUN: sluice-opt %s --sluice-differentiate --split-input-file -verify-diagnostics

// expected-error@+1 {{sluice-differentiate: expected a function @evaluate, found none}}
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  // expected-error@+1 {{sluice-differentiate: expected @evaluate to have an objective, or to return the losses of one}}
  func.func @evaluate(%tokens: !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, i32> {
    return %tokens : !sluice.seq<@fine, 0, i32>
  }
}

// -----

module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
  sluice.axis @tokens
  sluice.scale @fine on @tokens factor 1
  func.func @evaluate(%loss: !sluice.seq<@fine, 0, f32>) -> !sluice.seq<@fine, 0, f32> {
    sluice.objective %loss {names = ["one"], factors = array<f64: 1.0>, first = array<i64: 0>} : !sluice.seq<@fine, 0, f32>
    // expected-error@+1 {{sluice-differentiate: expected one objective in @evaluate, found another}}
    sluice.objective %loss {names = ["two"], factors = array<f64: 1.0>, first = array<i64: 0>} : !sluice.seq<@fine, 0, f32>
    return %loss : !sluice.seq<@fine, 0, f32>
  }
}
