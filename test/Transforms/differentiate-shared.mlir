// Gradients of a parameter that several stages read are added: of two in the order in which they are computed, as a sum
// of two numbers does not depend on it; of more in the order of the stages.
// RUN: sluice-opt %s --split-input-file --sluice-differentiate | FileCheck %s

// A table by position.

// CHECK-LABEL: func.func @gradient
// CHECK:         %[[LATER:.*]] = sluice.position_backward
// CHECK:         %[[EARLIER:.*]] = sluice.position_backward
// CHECK:         %[[SUM:.*]] = sluice.add_gradients %[[LATER]], %[[EARLIER]] : tensor<8x4xf32>
// CHECK:         sluice.store_gradient @p, %[[SUM]]
module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.parameter @w : tensor<4x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 4>}
  sluice.parameter @p : tensor<8x4xf32> {initial = "normal", names = ["p"], sizes = array<i64: 8>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %p = sluice.read @p : tensor<8x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %y = sluice.position %p : (tensor<8x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %z = sluice.position %p : (tensor<8x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %s = sluice.map(%x, %y, %z) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %ab = arith.addf %a, %b : f32
      %abc = arith.addf %ab, %c : f32
      sluice.yield %abc : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %loss = sluice.cross_entropy %s, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %loss : !sluice.seq<@s1, 0, f32>
  }
}

// -----

// A norm's gain.

// CHECK-LABEL: func.func @gradient
// CHECK:         %{{.*}}, %[[LATER:.*]] = sluice.norm_backward
// CHECK:         %{{.*}}, %[[EARLIER:.*]] = sluice.norm_backward
// CHECK:         %[[SUM:.*]] = sluice.add_gradients %[[LATER]], %[[EARLIER]] : tensor<4xf32>
// CHECK:         sluice.store_gradient @g, %[[SUM]]
module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.parameter @w : tensor<4x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 4>}
  sluice.parameter @g : tensor<4xf32> {initial = "ones", names = ["g"], sizes = array<i64: 4>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %g = sluice.read @g : tensor<4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %y, %m, %r = sluice.norm %x, %g {epsilon = 1.0e-5 : f64, rms} : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %z, %n, %q = sluice.norm %y, %g {epsilon = 1.0e-5 : f64, rms} : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %loss = sluice.cross_entropy %z, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %loss : !sluice.seq<@s1, 0, f32>
  }
}

// -----

// A table by distance.

// CHECK-LABEL: func.func @gradient
// CHECK:         %[[LATER:.*]]:2 = sluice.attention_backward
// CHECK:         %[[EARLIER:.*]]:2 = sluice.attention_backward
// CHECK:         %[[SUM:.*]] = sluice.add_gradients %[[LATER]]#1, %[[EARLIER]]#1 : tensor<8x1xf32>
// CHECK:         sluice.store_gradient @b, %[[SUM]]
module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.parameter @w : tensor<4x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 4>}
  sluice.parameter @b : tensor<8x1xf32> {initial = "zeros", names = ["b"], sizes = array<i64: 8>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %b = sluice.read @b : tensor<8x1xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %y, %lx = sluice.attention %x, %x, %x, %b attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, distance_bias,
        query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %e: f32):
      %c = arith.addf %s, %e : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, tensor<8x1xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>)
    %o, %ly = sluice.attention %y, %y, %y, %b attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, distance_bias,
        query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %e: f32):
      %c = arith.addf %s, %e : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, tensor<8x1xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>)
    %loss = sluice.cross_entropy %o, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %loss : !sluice.seq<@s1, 0, f32>
  }
}

// -----

// A learned first row.

// CHECK-LABEL: func.func @gradient
// CHECK:         %[[LATER:.*]] = sluice.start_backward {{.*}} by 2
// CHECK:         %[[EARLIER:.*]] = sluice.start_backward {{.*}} by 1
// CHECK:         %[[SUM:.*]] = sluice.add_gradients %[[LATER]], %[[EARLIER]] : tensor<4xf32>
// CHECK:         sluice.store_gradient @r, %[[SUM]]
module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.parameter @w : tensor<4x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 4>}
  sluice.parameter @r : tensor<4xf32> {initial = "normal", names = ["r"], sizes = array<i64: 4>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %r = sluice.read @r : tensor<4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %y = sluice.start %x, %r by 1 : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %z = sluice.start %y, %r by 2 : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %l = sluice.cross_entropy %z, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %l : !sluice.seq<@s1, 0, f32>
  }
}

// -----

// Three stages.

// CHECK-LABEL: func.func @gradient
// CHECK:         %[[LAST:.*]] = sluice.start_backward {{.*}} by 3
// CHECK:         %[[MIDDLE:.*]] = sluice.start_backward {{.*}} by 2
// CHECK:         %[[FIRST:.*]] = sluice.start_backward {{.*}} by 1
// CHECK:         %[[TWO:.*]] = sluice.add_gradients %[[FIRST]], %[[MIDDLE]] : tensor<4xf32>
// CHECK:         %[[SUM:.*]] = sluice.add_gradients %[[TWO]], %[[LAST]] : tensor<4xf32>
// CHECK:         sluice.store_gradient @r, %[[SUM]]
module attributes {sluice.batch = 2 : i64, sluice.context = 8 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.parameter @w : tensor<4x4xf32> {initial = "normal", names = ["w"], sizes = array<i64: 4>}
  sluice.parameter @r : tensor<4xf32> {initial = "normal", names = ["r"], sizes = array<i64: 4>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<4x4xf32>
    %r = sluice.read @r : tensor<4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<4x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %y = sluice.start %x, %r by 1 : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %z = sluice.start %y, %r by 2 : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %o = sluice.start %z, %r by 3 : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %l = sluice.cross_entropy %o, %w, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %l : !sluice.seq<@s1, 0, f32>
  }
}
