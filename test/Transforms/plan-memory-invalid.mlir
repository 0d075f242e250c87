// A value has no memory, so a pass can move a read after the write that ends the value's live range. Planning rejects
// that.
// RUN: sluice-opt %s --sluice-plan-memory -split-input-file -verify-diagnostics

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @read_after_update_in_place() {
  %x = plan.bind "state:x" : tensor<1x8x16xf32>
  %new = dispatch.rows %x attributes {domain = #domain, accesses = [#row], result_accesses = [#row], aliases = array<i64: 0>} {
  ^bb0(%r: tensor<16xf32>):
    %y = arith.addf %r, %r : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
  plan.store "state:x", %new : tensor<1x8x16xf32>
  // expected-error@+1 {{operand 0 lives in memory (state:x) that another dispatch has written since}}
  %late = dispatch.rows %x attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>):
    dispatch.yield %r : tensor<16xf32>
  } : (tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
  plan.store "output:y", %late : tensor<1x8x16xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
#domain = #dispatch.domain<batch = 1, positions = 8, factor = 1>
func.func @read_between_write_and_store() {
  %x = plan.bind "input:x" : tensor<1x8x16xf32>
  %new = dispatch.rows %x attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>):
    %y = arith.addf %r, %r : tensor<16xf32>
    dispatch.yield %y : tensor<16xf32>
  } : (tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
  // expected-error@+1 {{reads state:x between the dispatch that writes it and its plan.store}}
  %old = plan.bind "state:x" : tensor<1x8x16xf32>
  plan.store "state:x", %new : tensor<1x8x16xf32>
  %late = dispatch.rows %old attributes {domain = #domain, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>):
    dispatch.yield %r : tensor<16xf32>
  } : (tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
  plan.store "output:y", %late : tensor<1x8x16xf32>
  return
}

// -----

#row = #dispatch.access<row, factor = 1>
func.func @length_that_nothing_stores() {
  %x = plan.bind "input:x" : tensor<1x8x16xf32>
  // expected-error@+1 {{reads scalar:length.words, which no dispatch before it stores}}
  %y = dispatch.rows %x attributes {domain = #dispatch.domain<batch = 1, positions = 8, factor = 1 axis = "words">, accesses = [#row], result_accesses = [#row]} {
  ^bb0(%r: tensor<16xf32>):
    dispatch.yield %r : tensor<16xf32>
  } : (tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
  plan.store "output:y", %y : tensor<1x8x16xf32>
  return
}
