// Reads and writes of named memory are effects: upstream passes keep their order.
// RUN: sluice-opt %s --canonicalize --cse --symbol-dce | FileCheck %s

// Two reads with no write between them become one, and an unused read is removed.
// CHECK-LABEL: func.func @reads
// CHECK-COUNT-1: plan.bind "scalar:seed"
// CHECK-NOT:     plan.bind
// CHECK:         return
func.func @reads() -> (tensor<i32>, tensor<i32>) {
  %unread = plan.bind "scalar:step" : tensor<i32>
  %a = plan.bind "scalar:seed" : tensor<i32>
  %b = plan.bind "scalar:seed" : tensor<i32>
  return %a, %b : tensor<i32>, tensor<i32>
}

// A read after a write is not the read before it, whichever places they name: places may overlap.
// CHECK-LABEL: func.func @write_between
// CHECK:         %[[OLD:.*]] = plan.bind "parameter:w"
// CHECK:         plan.store "flat:parameters"
// CHECK:         %[[NEW:.*]] = plan.bind "parameter:w"
// CHECK:         return %[[OLD]], %[[NEW]]
func.func @write_between(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %old = plan.bind "parameter:w" : tensor<8xf32>
  plan.store "flat:parameters", %x : tensor<8xf32>
  %new = plan.bind "parameter:w" : tensor<8xf32>
  return %old, %new : tensor<8xf32>, tensor<8xf32>
}

// A write is preserved, though it is not read here.
// CHECK-LABEL: func.func @write
// CHECK:         plan.store "output:losses"
func.func @write(%x: tensor<8xf32>) {
  plan.store "output:losses", %x : tensor<8xf32>
  return
}
