// RUN: sluice-opt %s --sluice-differentiate -verify-diagnostics

// expected-error@+1 {{sluice-differentiate: expected a function @evaluate, found none}}
module attributes {sluice.batch = 2 : i64, sluice.context = 10 : i64} {
}
