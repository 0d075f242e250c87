// A decode step reads its weights in fewer bits, and whole sequences multiply by the same weights.
// RUN: sluice-opt %s --sluice-quantize-weights | FileCheck %s
// RUN: sluice-opt %s --sluice-quantize-weights=type=bf16 | FileCheck %s --check-prefix=HALF
// RUN: sluice-opt %s --sluice-quantize-weights=type=int4 | FileCheck %s --check-prefix=GROUPS
// RUN: not sluice-opt %s --sluice-quantize-weights=type=int3 2>&1 | FileCheck %s --check-prefix=TYPE
// TYPE: expected weights of type bf16, int8 or int4, found "int3"

#vector = #dispatch.access<vector>
#row = #dispatch.access<row, factor = 1>
#whole = #dispatch.domain<batch = 2, positions = 16, factor = 1>
#step = #dispatch.domain<batch = 2, positions = 1, factor = 1, scheduled = true>

module attributes {sluice.batch = 2 : i64, sluice.context = 16 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.parameter @w : tensor<5x8xf32> {names = ["w"], sizes = array<i64: 5>, initial = "normal"}

  // One dispatch converts a matrix for all its readers.
  // CHECK-LABEL: func.func @evaluate(
  // CHECK:         %[[Q:.*]] = plan.bind "quantized:w" : tensor<5x8xi8>
  // CHECK:         %[[S:.*]] = plan.bind "scale:w" : tensor<5xf32>
  // CHECK:         %[[W:.*]] = dispatch.rows %[[Q]], %[[S]]
  // CHECK:         ^bb0(%[[N:.*]]: tensor<8xf32>, %[[F:.*]]: f32):
  // CHECK:           %[[SPLAT:.*]] = tensor.splat %[[F]]
  // CHECK:           arith.mulf %[[N]], %[[SPLAT]]
  // CHECK:         (tensor<5x8xi8>, tensor<5xf32>) -> tensor<5x8xf32>
  // CHECK:         dispatch.contract %{{.*}}, %[[W]] attributes
  // CHECK-NOT:     plan.bind
  // CHECK:         dispatch.contract %{{.*}}, %[[W]], %{{.*}} attributes
  // HALF-LABEL:  func.func @evaluate(
  // HALF:          %[[Q:.*]] = plan.bind "quantized:w" : tensor<5x8xbf16>
  // HALF:          %[[W:.*]] = dispatch.rows %[[Q]] attributes
  // HALF:          (tensor<5x8xbf16>) -> tensor<5x8xf32>
  // Groups are converted back in runs of columns: of 8 here, in the lower halves of their bytes.
  // GROUPS-LABEL: func.func @evaluate(
  // GROUPS:         %[[Q:.*]] = plan.bind "quantized:w" : tensor<5x16xi8>
  // GROUPS:         %[[S:.*]] = plan.view %{{.*}} : tensor<5xf32> -> tensor<5x1xf32>
  // GROUPS:         dispatch.rows %[[Q]], %[[S]] attributes
  // GROUPS:         (tensor<5x16xi8>, tensor<5x1xf32>) -> tensor<5x8xf32>
  func.func @evaluate() -> tensor<2x16x5xf32> {
    %x = plan.bind "input:x" : tensor<2x16x8xf32>
    %w = plan.bind "parameter:w" : tensor<5x8xf32>
    %y = dispatch.contract %x, %w attributes {domain = #whole, accesses = [], result_accesses = [#row]} {
    ^bb0(%sum: f32):
      dispatch.yield %sum : f32
    } : (tensor<2x16x8xf32>, tensor<5x8xf32>) -> tensor<2x16x5xf32>
    %again = plan.bind "parameter:w" : tensor<5x8xf32>
    %z = dispatch.contract %x, %again, %y attributes {domain = #whole, accesses = [#row], result_accesses = [#row]} {
    ^bb0(%sum: f32, %other: f32):
      %both = arith.addf %sum, %other : f32
      dispatch.yield %both : f32
    } : (tensor<2x16x8xf32>, tensor<5x8xf32>, tensor<2x16x5xf32>) -> tensor<2x16x5xf32>
    return %z : tensor<2x16x5xf32>
  }

  // Training reads the masters.
  // CHECK-LABEL: func.func @gradient(
  // CHECK:         plan.bind "parameter:w"
  // CHECK-NOT:     plan.bind "quantized
  func.func @gradient() -> tensor<2x16x5xf32> {
    %x = plan.bind "input:x" : tensor<2x16x8xf32>
    %w = plan.bind "parameter:w" : tensor<5x8xf32>
    %y = dispatch.contract %x, %w attributes {domain = #whole, accesses = [], result_accesses = [#row]} {
    ^bb0(%sum: f32):
      dispatch.yield %sum : f32
    } : (tensor<2x16x8xf32>, tensor<5x8xf32>) -> tensor<2x16x5xf32>
    return %y : tensor<2x16x5xf32>
  }

  // Sums are scaled before the epilogue.
  // CHECK-LABEL: func.func @step(
  // CHECK:         %[[Q:.*]] = plan.bind "quantized:w" : tensor<5x8xi8>
  // CHECK:         %[[S:.*]] = plan.bind "scale:w" : tensor<5xf32>
  // CHECK:         dispatch.contract %{{.*}}, %[[Q]], %[[S]], %{{.*}}, %{{.*}} attributes
  // CHECK-SAME:      accesses = [#dispatch.access<vector>, #dispatch.access<vector>]
  // CHECK:         ^bb0(%[[SUM:.*]]: f32, %[[F:.*]]: f32, %[[BIAS:.*]]: f32):
  // CHECK:           %[[SCALED:.*]] = arith.mulf %[[SUM]], %[[F]] : f32
  // CHECK:           arith.addf %[[SCALED]], %[[BIAS]] : f32
  // HALF-LABEL:  func.func @step(
  // HALF:          %[[Q:.*]] = plan.bind "quantized:w" : tensor<5x8xbf16>
  // HALF:          dispatch.contract %{{.*}}, %[[Q]], %{{.*}}, %{{.*}} attributes
  // HALF-NOT:      scale:w
  // Scales of groups come last, and the epilogue is unchanged.
  // GROUPS-LABEL: func.func @step(
  // GROUPS:         %[[Q:.*]] = plan.bind "quantized:w" : tensor<5x16xi8>
  // GROUPS:         %[[S:.*]] = plan.bind "scale:w" : tensor<5xf32>
  // GROUPS:         dispatch.contract %{{.*}}, %[[Q]], %{{.*}}, %[[S]], %{{.*}} attributes
  // GROUPS-SAME:      grouped
  // GROUPS:         ^bb0(%{{.*}}: f32, %{{.*}}: f32):
  // GROUPS-NEXT:      arith.addf
  func.func @step() -> tensor<2x1x5xf32> attributes {sluice.batch = 2 : i64} {
    %x = plan.bind "input:x" : tensor<2x1x8xf32>
    %due = plan.bind "input:due" : tensor<2x3xi64>
    %w = plan.bind "parameter:w" : tensor<5x8xf32>
    %bias = plan.bind "parameter:bias" : tensor<5xf32>
    %y = dispatch.contract %x, %w, %bias, %due attributes {domain = #step, accesses = [#vector], result_accesses = [#row]} {
    ^bb0(%sum: f32, %b: f32):
      %biased = arith.addf %sum, %b : f32
      dispatch.yield %biased : f32
    } : (tensor<2x1x8xf32>, tensor<5x8xf32>, tensor<5xf32>, tensor<2x3xi64>) -> tensor<2x1x5xf32>
    return %y : tensor<2x1x5xf32>
  }

  // A row that is not finite keeps a scale that is not: its sum times zero is added.
  // CHECK-LABEL: func.func @quantize()
  // CHECK:         %[[P:.*]] = plan.bind "parameter:w" : tensor<5x8xf32>
  // CHECK:         %[[R:.*]]:2 = dispatch.rows %[[P]]
  // CHECK:           %[[SIZE:.*]] = math.absf %[[N:.*]] : tensor<8xf32>
  // CHECK:           dispatch.reduce max %[[SIZE]]
  // CHECK:           dispatch.reduce add
  // CHECK:         (tensor<5x8xf32>) -> (tensor<5x8xi8>, tensor<5xf32>)
  // CHECK-NEXT:    plan.store "quantized:w", %[[R]]#0 : tensor<5x8xi8>
  // CHECK-NEXT:    plan.store "scale:w", %[[R]]#1 : tensor<5xf32>
  // HALF-LABEL:  func.func @quantize()
  // HALF:          (tensor<5x8xf32>) -> tensor<5x8xbf16>
  // HALF-NEXT:     plan.store "quantized:w"
  // A half of a group is two runs of 8 columns; a row has one run, and others are outside.
  // GROUPS-LABEL: func.func @quantize()
  // GROUPS:         dispatch.rows %[[P:.*]], %[[P]] attributes
  // GROUPS:           math.floor %{{.*}} : tensor<2x8xf32>
  // GROUPS:         (tensor<5x8xf32>, tensor<5x8xf32>) -> (tensor<5x16xi8>, tensor<5xf32>)
  // GROUPS-NEXT:    plan.store "quantized:w"
  // GROUPS-NEXT:    plan.store "scale:w"
}
