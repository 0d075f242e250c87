// sluice compile /work/main/models/../test/causality/leaky/shift-missing.json
// 
#set = affine_set<(d0, d1)[s0] : (d0 - d1 >= 0)>
module attributes {sluice.batch = 1 : i64, sluice.context = 64 : i64, sluice.name = "shift-missing", sluice.seed = 0 : i64, sluice.training = {beta1 = 9.000000e-01 : f64, beta2 = 0.94999999999999996 : f64, clip = 1.000000e+00 : f64, epsilon = 1.000000e-08 : f64, floor = 1.000000e-01 : f64, learning_rate = 3.000000e-04 : f64, optimizer = "adamw", schedule = "cosine", steps = 1.000000e+03 : f64, warmup = 1.000000e+02 : f64, weight_decay = 1.000000e-01 : f64}, sluice.vocabulary = 11 : i64, sluice.width = 4 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @s4 on @target factor 4
  sluice.scale @last on @target factor 0
  sluice.parameter @stages.0.token.weight : tensor<11x4xf32> {deviation = 2.000000e-02 : f64, initial = "normal", names = ["stages.0.token.weight"], sizes = array<i64: 11>}
  sluice.parameter @stages.2.attention.norm.weight : tensor<4xf32> {initial = "ones", names = ["stages.2.attention.norm.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.2.attention.norm.bias : tensor<4xf32> {initial = "zeros", names = ["stages.2.attention.norm.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.2.attention.qkv.weight : tensor<12x4xf32> {decay, deviation = 5.000000e-01 : f64, initial = "normal", names = ["stages.2.attention.query.weight", "stages.2.attention.key.weight", "stages.2.attention.value.weight"], sizes = array<i64: 4, 4, 4>}
  sluice.parameter @stages.2.attention.qkv.bias : tensor<12xf32> {initial = "zeros", names = ["stages.2.attention.query.bias", "stages.2.attention.key.bias", "stages.2.attention.value.bias"], sizes = array<i64: 4, 4, 4>}
  sluice.parameter @stages.2.attention.output.weight : tensor<4x4xf32> {decay, deviation = 0.35355339059327373 : f64, initial = "normal", names = ["stages.2.attention.output.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.2.attention.output.bias : tensor<4xf32> {initial = "zeros", names = ["stages.2.attention.output.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.2.feed_forward.norm.weight : tensor<4xf32> {initial = "ones", names = ["stages.2.feed_forward.norm.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.2.feed_forward.norm.bias : tensor<4xf32> {initial = "zeros", names = ["stages.2.feed_forward.norm.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.2.feed_forward.in.weight : tensor<8x4xf32> {decay, deviation = 5.000000e-01 : f64, initial = "normal", names = ["stages.2.feed_forward.in.weight"], sizes = array<i64: 8>}
  sluice.parameter @stages.2.feed_forward.in.bias : tensor<8xf32> {initial = "zeros", names = ["stages.2.feed_forward.in.bias"], sizes = array<i64: 8>}
  sluice.parameter @stages.2.feed_forward.out.weight : tensor<4x8xf32> {decay, deviation = 0.24999999999999997 : f64, initial = "normal", names = ["stages.2.feed_forward.out.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.2.feed_forward.out.bias : tensor<4xf32> {initial = "zeros", names = ["stages.2.feed_forward.out.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.5.weight : tensor<11x4xf32> {decay, deviation = 2.000000e-02 : f64, initial = "normal", names = ["stages.5.weight"], sizes = array<i64: 11>}
  func.func @evaluate(%arg0: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %0 = sluice.read @stages.0.token.weight : tensor<11x4xf32>
    %1 = sluice.embed %arg0, %0 : (!sluice.seq<@s1, 0, i32>, tensor<11x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %2 = sluice.shorten %1 factor 4 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s4, 4, f32>
    %3 = sluice.read @stages.2.attention.norm.weight : tensor<4xf32>
    %4 = sluice.read @stages.2.attention.norm.bias : tensor<4xf32>
    %result, %mean, %rstd = sluice.norm %2, %3, %4 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s4, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s4, 4, f32>, !sluice.seq<@s4, 0, f32>, !sluice.seq<@s4, 0, f32>)
    %5 = sluice.read @stages.2.attention.qkv.weight : tensor<12x4xf32>
    %6 = sluice.read @stages.2.attention.qkv.bias : tensor<12xf32>
    %7 = sluice.linear %result, %5, %6 : (!sluice.seq<@s4, 4, f32>, tensor<12x4xf32>, tensor<12xf32>) -> !sluice.seq<@s4, 12, f32>
    %output, %lse = sluice.attention %7, %7, %7 attributes {head_size = 2 : i64, heads = 2 : i64, key_column = 4 : i64, kv_heads = 2 : i64, mask = #set, query_column = 0 : i64, value_column = 8 : i64} {
    ^bb0(%arg1: f32, %arg2: i32, %arg3: i32, %arg4: i32):
      %cst = arith.constant 0.707106769 : f32
      %26 = arith.mulf %arg1, %cst : f32
      sluice.yield %26 : f32
    } : (!sluice.seq<@s4, 12, f32>, !sluice.seq<@s4, 12, f32>, !sluice.seq<@s4, 12, f32>) -> (!sluice.seq<@s4, 4, f32>, !sluice.seq<@s4, 2, f32>)
    %8 = sluice.read @stages.2.attention.output.weight : tensor<4x4xf32>
    %9 = sluice.read @stages.2.attention.output.bias : tensor<4xf32>
    %10 = sluice.linear %output, %8, %9 : (!sluice.seq<@s4, 4, f32>, tensor<4x4xf32>, tensor<4xf32>) -> !sluice.seq<@s4, 4, f32>
    %11 = sluice.map(%2, %10) {
    ^bb0(%arg1: f32, %arg2: f32):
      %26 = arith.addf %arg1, %arg2 : f32
      sluice.yield %26 : f32
    } : (!sluice.seq<@s4, 4, f32>, !sluice.seq<@s4, 4, f32>) -> !sluice.seq<@s4, 4, f32>
    %12 = sluice.read @stages.2.feed_forward.norm.weight : tensor<4xf32>
    %13 = sluice.read @stages.2.feed_forward.norm.bias : tensor<4xf32>
    %result_0, %mean_1, %rstd_2 = sluice.norm %11, %12, %13 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s4, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s4, 4, f32>, !sluice.seq<@s4, 0, f32>, !sluice.seq<@s4, 0, f32>)
    %14 = sluice.read @stages.2.feed_forward.in.weight : tensor<8x4xf32>
    %15 = sluice.read @stages.2.feed_forward.in.bias : tensor<8xf32>
    %16 = sluice.linear %result_0, %14, %15 : (!sluice.seq<@s4, 4, f32>, tensor<8x4xf32>, tensor<8xf32>) -> !sluice.seq<@s4, 8, f32>
    %17 = sluice.map(%16) {
    ^bb0(%arg1: f32):
      %cst = arith.constant 0.707106769 : f32
      %26 = arith.mulf %arg1, %cst : f32
      %27 = math.erf %26 : f32
      %cst_3 = arith.constant 5.000000e-01 : f32
      %28 = arith.mulf %arg1, %cst_3 : f32
      %cst_4 = arith.constant 1.000000e+00 : f32
      %29 = arith.addf %27, %cst_4 : f32
      %30 = arith.mulf %28, %29 : f32
      sluice.yield %30 : f32
    } : (!sluice.seq<@s4, 8, f32>) -> !sluice.seq<@s4, 8, f32>
    %18 = sluice.read @stages.2.feed_forward.out.weight : tensor<4x8xf32>
    %19 = sluice.read @stages.2.feed_forward.out.bias : tensor<4xf32>
    %20 = sluice.linear %17, %18, %19 : (!sluice.seq<@s4, 8, f32>, tensor<4x8xf32>, tensor<4xf32>) -> !sluice.seq<@s4, 4, f32>
    %21 = sluice.map(%11, %20) {
    ^bb0(%arg1: f32, %arg2: f32):
      %26 = arith.addf %arg1, %arg2 : f32
      sluice.yield %26 : f32
    } : (!sluice.seq<@s4, 4, f32>, !sluice.seq<@s4, 4, f32>) -> !sluice.seq<@s4, 4, f32>
    %22 = sluice.upsample %21 factor 4 : (!sluice.seq<@s4, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %23 = sluice.map(%22, %1) {
    ^bb0(%arg1: f32, %arg2: f32):
      %26 = arith.addf %arg1, %arg2 : f32
      sluice.yield %26 : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %24 = sluice.read @stages.5.weight : tensor<11x4xf32>
    %25 = sluice.cross_entropy %23, %24, %arg0 {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<11x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %25 : !sluice.seq<@s1, 0, f32>
  }
  func.func @predict(%arg0: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@last, 11, f32> {
    %0 = sluice.read @stages.0.token.weight : tensor<11x4xf32>
    %1 = sluice.embed %arg0, %0 : (!sluice.seq<@s1, 0, i32>, tensor<11x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %2 = sluice.shorten %1 factor 4 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s4, 4, f32>
    %3 = sluice.read @stages.2.attention.norm.weight : tensor<4xf32>
    %4 = sluice.read @stages.2.attention.norm.bias : tensor<4xf32>
    %result, %mean, %rstd = sluice.norm %2, %3, %4 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s4, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s4, 4, f32>, !sluice.seq<@s4, 0, f32>, !sluice.seq<@s4, 0, f32>)
    %5 = sluice.read @stages.2.attention.qkv.weight : tensor<12x4xf32>
    %6 = sluice.read @stages.2.attention.qkv.bias : tensor<12xf32>
    %7 = sluice.linear %result, %5, %6 : (!sluice.seq<@s4, 4, f32>, tensor<12x4xf32>, tensor<12xf32>) -> !sluice.seq<@s4, 12, f32>
    %output, %lse = sluice.attention %7, %7, %7 attributes {head_size = 2 : i64, heads = 2 : i64, key_column = 4 : i64, kv_heads = 2 : i64, mask = #set, query_column = 0 : i64, value_column = 8 : i64} {
    ^bb0(%arg1: f32, %arg2: i32, %arg3: i32, %arg4: i32):
      %cst = arith.constant 0.707106769 : f32
      %27 = arith.mulf %arg1, %cst : f32
      sluice.yield %27 : f32
    } : (!sluice.seq<@s4, 12, f32>, !sluice.seq<@s4, 12, f32>, !sluice.seq<@s4, 12, f32>) -> (!sluice.seq<@s4, 4, f32>, !sluice.seq<@s4, 2, f32>)
    %8 = sluice.read @stages.2.attention.output.weight : tensor<4x4xf32>
    %9 = sluice.read @stages.2.attention.output.bias : tensor<4xf32>
    %10 = sluice.linear %output, %8, %9 : (!sluice.seq<@s4, 4, f32>, tensor<4x4xf32>, tensor<4xf32>) -> !sluice.seq<@s4, 4, f32>
    %11 = sluice.map(%2, %10) {
    ^bb0(%arg1: f32, %arg2: f32):
      %27 = arith.addf %arg1, %arg2 : f32
      sluice.yield %27 : f32
    } : (!sluice.seq<@s4, 4, f32>, !sluice.seq<@s4, 4, f32>) -> !sluice.seq<@s4, 4, f32>
    %12 = sluice.read @stages.2.feed_forward.norm.weight : tensor<4xf32>
    %13 = sluice.read @stages.2.feed_forward.norm.bias : tensor<4xf32>
    %result_0, %mean_1, %rstd_2 = sluice.norm %11, %12, %13 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s4, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s4, 4, f32>, !sluice.seq<@s4, 0, f32>, !sluice.seq<@s4, 0, f32>)
    %14 = sluice.read @stages.2.feed_forward.in.weight : tensor<8x4xf32>
    %15 = sluice.read @stages.2.feed_forward.in.bias : tensor<8xf32>
    %16 = sluice.linear %result_0, %14, %15 : (!sluice.seq<@s4, 4, f32>, tensor<8x4xf32>, tensor<8xf32>) -> !sluice.seq<@s4, 8, f32>
    %17 = sluice.map(%16) {
    ^bb0(%arg1: f32):
      %cst = arith.constant 0.707106769 : f32
      %27 = arith.mulf %arg1, %cst : f32
      %28 = math.erf %27 : f32
      %cst_3 = arith.constant 5.000000e-01 : f32
      %29 = arith.mulf %arg1, %cst_3 : f32
      %cst_4 = arith.constant 1.000000e+00 : f32
      %30 = arith.addf %28, %cst_4 : f32
      %31 = arith.mulf %29, %30 : f32
      sluice.yield %31 : f32
    } : (!sluice.seq<@s4, 8, f32>) -> !sluice.seq<@s4, 8, f32>
    %18 = sluice.read @stages.2.feed_forward.out.weight : tensor<4x8xf32>
    %19 = sluice.read @stages.2.feed_forward.out.bias : tensor<4xf32>
    %20 = sluice.linear %17, %18, %19 : (!sluice.seq<@s4, 8, f32>, tensor<4x8xf32>, tensor<4xf32>) -> !sluice.seq<@s4, 4, f32>
    %21 = sluice.map(%11, %20) {
    ^bb0(%arg1: f32, %arg2: f32):
      %27 = arith.addf %arg1, %arg2 : f32
      sluice.yield %27 : f32
    } : (!sluice.seq<@s4, 4, f32>, !sluice.seq<@s4, 4, f32>) -> !sluice.seq<@s4, 4, f32>
    %22 = sluice.upsample %21 factor 4 : (!sluice.seq<@s4, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %23 = sluice.map(%22, %1) {
    ^bb0(%arg1: f32, %arg2: f32):
      %27 = arith.addf %arg1, %arg2 : f32
      sluice.yield %27 : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %24 = sluice.read @stages.5.weight : tensor<11x4xf32>
    %25 = sluice.last %23 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@last, 4, f32>
    %26 = sluice.linear %25, %24 : (!sluice.seq<@last, 4, f32>, tensor<11x4xf32>) -> !sluice.seq<@last, 11, f32>
    return %26 : !sluice.seq<@last, 11, f32>
  }
}

