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
