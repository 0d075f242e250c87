// A prompt's rows of segments: those that closed and one more, where no schedule runs further
// ahead. After a shift by 2 it does, and all rows of the axis are computed.
// RUN: sluice compile %S/Inputs/segments-ahead.json --emit dispatches --target cpu-avx2 | FileCheck %s

// CHECK-LABEL: func.func @prefill()
// CHECK:         axis = "near"
// CHECK-NOT:     axis = "far"
// CHECK:         return

// The first row after a shift comes with the first token, as the second may: both are kept.
// RUN: sluice compile %S/Inputs/segments-ahead.json --emit step | FileCheck %s --check-prefix=STEP
// STEP: sluice.schedule @[[LATE:.*]] segments of @near {{.*}} first 0 {{.*}} burst 2
// STEP: sluice.state @state.stages.4.norm ring 2 :
// STEP: sluice.due %{{.*}} by @[[LATE]]
