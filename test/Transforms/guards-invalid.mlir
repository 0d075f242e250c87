// The IR itself declares the launches that may be left out, and the values that a guard protects: planning memory refuses IR in which it does not hold.
// RUN: sluice-opt %s --sluice-plan-memory -split-input-file -verify-diagnostics

// As the compiler makes them: neither is refused.
#flat = #dispatch.access<flat>
#row = #dispatch.access<row, factor = 1>
#scalar = #dispatch.access<scalar>
#vector = #dispatch.access<vector>
#due = #dispatch.domain<batch = 1, positions = 8, factor = 1, scheduled = true>
#one = #dispatch.domain<batch = 1, positions = 1, factor = 0>
func.func @update() {
  %g = plan.bind "flat:gradients" : tensor<8xf32>
  %loss = plan.bind "scalar:loss" : tensor<f32>
  %finite = dispatch.rows %g, %loss attributes {domain = #one, accesses = [#vector, #scalar], result_accesses = [#scalar]} {
  ^bb0(%r: tensor<8xf32>, %l: f32):
    %sum = dispatch.reduce add %r : tensor<8xf32> -> f32
    %is = arith.cmpf ole, %sum, %l : f32
    %number = arith.extui %is : i1 to i32
    dispatch.yield %number : i32
  } : (tensor<8xf32>, tensor<f32>) -> tensor<i32>
  plan.store "scalar:finite", %finite : tensor<i32>
  %p = plan.bind "flat:parameters" : tensor<8xf32>
  %new = dispatch.rows %p attributes {domain = #one, accesses = [#vector], result_accesses = [#vector], aliases = array<i64: 0>, guard = "finite"} {
  ^bb0(%r: tensor<8xf32>):
    %y = arith.negf %r : tensor<8xf32>
    dispatch.yield %y : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  plan.store "flat:parameters", %new : tensor<8xf32>
  return
}
func.func @step() {
  %take = plan.bind "input:take" : tensor<1xi64>
  %schedule = dispatch.rows %take attributes {domain = #one, accesses = [#flat], result_accesses = [#flat]} {
  ^bb0(%t: i64):
    %row = tensor.splat %t : tensor<3xi64>
    dispatch.yield %row : tensor<3xi64>
  } : (tensor<1xi64>) -> tensor<1x3xi64>
  %numbers = plan.view %schedule : tensor<1x3xi64> -> tensor<3xi64>
  %some = dispatch.rows %numbers attributes {domain = #one, accesses = [#vector], result_accesses = [#scalar]} {
  ^bb0(%n: tensor<3xi64>):
    %most = dispatch.reduce max %n : tensor<3xi64> -> i64
    %number = arith.trunci %most : i64 to i32
    dispatch.yield %number : i32
  } : (tensor<3xi64>) -> tensor<i32>
  plan.store "scalar:due.0", %some : tensor<i32>
  %x = plan.bind "state:x" : tensor<1x8x16xf32>
  %y = dispatch.rows %x, %schedule attributes {domain = #due, accesses = [#row], result_accesses = [#row], guard = "due.0"} {
  ^bb0(%r: tensor<16xf32>):
    dispatch.yield %r : tensor<16xf32>
  } : (tensor<1x8x16xf32>, tensor<1x3xi64>) -> tensor<1x8x16xf32>
  plan.store "state:y", %y : tensor<1x8x16xf32>
  return
}

// -----

#flat = #dispatch.access<flat>
#row = #dispatch.access<row, factor = 1>
#scalar = #dispatch.access<scalar>
#vector = #dispatch.access<vector>
#due = #dispatch.domain<batch = 1, positions = 8, factor = 1, scheduled = true>
#one = #dispatch.domain<batch = 1, positions = 1, factor = 0>
func.func @update() {
  %p = plan.bind "flat:parameters" : tensor<8xf32>
  // expected-error@+1 {{D-060: expected a dispatch before this one, without a guard, to store the guard scalar:finite as tensor<i32>, found none}}
  %new = dispatch.rows %p attributes {domain = #one, accesses = [#vector], result_accesses = [#vector], aliases = array<i64: 0>, guard = "finite"} {
  ^bb0(%r: tensor<8xf32>):
    %y = arith.negf %r : tensor<8xf32>
    dispatch.yield %y : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  plan.store "flat:parameters", %new : tensor<8xf32>
  return
}

// -----

// Its scalar is stored after it: the launch would load the scalar of the previous step.
#flat = #dispatch.access<flat>
#row = #dispatch.access<row, factor = 1>
#scalar = #dispatch.access<scalar>
#vector = #dispatch.access<vector>
#due = #dispatch.domain<batch = 1, positions = 8, factor = 1, scheduled = true>
#one = #dispatch.domain<batch = 1, positions = 1, factor = 0>
func.func @update() {
  %g = plan.bind "flat:gradients" : tensor<8xf32>
  %loss = plan.bind "scalar:loss" : tensor<f32>
  %finite = dispatch.rows %g, %loss attributes {domain = #one, accesses = [#vector, #scalar], result_accesses = [#scalar]} {
  ^bb0(%r: tensor<8xf32>, %l: f32):
    %sum = dispatch.reduce add %r : tensor<8xf32> -> f32
    %is = arith.cmpf ole, %sum, %l : f32
    %number = arith.extui %is : i1 to i32
    dispatch.yield %number : i32
  } : (tensor<8xf32>, tensor<f32>) -> tensor<i32>
  %p = plan.bind "flat:parameters" : tensor<8xf32>
  // expected-error@+1 {{D-060: expected a dispatch before this one}}
  %new = dispatch.rows %p attributes {domain = #one, accesses = [#vector], result_accesses = [#vector], aliases = array<i64: 0>, guard = "finite"} {
  ^bb0(%r: tensor<8xf32>):
    %y = arith.negf %r : tensor<8xf32>
    dispatch.yield %y : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  plan.store "flat:parameters", %new : tensor<8xf32>
  plan.store "scalar:finite", %finite : tensor<i32>
  return
}

// -----

// Nothing of this schedule may be due while the other's is.
#flat = #dispatch.access<flat>
#row = #dispatch.access<row, factor = 1>
#scalar = #dispatch.access<scalar>
#vector = #dispatch.access<vector>
#due = #dispatch.domain<batch = 1, positions = 8, factor = 1, scheduled = true>
#one = #dispatch.domain<batch = 1, positions = 1, factor = 0>
func.func @step() {
  %take = plan.bind "input:take" : tensor<1xi64>
  %schedule = dispatch.rows %take attributes {domain = #one, accesses = [#flat], result_accesses = [#flat]} {
  ^bb0(%t: i64):
    %row = tensor.splat %t : tensor<3xi64>
    dispatch.yield %row : tensor<3xi64>
  } : (tensor<1xi64>) -> tensor<1x3xi64>
  %numbers = plan.view %schedule : tensor<1x3xi64> -> tensor<3xi64>
  %some = dispatch.rows %numbers attributes {domain = #one, accesses = [#vector], result_accesses = [#scalar]} {
  ^bb0(%n: tensor<3xi64>):
    %most = dispatch.reduce max %n : tensor<3xi64> -> i64
    %number = arith.trunci %most : i64 to i32
    dispatch.yield %number : i32
  } : (tensor<3xi64>) -> tensor<i32>
  plan.store "scalar:due.0", %some : tensor<i32>
  %other = plan.bind "state:schedule" : tensor<1x3xi64>
  %x = plan.bind "state:x" : tensor<1x8x16xf32>
  // expected-error@+1 {{D-061: expected a scheduled dispatch under the guard due.0, whose scalar is computed from its schedule, found one of another schedule}}
  %y = dispatch.rows %x, %other attributes {domain = #due, accesses = [#row], result_accesses = [#row], guard = "due.0"} {
  ^bb0(%r: tensor<16xf32>):
    dispatch.yield %r : tensor<16xf32>
  } : (tensor<1x8x16xf32>, tensor<1x3xi64>) -> tensor<1x8x16xf32>
  plan.store "state:y", %y : tensor<1x8x16xf32>
  return
}

// -----

// Devices may start it all the same.
#flat = #dispatch.access<flat>
#row = #dispatch.access<row, factor = 1>
#scalar = #dispatch.access<scalar>
#vector = #dispatch.access<vector>
#due = #dispatch.domain<batch = 1, positions = 8, factor = 1, scheduled = true>
#one = #dispatch.domain<batch = 1, positions = 1, factor = 0>
func.func @update() {
  %take = plan.bind "input:take" : tensor<1xi64>
  %schedule = dispatch.rows %take attributes {domain = #one, accesses = [#flat], result_accesses = [#flat]} {
  ^bb0(%t: i64):
    %row = tensor.splat %t : tensor<3xi64>
    dispatch.yield %row : tensor<3xi64>
  } : (tensor<1xi64>) -> tensor<1x3xi64>
  %numbers = plan.view %schedule : tensor<1x3xi64> -> tensor<3xi64>
  %some = dispatch.rows %numbers attributes {domain = #one, accesses = [#vector], result_accesses = [#scalar]} {
  ^bb0(%n: tensor<3xi64>):
    %most = dispatch.reduce max %n : tensor<3xi64> -> i64
    %number = arith.trunci %most : i64 to i32
    dispatch.yield %number : i32
  } : (tensor<3xi64>) -> tensor<i32>
  plan.store "scalar:due.0", %some : tensor<i32>
  %p = plan.bind "flat:parameters" : tensor<8xf32>
  // expected-error@+1 {{D-061: expected a scheduled dispatch under the guard due.0, whose scalar is computed from its schedule, found no schedule}}
  %new = dispatch.rows %p attributes {domain = #one, accesses = [#vector], result_accesses = [#vector], aliases = array<i64: 0>, guard = "due.0"} {
  ^bb0(%r: tensor<8xf32>):
    %y = arith.negf %r : tensor<8xf32>
    dispatch.yield %y : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  plan.store "flat:parameters", %new : tensor<8xf32>
  return
}

// -----

// Left out, the temporary would hold the earlier contents of its bytes.
#flat = #dispatch.access<flat>
#row = #dispatch.access<row, factor = 1>
#scalar = #dispatch.access<scalar>
#vector = #dispatch.access<vector>
#due = #dispatch.domain<batch = 1, positions = 8, factor = 1, scheduled = true>
#one = #dispatch.domain<batch = 1, positions = 1, factor = 0>
func.func @evaluate() {
  %g = plan.bind "flat:gradients" : tensor<8xf32>
  %loss = plan.bind "scalar:loss" : tensor<f32>
  %finite = dispatch.rows %g, %loss attributes {domain = #one, accesses = [#vector, #scalar], result_accesses = [#scalar]} {
  ^bb0(%r: tensor<8xf32>, %l: f32):
    %sum = dispatch.reduce add %r : tensor<8xf32> -> f32
    %is = arith.cmpf ole, %sum, %l : f32
    %number = arith.extui %is : i1 to i32
    dispatch.yield %number : i32
  } : (tensor<8xf32>, tensor<f32>) -> tensor<i32>
  plan.store "scalar:finite", %finite : tensor<i32>
  %p = plan.bind "flat:parameters" : tensor<8xf32>
  // expected-error@+1 {{D-062: expected the results of a dispatch that the guard finite may forbid to be stored, found result 0 in a temporary}}
  %new = dispatch.rows %p attributes {domain = #one, accesses = [#vector], result_accesses = [#vector], guard = "finite"} {
  ^bb0(%r: tensor<8xf32>):
    %y = arith.negf %r : tensor<8xf32>
    dispatch.yield %y : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

#flat = #dispatch.access<flat>
#row = #dispatch.access<row, factor = 1>
#scalar = #dispatch.access<scalar>
#vector = #dispatch.access<vector>
#due = #dispatch.domain<batch = 1, positions = 8, factor = 1, scheduled = true>
#one = #dispatch.domain<batch = 1, positions = 1, factor = 0>
func.func @update() {
  %g = plan.bind "flat:gradients" : tensor<8xf32>
  %loss = plan.bind "scalar:loss" : tensor<f32>
  %finite = dispatch.rows %g, %loss attributes {domain = #one, accesses = [#vector, #scalar], result_accesses = [#scalar]} {
  ^bb0(%r: tensor<8xf32>, %l: f32):
    %sum = dispatch.reduce add %r : tensor<8xf32> -> f32
    %is = arith.cmpf ole, %sum, %l : f32
    %number = arith.extui %is : i1 to i32
    dispatch.yield %number : i32
  } : (tensor<8xf32>, tensor<f32>) -> tensor<i32>
  plan.store "scalar:finite", %finite : tensor<i32>
  %p = plan.bind "flat:parameters" : tensor<8xf32>
  // expected-error@+1 {{D-063: expected a guard that forbids an update, as this dispatch writes flat:parameters, found none}}
  %new = dispatch.rows %p attributes {domain = #one, accesses = [#vector], result_accesses = [#vector], aliases = array<i64: 0>} {
  ^bb0(%r: tensor<8xf32>):
    %y = arith.negf %r : tensor<8xf32>
    dispatch.yield %y : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  plan.store "flat:parameters", %new : tensor<8xf32>
  return
}

// -----

// In place, without a plan.store: it is the memory that counts.
#flat = #dispatch.access<flat>
#row = #dispatch.access<row, factor = 1>
#scalar = #dispatch.access<scalar>
#vector = #dispatch.access<vector>
#due = #dispatch.domain<batch = 1, positions = 8, factor = 1, scheduled = true>
#one = #dispatch.domain<batch = 1, positions = 1, factor = 0>
func.func @update() {
  %g = plan.bind "flat:gradients" : tensor<8xf32>
  %loss = plan.bind "scalar:loss" : tensor<f32>
  %finite = dispatch.rows %g, %loss attributes {domain = #one, accesses = [#vector, #scalar], result_accesses = [#scalar]} {
  ^bb0(%r: tensor<8xf32>, %l: f32):
    %sum = dispatch.reduce add %r : tensor<8xf32> -> f32
    %is = arith.cmpf ole, %sum, %l : f32
    %number = arith.extui %is : i1 to i32
    dispatch.yield %number : i32
  } : (tensor<8xf32>, tensor<f32>) -> tensor<i32>
  plan.store "scalar:finite", %finite : tensor<i32>
  %p = plan.bind "flat:parameters" : tensor<8xf32>
  // expected-error@+1 {{D-063: expected a guard that forbids an update, as this dispatch writes flat:parameters, found none}}
  %new = dispatch.rows %p attributes {domain = #one, accesses = [#vector], result_accesses = [#vector], aliases = array<i64: 0>} {
  ^bb0(%r: tensor<8xf32>):
    %y = arith.negf %r : tensor<8xf32>
    dispatch.yield %y : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// A guard that does not depend on the loss lets an update through that is not finite.
#flat = #dispatch.access<flat>
#row = #dispatch.access<row, factor = 1>
#scalar = #dispatch.access<scalar>
#vector = #dispatch.access<vector>
#due = #dispatch.domain<batch = 1, positions = 8, factor = 1, scheduled = true>
#one = #dispatch.domain<batch = 1, positions = 1, factor = 0>
func.func @update() {
  %g = plan.bind "flat:gradients" : tensor<8xf32>
  %loss = plan.bind "scalar:step_size" : tensor<f32>
  %finite = dispatch.rows %g, %loss attributes {domain = #one, accesses = [#vector, #scalar], result_accesses = [#scalar]} {
  ^bb0(%r: tensor<8xf32>, %l: f32):
    %sum = dispatch.reduce add %r : tensor<8xf32> -> f32
    %is = arith.cmpf ole, %sum, %l : f32
    %number = arith.extui %is : i1 to i32
    dispatch.yield %number : i32
  } : (tensor<8xf32>, tensor<f32>) -> tensor<i32>
  plan.store "scalar:finite", %finite : tensor<i32>
  %p = plan.bind "flat:parameters" : tensor<8xf32>
  // expected-error@+1 {{D-064: expected the guard finite to be computed from scalar:loss and the gradients}}
  %new = dispatch.rows %p attributes {domain = #one, accesses = [#vector], result_accesses = [#vector], aliases = array<i64: 0>, guard = "finite"} {
  ^bb0(%r: tensor<8xf32>):
    %y = arith.negf %r : tensor<8xf32>
    dispatch.yield %y : tensor<8xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  plan.store "flat:parameters", %new : tensor<8xf32>
  return
}

// -----

// Each of the batches of an update would draw the same numbers.
#flat = #dispatch.access<flat>
#row = #dispatch.access<row, factor = 1>
#scalar = #dispatch.access<scalar>
#vector = #dispatch.access<vector>
#due = #dispatch.domain<batch = 1, positions = 8, factor = 1, scheduled = true>
#one = #dispatch.domain<batch = 1, positions = 1, factor = 0>
module attributes {sluice.accumulate = 2 : i64} {
func.func @gradient() {
  %x = plan.bind "input:x" : tensor<1x8x16xf32>
  // expected-error@+1 {{D-065: expected draws_by_update on a dispatch of @gradient, where an update has 2 batches and this draws random numbers, found none}}
  %y = dispatch.rows %x attributes {domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>):
    %u = dispatch.random {id = 3 : i64, width = 16 : i64} : tensor<16xf32>
    %z = arith.addf %r, %u : tensor<16xf32>
    dispatch.yield %z : tensor<16xf32>
  } : (tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
  plan.store "output:y", %y : tensor<1x8x16xf32>
  return
}
}

// -----

#flat = #dispatch.access<flat>
#row = #dispatch.access<row, factor = 1>
#scalar = #dispatch.access<scalar>
#vector = #dispatch.access<vector>
#due = #dispatch.domain<batch = 1, positions = 8, factor = 1, scheduled = true>
#one = #dispatch.domain<batch = 1, positions = 1, factor = 0>
func.func @gradient() {
  %x = plan.bind "input:x" : tensor<1x8x16xf32>
  // expected-error@+1 {{D-065: expected no draws_by_update on a dispatch of @gradient, where an update has 1 batches, or which draws nothing, found one}}
  %y = dispatch.rows %x attributes {domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>, accesses = [#row], result_accesses = [#row], draws_by_update} {
  ^bb0(%r: tensor<16xf32>):
    %u = dispatch.random {id = 3 : i64, width = 16 : i64} : tensor<16xf32>
    %z = arith.addf %r, %u : tensor<16xf32>
    dispatch.yield %z : tensor<16xf32>
  } : (tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
  plan.store "output:y", %y : tensor<1x8x16xf32>
  return
}

// -----

#flat = #dispatch.access<flat>
#row = #dispatch.access<row, factor = 1>
#scalar = #dispatch.access<scalar>
#vector = #dispatch.access<vector>
#due = #dispatch.domain<batch = 1, positions = 8, factor = 1, scheduled = true>
#one = #dispatch.domain<batch = 1, positions = 1, factor = 0>
module attributes {sluice.accumulate = 2 : i64} {
func.func @gradient() {
  %x = plan.bind "input:x" : tensor<1x8x16xf32>
  // expected-error@+1 {{D-065: expected no draws_by_update on a dispatch of @gradient, where an update has 2 batches, or which draws nothing, found one}}
  %y = dispatch.rows %x attributes {domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>, accesses = [#row], result_accesses = [#row], draws_by_update} {
  ^bb0(%r: tensor<16xf32>):
    %z = arith.addf %r, %r : tensor<16xf32>
    dispatch.yield %z : tensor<16xf32>
  } : (tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
  plan.store "output:y", %y : tensor<1x8x16xf32>
  return
}
}

// -----

// expected-error@+1 {{expected an entry without arguments and results, found '() -> tensor<8xf32>'; run sluice-build-entries before}}
func.func @returns() -> tensor<8xf32> {
  %x = plan.bind "input:x" : tensor<8xf32>
  return %x : tensor<8xf32>
}
