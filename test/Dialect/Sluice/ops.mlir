// RUN: sluice-opt %s | sluice-opt | FileCheck %s

// CHECK: #[[CAUSAL:.*]] = affine_set<(d0, d1)[s0] : (d0 - d1 >= 0)>
module attributes {sluice.batch = 2 : i64, sluice.context = 16 : i64} {
  // CHECK: sluice.axis @tokens
  sluice.axis @tokens
  // CHECK: sluice.scale @fine on @tokens factor 1
  sluice.scale @fine on @tokens factor 1
  sluice.scale @coarse on @tokens factor 4
  sluice.scale @last on @tokens factor 0
  // CHECK: sluice.axis @words segments of @fine capacity 6 least 2
  sluice.axis @words segments of @fine capacity 6 least 2
  // CHECK: sluice.axis @parts segments of @w capacity 4{{$}}
  sluice.axis @parts segments of @w capacity 4
  sluice.scale @w on @words factor 1
  sluice.axis @source given 32 vocabulary 256 streams {ends = 2 : i64}
  sluice.scale @inputs on @source factor 1
  sluice.axis @phrases segments of @inputs capacity 32
  sluice.scale @units on @phrases factor 1
  // CHECK: sluice.parameter @table : tensor<7x8xf32> {decay, deviation = 2.000000e-02 : f64, initial = "normal", names = ["token.weight"], sizes = array<i64: 7>}
  sluice.parameter @table : tensor<7x8xf32> {names = ["token.weight"], sizes = array<i64: 7>, initial = "normal", deviation = 0.02 : f64, decay}

  // CHECK-LABEL: func.func @forward
  func.func @forward(%t: !sluice.seq<@fine, 0, i32>, %p: tensor<16x8xf32>, %v: tensor<8xf32>, %w: tensor<8x8xf32>)
      -> !sluice.seq<@last, 8, f32> {
    // CHECK: %[[TABLE:.*]] = sluice.read @table : tensor<7x8xf32>
    %table = sluice.read @table : tensor<7x8xf32>
    // CHECK: %[[X:.*]] = sluice.embed %{{.*}}, %[[TABLE]] : (!sluice.seq<@fine, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@fine, 8, f32>
    %x = sluice.embed %t, %table : (!sluice.seq<@fine, 0, i32>, tensor<7x8xf32>) -> !sluice.seq<@fine, 8, f32>
    // CHECK: sluice.position %{{.*}} : (tensor<16x8xf32>)
    %q = sluice.position %p : (tensor<16x8xf32>) -> !sluice.seq<@fine, 8, f32>
    // CHECK: sluice.map(%[[X]], %{{.*}}) {
    // CHECK: dispatch.random {id = 3 : i64, width = 8 : i64} : f32
    // CHECK: sluice.yield %{{.*}} : f32
    %y = sluice.map(%x, %q) {
    ^bb0(%a: f32, %b: f32):
      %u = dispatch.random {id = 3 : i64, width = 8 : i64} : f32
      %c = arith.mulf %b, %u : f32
      %d = arith.addf %a, %c : f32
      sluice.yield %d : f32
    } : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>) -> !sluice.seq<@fine, 8, f32>
    // CHECK: sluice.norm %{{.*}}, %{{.*}}, %{{.*}} {epsilon = 1.000000e-05 : f64}
    %n, %mean, %rstd = sluice.norm %y, %v, %v {epsilon = 1.0e-5 : f64} : (!sluice.seq<@fine, 8, f32>, tensor<8xf32>, tensor<8xf32>)
        -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 0, f32>, !sluice.seq<@fine, 0, f32>)
    // CHECK: sluice.norm %{{.*}}, %{{.*}} {epsilon = 1.000000e-05 : f64, rms}
    %r, %zero, %rstd2 = sluice.norm %y, %v {epsilon = 1.0e-5 : f64, rms} : (!sluice.seq<@fine, 8, f32>, tensor<8xf32>)
        -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 0, f32>, !sluice.seq<@fine, 0, f32>)
    // CHECK: sluice.linear
    %l = sluice.linear %n, %w, %v : (!sluice.seq<@fine, 8, f32>, tensor<8x8xf32>, tensor<8xf32>) -> !sluice.seq<@fine, 8, f32>
    // CHECK: sluice.shift %{{.*}} by 3
    %s = sluice.shift %l by 3 : (!sluice.seq<@fine, 8, f32>) -> !sluice.seq<@fine, 8, f32>
    // CHECK: sluice.start %{{.*}}, %{{.*}} by 3
    %begun = sluice.start %l, %v by 3 : (!sluice.seq<@fine, 8, f32>, tensor<8xf32>) -> !sluice.seq<@fine, 8, f32>
    // CHECK: sluice.start_backward %{{.*}} by 3 : (!sluice.seq<@fine, 8, f32>) -> tensor<8xf32>
    %first = sluice.start_backward %begun by 3 : (!sluice.seq<@fine, 8, f32>) -> tensor<8xf32>
    // CHECK: sluice.shorten %{{.*}} factor 4 sum
    %g = sluice.shorten %s factor 4 sum : (!sluice.seq<@fine, 8, f32>) -> !sluice.seq<@coarse, 8, f32>
    // CHECK: sluice.shorten %{{.*}} factor 4 max :
    %m = sluice.shorten %s factor 4 max : (!sluice.seq<@fine, 8, f32>) -> !sluice.seq<@coarse, 8, f32>
    // CHECK: sluice.shorten %{{.*}} factor 4 window 6 mask %{{.*}} combine identity 1.000000e+00 {
    // CHECK-NEXT: ^bb0(%[[SO_FAR:.*]]: f32, %[[LATER:.*]]: f32):
    // CHECK-NEXT:   arith.mulf %[[SO_FAR]], %[[LATER]] : f32
    // CHECK-NEXT:   sluice.yield
    // CHECK-NEXT: } : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 0, f32>) -> !sluice.seq<@coarse, 8, f32>
    %products = sluice.shorten %s factor 4 window 6 mask %rstd2 combine identity 1.0 {
    ^bb0(%a: f32, %b: f32):
      %c = arith.mulf %a, %b : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 0, f32>) -> !sluice.seq<@coarse, 8, f32>
    // CHECK: sluice.shorten_max_backward %{{.*}}, %{{.*}} factor 4
    %z = sluice.shorten_max_backward %s, %m factor 4 : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@coarse, 8, f32>) -> !sluice.seq<@coarse, 32, f32>
    // CHECK: sluice.shorten %{{.*}} factor 4 window 6 sum
    %windows = sluice.shorten %s factor 4 window 6 sum : (!sluice.seq<@fine, 8, f32>) -> !sluice.seq<@coarse, 8, f32>
    // CHECK: sluice.shorten_max_backward %{{.*}}, %{{.*}} factor 4 window 2
    %chosen = sluice.shorten_max_backward %s, %m factor 4 window 2 : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@coarse, 8, f32>) -> !sluice.seq<@coarse, 16, f32>
    // CHECK: sluice.overlap_add %{{.*}} factor 4 window 2
    %laid = sluice.overlap_add %chosen factor 4 window 2 : (!sluice.seq<@coarse, 16, f32>) -> !sluice.seq<@coarse, 32, f32>
    // CHECK: sluice.fold %{{.*}} factor 4 window 2
    %folded = sluice.fold %s factor 4 window 2 : (!sluice.seq<@fine, 8, f32>) -> !sluice.seq<@coarse, 16, f32>
    // CHECK: sluice.fold %{{.*}} factor 4
    %f = sluice.fold %s factor 4 : (!sluice.seq<@fine, 8, f32>) -> !sluice.seq<@coarse, 32, f32>
    // CHECK: sluice.unfold %{{.*}} factor 4
    %h = sluice.unfold %f factor 4 : (!sluice.seq<@coarse, 32, f32>) -> !sluice.seq<@fine, 8, f32>
    // CHECK: sluice.upsample %{{.*}} factor 4
    %i = sluice.upsample %g factor 4 : (!sluice.seq<@coarse, 8, f32>) -> !sluice.seq<@fine, 8, f32>
    // CHECK: sluice.last
    %j = sluice.last %i : (!sluice.seq<@fine, 8, f32>) -> !sluice.seq<@last, 8, f32>
    // CHECK: sluice.cross_entropy %{{.*}}, %{{.*}}, %{{.*}} {offset = 1 : i64}
    %k = sluice.cross_entropy %h, %table, %t {offset = 1 : i64} : (!sluice.seq<@fine, 8, f32>, tensor<7x8xf32>, !sluice.seq<@fine, 0, i32>)
        -> !sluice.seq<@fine, 0, f32>
    // CHECK: sluice.cross_entropy %{{.*}}, %{{.*}}, %{{.*}} {first = 3 : i64, offset = 1 : i64, smoothing = 1.000000e-01 : f32}
    %late = sluice.cross_entropy %h, %table, %t {offset = 1 : i64, first = 3 : i64, smoothing = 0.1 : f32}
        : (!sluice.seq<@fine, 8, f32>, tensor<7x8xf32>, !sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32>
    // CHECK: sluice.objective %{{.*}}, %{{.*}} {factors = array<f64: 1.000000e+00, 3.000000e-01>, first = array<i64: 0, 3>, names = ["next", "bag"]}
    sluice.objective %k, %late {names = ["next", "bag"], factors = array<f64: 1.0, 0.3>, first = array<i64: 0, 3>}
        : !sluice.seq<@fine, 0, f32>, !sluice.seq<@fine, 0, f32>
    return %j : !sluice.seq<@last, 8, f32>
  }

  // CHECK-LABEL: func.func @attention
  func.func @attention(%x: !sluice.seq<@fine, 24, f32>, %dy: !sluice.seq<@fine, 8, f32>, %rotary: tensor<16x4xf32>) -> !sluice.seq<@fine, 24, f32> {
    // CHECK: sluice.attention
    // CHECK-SAME: heads = 2 : i64
    // CHECK-SAME: mask = #[[CAUSAL]]
    // CHECK: ^bb0(%{{.*}}: f32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32):
    %o, %lse = sluice.attention %x, %x, %x, %rotary attributes {heads = 2 : i64, kv_heads = 2 : i64, head_size = 4 : i64,
        query_column = 0 : i64, key_column = 8 : i64, value_column = 16 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      %scale = arith.constant 0.5 : f32
      %r = arith.mulf %s, %scale : f32
      sluice.yield %r : f32
    } : (!sluice.seq<@fine, 24, f32>, !sluice.seq<@fine, 24, f32>, !sluice.seq<@fine, 24, f32>, tensor<16x4xf32>)
        -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 2, f32>)
    // CHECK: sluice.attention_backward
    // CHECK: derivative {
    %dx = sluice.attention_backward %x, %x, %x, %o, %lse, %dy, %rotary attributes {heads = 2 : i64, kv_heads = 2 : i64, head_size = 4 : i64,
        query_column = 0 : i64, key_column = 8 : i64, value_column = 16 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32):
      %scale = arith.constant 0.5 : f32
      %r = arith.mulf %s, %scale : f32
      sluice.yield %r : f32
    } derivative {
    ^bb0(%s: f32, %p: i32, %q: i32, %h: i32, %g: f32):
      %scale = arith.constant 0.5 : f32
      %r = arith.mulf %g, %scale : f32
      sluice.yield %r : f32
    } : (!sluice.seq<@fine, 24, f32>, !sluice.seq<@fine, 24, f32>, !sluice.seq<@fine, 24, f32>, !sluice.seq<@fine, 8, f32>,
         !sluice.seq<@fine, 2, f32>, !sluice.seq<@fine, 8, f32>, tensor<16x4xf32>) -> !sluice.seq<@fine, 24, f32>
    return %dx : !sluice.seq<@fine, 24, f32>
  }

  // CHECK-LABEL: func.func @attention_by_distance
  func.func @attention_by_distance(%q: !sluice.seq<@fine, 8, f32>, %x: !sluice.seq<@fine, 16, f32>, %u: !sluice.seq<@fine, 8, f32>,
      %r: !sluice.seq<@fine, 8, f32>, %bias: tensor<5x2xf32>, %dy: !sluice.seq<@fine, 8, f32>) -> tensor<5x2xf32> {
    // CHECK: sluice.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} attributes {distance_bias,
    %o, %lse = sluice.attention %q, %x, %x, %u, %r, %bias attributes {heads = 2 : i64, kv_heads = 2 : i64, head_size = 4 : i64, distance_bias,
        query_column = 0 : i64, key_column = 0 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %k: i32, %h: i32, %d: f32, %e: f32):
      %both = arith.addf %s, %d : f32
      %c = arith.addf %both, %e : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 8, f32>,
         !sluice.seq<@fine, 8, f32>, tensor<5x2xf32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 2, f32>)
    // CHECK: %{{.*}}:5 = sluice.attention_backward
    %y:5 = sluice.attention_backward %q, %x, %x, %o, %lse, %dy, %u, %r, %bias attributes {heads = 2 : i64, kv_heads = 2 : i64, head_size = 4 : i64,
        distance_bias, query_column = 0 : i64, key_column = 0 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %k: i32, %h: i32, %d: f32, %e: f32):
      %both = arith.addf %s, %d : f32
      %c = arith.addf %both, %e : f32
      sluice.yield %c : f32
    } derivative {
    ^bb0(%s: f32, %p: i32, %k: i32, %h: i32, %d: f32, %e: f32, %g: f32):
      sluice.yield %g, %g, %g : f32, f32, f32
    } : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 8, f32>,
         !sluice.seq<@fine, 2, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, tensor<5x2xf32>)
        -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, tensor<5x2xf32>)
    return %y#4 : tensor<5x2xf32>
  }

  // CHECK-LABEL: func.func @attention_in_both_directions
  func.func @attention_in_both_directions(%q: !sluice.seq<@fine, 8, f32>, %x: !sluice.seq<@fine, 16, f32>, %rows: tensor<5x4xf32>,
      %bias: tensor<3x2xf32>) -> !sluice.seq<@fine, 8, f32> {
    // CHECK: sluice.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} attributes {centered, distance = #{{.*}}, distance_bias,
    %o, %lse = sluice.attention %q, %x, %x, %q, %rows, %bias attributes {heads = 2 : i64, kv_heads = 2 : i64, head_size = 4 : i64,
        distance_bias, centered, distance = affine_map<(p, q) -> (p - q + 15)>,
        query_column = 0 : i64, key_column = 0 : i64, value_column = 8 : i64, mask = affine_set<(p, q)[n] : (n - 1 - q >= 0)>} {
    ^bb0(%s: f32, %p: i32, %k: i32, %h: i32, %d: f32, %e: f32):
      %both = arith.addf %s, %d : f32
      %c = arith.addf %both, %e : f32
      sluice.yield %c : f32
    } : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 16, f32>, !sluice.seq<@fine, 8, f32>,
         tensor<5x4xf32>, tensor<3x2xf32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 2, f32>)
    return %o : !sluice.seq<@fine, 8, f32>
  }

  // CHECK-LABEL: func.func @backward
  func.func @backward(%t: !sluice.seq<@fine, 0, i32>, %x: !sluice.seq<@fine, 8, f32>, %dy: !sluice.seq<@fine, 8, f32>,
                      %n: !sluice.seq<@fine, 0, f32>, %v: tensor<8xf32>, %w: tensor<8x8xf32>, %table: tensor<7x8xf32>) {
    // CHECK: sluice.cross_entropy_backward %{{.*}}, %{{.*}}, %{{.*}} {offset = 1 : i64
    %l, %dh, %dt = sluice.cross_entropy_backward %x, %table, %t {offset = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>}
        : (!sluice.seq<@fine, 8, f32>, tensor<7x8xf32>, !sluice.seq<@fine, 0, i32>) -> (!sluice.seq<@fine, 0, f32>, !sluice.seq<@fine, 8, f32>, tensor<7x8xf32>)
    // CHECK: sluice.mean_gradient {factor = 5.000000e-01 : f32, first = 3 : i64} : <@fine, 0, f32>
    %share = sluice.mean_gradient {factor = 0.5 : f32, first = 3 : i64} : !sluice.seq<@fine, 0, f32>
    // CHECK: sluice.linear_input_gradient
    %dx = sluice.linear_input_gradient %dh, %w : (!sluice.seq<@fine, 8, f32>, tensor<8x8xf32>) -> !sluice.seq<@fine, 8, f32>
    // CHECK: sluice.linear_weight_gradient
    %dw, %db = sluice.linear_weight_gradient %dy, %x {operandSegmentSizes = array<i32: 1, 1, 0, 0>, resultSegmentSizes = array<i32: 1, 1>}
        : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>) -> (tensor<8x8xf32>, tensor<8xf32>)
    // CHECK: sluice.norm_backward
    %di, %dgain, %dbias = sluice.norm_backward %x, %v, %n, %n, %dy : (!sluice.seq<@fine, 8, f32>, tensor<8xf32>, !sluice.seq<@fine, 0, f32>,
        !sluice.seq<@fine, 0, f32>, !sluice.seq<@fine, 8, f32>) -> (!sluice.seq<@fine, 8, f32>, tensor<8xf32>, tensor<8xf32>)
    // CHECK: sluice.position_backward
    %dp = sluice.position_backward %di : (!sluice.seq<@fine, 8, f32>) -> tensor<16x8xf32>
    // CHECK: sluice.embed_backward %{{.*}}, %{{.*}}, %{{.*}} :
    %de = sluice.embed_backward %t, %dx, %dt : (!sluice.seq<@fine, 0, i32>, !sluice.seq<@fine, 8, f32>, tensor<7x8xf32>) -> tensor<7x8xf32>
    // CHECK: sluice.add_gradients %{{.*}}, %{{.*}} : tensor<7x8xf32>
    %ds = sluice.add_gradients %dt, %de : tensor<7x8xf32>
    // CHECK: sluice.begin_backward
    sluice.begin_backward
    // CHECK: sluice.store_gradient @table, %{{.*}} : tensor<7x8xf32>
    sluice.store_gradient @table, %de : tensor<7x8xf32>
    return
  }

  // CHECK-LABEL: func.func @edges
  func.func @edges(%x: !sluice.seq<@inputs, 8, f32>) {
    // CHECK: %[[N:.*]] = sluice.degrees over "links" capacity 6 : () -> !sluice.seq<@inputs, 0, f32>
    %n = sluice.degrees over "links" capacity 6 : () -> !sluice.seq<@inputs, 0, f32>
    // CHECK: sluice.graph_sum %{{.*}} left(%[[N]]) right(%[[N]]) over "links" capacity 6 :
    %p = sluice.graph_sum %x left(%n) right(%n) over "links" capacity 6
        : (!sluice.seq<@inputs, 8, f32>, !sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 0, f32>) -> !sluice.seq<@inputs, 8, f32>
    // CHECK: sluice.graph_sum %{{.*}} right(%[[N]]) over "links" capacity 6 :
    %m = sluice.graph_sum %p right(%n) over "links" capacity 6
        : (!sluice.seq<@inputs, 8, f32>, !sluice.seq<@inputs, 0, f32>) -> !sluice.seq<@inputs, 8, f32>
    // CHECK: %[[Y:.*]], %[[LSE:.*]] = sluice.graph_attention %[[N]], %[[N]], %{{.*}} over "links" capacity 6 leak 2.000000e-01 :
    %y, %lse = sluice.graph_attention %n, %n, %x over "links" capacity 6 leak 2.000000e-01
        : (!sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 8, f32>) -> (!sluice.seq<@inputs, 8, f32>, !sluice.seq<@inputs, 0, f32>)
    // CHECK: sluice.graph_attention_backward %[[N]], %[[N]], %{{.*}} result %[[Y]], %[[LSE]] by %{{.*}} over "links" capacity 6 leak 2.000000e-01 :
    %d:3 = sluice.graph_attention_backward %n, %n, %x result %y, %lse by %p over "links" capacity 6 leak 2.000000e-01
        : (!sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 8, f32>, !sluice.seq<@inputs, 8, f32>, !sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 8, f32>)
        -> (!sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 8, f32>)
    return
  }

  // CHECK-LABEL: func.func @ranges
  func.func @ranges(%x: !sluice.seq<@inputs, 24, f32>, %z: !sluice.seq<@inputs, 8, f32>, %s: !sluice.seq<@inputs, 0, f32>, %first: !sluice.seq<@inputs, 0, i32>,
      %end: !sluice.seq<@inputs, 0, i32>) {
    // CHECK: sluice.graph_attention %{{.*}}, %{{.*}}, %{{.*}} range(%{{.*}}, %{{.*}}) leak 2.000000e-01 :
    %y, %lse = sluice.graph_attention %s, %s, %z range(%first, %end) leak 2.000000e-01
        : (!sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 0, f32>, !sluice.seq<@inputs, 8, f32>, !sluice.seq<@inputs, 0, i32>, !sluice.seq<@inputs, 0, i32>)
        -> (!sluice.seq<@inputs, 8, f32>, !sluice.seq<@inputs, 0, f32>)
    // CHECK: sluice.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} attributes
    %o, %sums = sluice.attention %x, %x, %x, %first, %end attributes {heads = 2 : i64, kv_heads = 2 : i64, head_size = 4 : i64, query_column = 0 : i64,
        key_column = 8 : i64, value_column = 16 : i64, mask = affine_set<(p, q)[n] : (n - 1 - q >= 0)>} {
    ^bb0(%score: f32, %p: i32, %q: i32, %head: i32):
      sluice.yield %score : f32
    } : (!sluice.seq<@inputs, 24, f32>, !sluice.seq<@inputs, 24, f32>, !sluice.seq<@inputs, 24, f32>, !sluice.seq<@inputs, 0, i32>, !sluice.seq<@inputs, 0, i32>)
        -> (!sluice.seq<@inputs, 8, f32>, !sluice.seq<@inputs, 2, f32>)
    return
  }

  // CHECK-LABEL: func.func @edges_between_words
  func.func @edges_between_words(%x: !sluice.seq<@units, 8, f32>) {
    // CHECK: %[[N:.*]] = sluice.degrees over "links" of "ends" capacity 6 : () -> !sluice.seq<@units, 0, f32>
    %n = sluice.degrees over "links" of "ends" capacity 6 : () -> !sluice.seq<@units, 0, f32>
    // CHECK: sluice.graph_sum %{{.*}} left(%[[N]]) over "links" of "ends" capacity 6 :
    %p = sluice.graph_sum %x left(%n) over "links" of "ends" capacity 6
        : (!sluice.seq<@units, 8, f32>, !sluice.seq<@units, 0, f32>) -> !sluice.seq<@units, 8, f32>
    // CHECK: sluice.degrees over "pairs" of "ends" drawn : () -> !sluice.seq<@units, 0, f32>
    %d = sluice.degrees over "pairs" of "ends" drawn : () -> !sluice.seq<@units, 0, f32>
    // CHECK: sluice.graph_sum %{{.*}} over "pairs" of "ends" drawn :
    %h = sluice.graph_sum %p left(%d) over "pairs" of "ends" drawn
        : (!sluice.seq<@units, 8, f32>, !sluice.seq<@units, 0, f32>) -> !sluice.seq<@units, 8, f32>
    // CHECK: %[[ROWS:.*]] = sluice.resample %{{.*}} linear : (!sluice.seq<@units, 8, f32>) -> !sluice.seq<@inputs, 8, f32>
    %r = sluice.resample %h linear : (!sluice.seq<@units, 8, f32>) -> !sluice.seq<@inputs, 8, f32>
    // CHECK: sluice.resample %[[ROWS]] transposed : (!sluice.seq<@inputs, 8, f32>) -> !sluice.seq<@units, 8, f32>
    %s = sluice.resample %r transposed : (!sluice.seq<@inputs, 8, f32>) -> !sluice.seq<@units, 8, f32>
    return
  }

  // CHECK-LABEL: func.func @segments
  func.func @segments(%b: !sluice.seq<@fine, 1, f32>, %x: !sluice.seq<@fine, 8, f32>, %y: !sluice.seq<@w, 8, f32>) {
    // CHECK: %[[C:.*]], %[[E:.*]] = sluice.segment %{{.*}} {spare = 1 : i64} :
    %c, %e = sluice.segment %b {spare = 1 : i64} : (!sluice.seq<@fine, 1, f32>) -> (!sluice.seq<@fine, 0, i32>, !sluice.seq<@w, 0, i32>)
    // CHECK: sluice.pool_segments %{{.*}}, %{{.*}}, %[[C]], %[[E]] :
    %p = sluice.pool_segments %x, %b, %c, %e : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 1, f32>,
        !sluice.seq<@fine, 0, i32>, !sluice.seq<@w, 0, i32>) -> !sluice.seq<@w, 8, f32>
    // CHECK: sluice.pool_segments_backward %{{.*}}, %[[C]], %[[E]] {starts}
    %dp = sluice.pool_segments_backward %p, %c, %e {starts} : (!sluice.seq<@w, 8, f32>, !sluice.seq<@fine, 0, i32>,
        !sluice.seq<@w, 0, i32>) -> !sluice.seq<@fine, 8, f32>
    // CHECK: sluice.pool_segments_bits_backward
    %db = sluice.pool_segments_bits_backward %x, %p, %y, %c, %e : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@w, 8, f32>,
        !sluice.seq<@w, 8, f32>, !sluice.seq<@fine, 0, i32>, !sluice.seq<@w, 0, i32>) -> !sluice.seq<@fine, 1, f32>
    // CHECK: sluice.select_segments %{{.*}}, %[[C]], %[[E]] :
    %s = sluice.select_segments %x, %c, %e : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 0, i32>, !sluice.seq<@w, 0, i32>)
        -> !sluice.seq<@w, 8, f32>
    // CHECK: sluice.select_segments_backward
    %ds = sluice.select_segments_backward %s, %c, %e : (!sluice.seq<@w, 8, f32>, !sluice.seq<@fine, 0, i32>, !sluice.seq<@w, 0, i32>)
        -> !sluice.seq<@fine, 8, f32>
    // CHECK: sluice.spread_segments %{{.*}}, %[[C]], %[[E]] by 1 :
    %z = sluice.spread_segments %y, %c, %e by 1 : (!sluice.seq<@w, 8, f32>, !sluice.seq<@fine, 0, i32>, !sluice.seq<@w, 0, i32>)
        -> !sluice.seq<@fine, 8, f32>
    // CHECK: sluice.spread_segments_backward %{{.*}}, %[[C]], %[[E]] by 1 :
    %dz = sluice.spread_segments_backward %z, %c, %e by 1 : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 0, i32>,
        !sluice.seq<@w, 0, i32>) -> !sluice.seq<@w, 8, f32>
    // CHECK: sluice.total
    %t = sluice.total %b : (!sluice.seq<@fine, 1, f32>) -> !sluice.seq<@fine, 1, f32>
    // CHECK: sluice.sum_columns
    %n = sluice.sum_columns %t : (!sluice.seq<@fine, 1, f32>) -> !sluice.seq<@fine, 0, f32>
    // CHECK: sluice.repeat_columns
    %r = sluice.repeat_columns %n : (!sluice.seq<@fine, 0, f32>) -> !sluice.seq<@fine, 8, f32>
    return
  }

  // CHECK-LABEL: func.func @hashes
  func.func @hashes(%x: !sluice.seq<@fine, 4, f32>, %r: tensor<6x4xf32>) {
    // CHECK: %[[B:.*]] = sluice.hashed_buckets %[[X:[a-z0-9]+]], %{{.*}} :
    %b = sluice.hashed_buckets %x, %r : (!sluice.seq<@fine, 4, f32>, tensor<6x4xf32>) -> !sluice.seq<@fine, 3, f32>
    // CHECK: %[[O:.*]], %[[S:.*]] = sluice.hashed_attention %[[X]], %[[X]], %[[X]], %[[B]] {bucket_count = 4 : i64, chunk = 4 : i64, head_size = 2 : i64, heads = 2 : i64, sorted}
    %o, %s = sluice.hashed_attention %x, %x, %x, %b {heads = 2 : i64, head_size = 2 : i64, bucket_count = 4 : i64, chunk = 4 : i64, sorted}
        : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 3, f32>)
        -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 2, f32>)
    // CHECK: sluice.hashed_attention_backward %[[X]], %[[X]], %[[O]], %[[S]], %[[O]], %[[B]] {bucket_count = 4 : i64, chunk = 4 : i64, head_size = 2 : i64, heads = 2 : i64}
    %d, %e = sluice.hashed_attention_backward %x, %x, %o, %s, %o, %b {heads = 2 : i64, head_size = 2 : i64, bucket_count = 4 : i64, chunk = 4 : i64}
        : (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 2, f32>,
           !sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 3, f32>) -> (!sluice.seq<@fine, 4, f32>, !sluice.seq<@fine, 4, f32>)
    return
  }

  // CHECK-LABEL: func.func @labels
  func.func @labels(%t: !sluice.seq<@fine, 0, i32>) {
    // CHECK: sluice.labels "words" of %{{.*}} : (!sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32>
    %l = sluice.labels "words" of %t : (!sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, f32>
    return
  }

  // CHECK-LABEL: func.func @attend
  func.func @attend(%q: !sluice.seq<@w, 8, f32>, %x: !sluice.seq<@fine, 8, f32>, %z: !sluice.seq<@fine, 8, f32>, %c: !sluice.seq<@fine, 0, i32>, %e: !sluice.seq<@w, 0, i32>, %l: !sluice.seq<@w, 2, f32>) {
    // CHECK: %[[O:.*]], %[[L:.*]] = sluice.attend_segments %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} heads 2 :
    %o, %m = sluice.attend_segments %q, %x, %z, %c, %e heads 2 : (!sluice.seq<@w, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 0, i32>, !sluice.seq<@w, 0, i32>) -> (!sluice.seq<@w, 8, f32>, !sluice.seq<@w, 2, f32>)
    // CHECK: sluice.attend_segments_backward %{{.*}}, %{{.*}}, %{{.*}}, %[[O]], %[[L]], %{{.*}} heads 2 :
    %dq, %dk, %dv = sluice.attend_segments_backward %q, %x, %z, %o, %m, %q, %c, %e heads 2
      : (!sluice.seq<@w, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@w, 8, f32>, !sluice.seq<@w, 2, f32>, !sluice.seq<@w, 8, f32>, !sluice.seq<@fine, 0, i32>, !sluice.seq<@w, 0, i32>) -> (!sluice.seq<@w, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>)
    // CHECK: sluice.attend_parts %{{.*}} keys(%{{.*}}, %{{.*}}) values(%{{.*}}, %{{.*}}) heads 4 :
    %y = sluice.attend_parts %x keys(%z, %x) values(%x, %z) heads 4 : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>) -> !sluice.seq<@fine, 8, f32>
    // CHECK: sluice.attend_parts_backward %{{.*}} keys(%{{.*}}) values(%{{.*}}) by %{{.*}} heads 4 :
    %g:3 = sluice.attend_parts_backward %x keys(%z) values(%x) by %y heads 4 : (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>) -> (!sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>, !sluice.seq<@fine, 8, f32>)
    return
  }

  // CHECK-LABEL: func.func @whole_numbers
  func.func @whole_numbers(%t: !sluice.seq<@fine, 0, i32>, %x: !sluice.seq<@fine, 4, f32>) {
    // CHECK: sluice.entropy %{{.*}} : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@fine, 1, f32>
    %h = sluice.entropy %x : (!sluice.seq<@fine, 4, f32>) -> !sluice.seq<@fine, 1, f32>
    // CHECK: sluice.update : <@fine, 0, f32>
    %n = sluice.update : !sluice.seq<@fine, 0, f32>
    // CHECK: sluice.yield %{{.*}} : i32
    %r = sluice.map(%t) {
    ^bb0(%a: i32):
      sluice.yield %a : i32
    } : (!sluice.seq<@fine, 0, i32>) -> !sluice.seq<@fine, 0, i32>
    return
  }
}
