// sluice compile test/Transforms/Inputs/shift-before-norm.json
// 
#set = affine_set<(d0, d1)[s0] : (d0 - d1 >= 0)>
module attributes {sluice.batch = 2 : i64, sluice.context = 7 : i64, sluice.name = "shift-before-norm", sluice.seed = 1 : i64, sluice.training = {beta1 = 9.000000e-01 : f64, beta2 = 0.94999999999999996 : f64, clip = 1.000000e+00 : f64, epsilon = 1.000000e-08 : f64, floor = 1.000000e-01 : f64, learning_rate = 3.000000e-04 : f64, optimizer = "adamw", schedule = "cosine", steps = 1.000000e+03 : f64, warmup = 1.000000e+02 : f64, weight_decay = 1.000000e-01 : f64}, sluice.vocabulary = 11 : i64, sluice.width = 6 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @last on @target factor 0
  sluice.parameter @stages.0.token.weight : tensor<11x6xf32> {deviation = 2.000000e-02 : f64, initial = "normal", names = ["stages.0.token.weight"], sizes = array<i64: 11>}
  sluice.parameter @stages.4.weight : tensor<6xf32> {initial = "ones", names = ["stages.4.weight"], sizes = array<i64: 6>}
  sluice.parameter @stages.4.bias : tensor<6xf32> {initial = "zeros", names = ["stages.4.bias"], sizes = array<i64: 6>}
  sluice.parameter @stages.5.attention.norm.weight : tensor<6xf32> {initial = "ones", names = ["stages.5.attention.norm.weight"], sizes = array<i64: 6>}
  sluice.parameter @stages.5.attention.norm.bias : tensor<6xf32> {initial = "zeros", names = ["stages.5.attention.norm.bias"], sizes = array<i64: 6>}
  sluice.parameter @stages.5.attention.qkv.weight : tensor<18x6xf32> {decay, deviation = 0.40824829046386307 : f64, initial = "normal", names = ["stages.5.attention.query.weight", "stages.5.attention.key.weight", "stages.5.attention.value.weight"], sizes = array<i64: 6, 6, 6>}
  sluice.parameter @stages.5.attention.qkv.bias : tensor<18xf32> {initial = "zeros", names = ["stages.5.attention.query.bias", "stages.5.attention.key.bias", "stages.5.attention.value.bias"], sizes = array<i64: 6, 6, 6>}
  sluice.parameter @stages.5.attention.output.weight : tensor<6x6xf32> {decay, deviation = 0.28867513459481292 : f64, initial = "normal", names = ["stages.5.attention.output.weight"], sizes = array<i64: 6>}
  sluice.parameter @stages.5.attention.output.bias : tensor<6xf32> {initial = "zeros", names = ["stages.5.attention.output.bias"], sizes = array<i64: 6>}
  sluice.parameter @stages.5.feed_forward.norm.weight : tensor<6xf32> {initial = "ones", names = ["stages.5.feed_forward.norm.weight"], sizes = array<i64: 6>}
  sluice.parameter @stages.5.feed_forward.norm.bias : tensor<6xf32> {initial = "zeros", names = ["stages.5.feed_forward.norm.bias"], sizes = array<i64: 6>}
  sluice.parameter @stages.5.feed_forward.in.weight : tensor<8x6xf32> {decay, deviation = 0.40824829046386307 : f64, initial = "normal", names = ["stages.5.feed_forward.in.weight"], sizes = array<i64: 8>}
  sluice.parameter @stages.5.feed_forward.in.bias : tensor<8xf32> {initial = "zeros", names = ["stages.5.feed_forward.in.bias"], sizes = array<i64: 8>}
  sluice.parameter @stages.5.feed_forward.out.weight : tensor<6x8xf32> {decay, deviation = 0.24999999999999997 : f64, initial = "normal", names = ["stages.5.feed_forward.out.weight"], sizes = array<i64: 6>}
  sluice.parameter @stages.5.feed_forward.out.bias : tensor<6xf32> {initial = "zeros", names = ["stages.5.feed_forward.out.bias"], sizes = array<i64: 6>}
  sluice.parameter @stages.7.weight : tensor<11x6xf32> {decay, deviation = 2.000000e-02 : f64, initial = "normal", names = ["stages.7.weight"], sizes = array<i64: 11>}
  func.func @evaluate(%arg0: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %0 = sluice.read @stages.0.token.weight : tensor<11x6xf32>
    %1 = sluice.embed %arg0, %0 : (!sluice.seq<@s1, 0, i32>, tensor<11x6xf32>) -> !sluice.seq<@s1, 6, f32>
    %2 = sluice.map(%1, %1) {
    ^bb0(%arg1: f32, %arg2: f32):
      %28 = arith.addf %arg1, %arg2 : f32
      sluice.yield %28 : f32
    } : (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 6, f32>) -> !sluice.seq<@s1, 6, f32>
    %3 = sluice.shift %2 by 1 : (!sluice.seq<@s1, 6, f32>) -> !sluice.seq<@s1, 6, f32>
    %4 = sluice.read @stages.4.weight : tensor<6xf32>
    %5 = sluice.read @stages.4.bias : tensor<6xf32>
    %result, %mean, %rstd = sluice.norm %2, %4, %5 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s1, 6, f32>, tensor<6xf32>, tensor<6xf32>) -> (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %6 = sluice.read @stages.5.attention.qkv.weight : tensor<18x6xf32>
    %7 = sluice.read @stages.5.attention.qkv.bias : tensor<18xf32>
    %8 = sluice.linear %3, %6, %7 : (!sluice.seq<@s1, 6, f32>, tensor<18x6xf32>, tensor<18xf32>) -> !sluice.seq<@s1, 18, f32>
    %output, %lse = sluice.attention %8, %8, %8 attributes {head_size = 3 : i64, heads = 2 : i64, key_column = 6 : i64, kv_heads = 2 : i64, mask = #set, query_column = 0 : i64, value_column = 12 : i64} {
    ^bb0(%arg1: f32, %arg2: i32, %arg3: i32, %arg4: i32):
      %cst = arith.constant 0.577350259 : f32
      %28 = arith.mulf %arg1, %cst : f32
      sluice.yield %28 : f32
    } : (!sluice.seq<@s1, 18, f32>, !sluice.seq<@s1, 18, f32>, !sluice.seq<@s1, 18, f32>) -> (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 2, f32>)
    %9 = sluice.read @stages.5.attention.output.weight : tensor<6x6xf32>
    %10 = sluice.read @stages.5.attention.output.bias : tensor<6xf32>
    %11 = sluice.linear %output, %9, %10 : (!sluice.seq<@s1, 6, f32>, tensor<6x6xf32>, tensor<6xf32>) -> !sluice.seq<@s1, 6, f32>
    %12 = sluice.map(%3, %11) {
    ^bb0(%arg1: f32, %arg2: f32):
      %28 = arith.addf %arg1, %arg2 : f32
      sluice.yield %28 : f32
    } : (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 6, f32>) -> !sluice.seq<@s1, 6, f32>
    %13 = sluice.read @stages.5.attention.norm.weight : tensor<6xf32>
    %14 = sluice.read @stages.5.attention.norm.bias : tensor<6xf32>
    %result_0, %mean_1, %rstd_2 = sluice.norm %12, %13, %14 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s1, 6, f32>, tensor<6xf32>, tensor<6xf32>) -> (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %15 = sluice.read @stages.5.feed_forward.in.weight : tensor<8x6xf32>
    %16 = sluice.read @stages.5.feed_forward.in.bias : tensor<8xf32>
    %17 = sluice.linear %result_0, %15, %16 : (!sluice.seq<@s1, 6, f32>, tensor<8x6xf32>, tensor<8xf32>) -> !sluice.seq<@s1, 8, f32>
    %18 = sluice.map(%17) {
    ^bb0(%arg1: f32):
      %cst = arith.constant 0.707106769 : f32
      %28 = arith.mulf %arg1, %cst : f32
      %29 = math.erf %28 : f32
      %cst_6 = arith.constant 5.000000e-01 : f32
      %30 = arith.mulf %arg1, %cst_6 : f32
      %cst_7 = arith.constant 1.000000e+00 : f32
      %31 = arith.addf %29, %cst_7 : f32
      %32 = arith.mulf %30, %31 : f32
      sluice.yield %32 : f32
    } : (!sluice.seq<@s1, 8, f32>) -> !sluice.seq<@s1, 8, f32>
    %19 = sluice.read @stages.5.feed_forward.out.weight : tensor<6x8xf32>
    %20 = sluice.read @stages.5.feed_forward.out.bias : tensor<6xf32>
    %21 = sluice.linear %18, %19, %20 : (!sluice.seq<@s1, 8, f32>, tensor<6x8xf32>, tensor<6xf32>) -> !sluice.seq<@s1, 6, f32>
    %22 = sluice.map(%result_0, %21) {
    ^bb0(%arg1: f32, %arg2: f32):
      %28 = arith.addf %arg1, %arg2 : f32
      sluice.yield %28 : f32
    } : (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 6, f32>) -> !sluice.seq<@s1, 6, f32>
    %23 = sluice.read @stages.5.feed_forward.norm.weight : tensor<6xf32>
    %24 = sluice.read @stages.5.feed_forward.norm.bias : tensor<6xf32>
    %result_3, %mean_4, %rstd_5 = sluice.norm %22, %23, %24 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s1, 6, f32>, tensor<6xf32>, tensor<6xf32>) -> (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %25 = sluice.map(%result_3, %result) {
    ^bb0(%arg1: f32, %arg2: f32):
      %28 = arith.addf %arg1, %arg2 : f32
      sluice.yield %28 : f32
    } : (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 6, f32>) -> !sluice.seq<@s1, 6, f32>
    %26 = sluice.read @stages.7.weight : tensor<11x6xf32>
    %27 = sluice.cross_entropy %25, %26, %arg0 {offset = 1 : i64} : (!sluice.seq<@s1, 6, f32>, tensor<11x6xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %27 : !sluice.seq<@s1, 0, f32>
  }
  func.func @predict(%arg0: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@last, 11, f32> {
    %0 = sluice.read @stages.0.token.weight : tensor<11x6xf32>
    %1 = sluice.embed %arg0, %0 : (!sluice.seq<@s1, 0, i32>, tensor<11x6xf32>) -> !sluice.seq<@s1, 6, f32>
    %2 = sluice.map(%1, %1) {
    ^bb0(%arg1: f32, %arg2: f32):
      %29 = arith.addf %arg1, %arg2 : f32
      sluice.yield %29 : f32
    } : (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 6, f32>) -> !sluice.seq<@s1, 6, f32>
    %3 = sluice.shift %2 by 1 : (!sluice.seq<@s1, 6, f32>) -> !sluice.seq<@s1, 6, f32>
    %4 = sluice.read @stages.4.weight : tensor<6xf32>
    %5 = sluice.read @stages.4.bias : tensor<6xf32>
    %result, %mean, %rstd = sluice.norm %2, %4, %5 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s1, 6, f32>, tensor<6xf32>, tensor<6xf32>) -> (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %6 = sluice.read @stages.5.attention.qkv.weight : tensor<18x6xf32>
    %7 = sluice.read @stages.5.attention.qkv.bias : tensor<18xf32>
    %8 = sluice.linear %3, %6, %7 : (!sluice.seq<@s1, 6, f32>, tensor<18x6xf32>, tensor<18xf32>) -> !sluice.seq<@s1, 18, f32>
    %output, %lse = sluice.attention %8, %8, %8 attributes {head_size = 3 : i64, heads = 2 : i64, key_column = 6 : i64, kv_heads = 2 : i64, mask = #set, query_column = 0 : i64, value_column = 12 : i64} {
    ^bb0(%arg1: f32, %arg2: i32, %arg3: i32, %arg4: i32):
      %cst = arith.constant 0.577350259 : f32
      %29 = arith.mulf %arg1, %cst : f32
      sluice.yield %29 : f32
    } : (!sluice.seq<@s1, 18, f32>, !sluice.seq<@s1, 18, f32>, !sluice.seq<@s1, 18, f32>) -> (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 2, f32>)
    %9 = sluice.read @stages.5.attention.output.weight : tensor<6x6xf32>
    %10 = sluice.read @stages.5.attention.output.bias : tensor<6xf32>
    %11 = sluice.linear %output, %9, %10 : (!sluice.seq<@s1, 6, f32>, tensor<6x6xf32>, tensor<6xf32>) -> !sluice.seq<@s1, 6, f32>
    %12 = sluice.map(%3, %11) {
    ^bb0(%arg1: f32, %arg2: f32):
      %29 = arith.addf %arg1, %arg2 : f32
      sluice.yield %29 : f32
    } : (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 6, f32>) -> !sluice.seq<@s1, 6, f32>
    %13 = sluice.read @stages.5.attention.norm.weight : tensor<6xf32>
    %14 = sluice.read @stages.5.attention.norm.bias : tensor<6xf32>
    %result_0, %mean_1, %rstd_2 = sluice.norm %12, %13, %14 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s1, 6, f32>, tensor<6xf32>, tensor<6xf32>) -> (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %15 = sluice.read @stages.5.feed_forward.in.weight : tensor<8x6xf32>
    %16 = sluice.read @stages.5.feed_forward.in.bias : tensor<8xf32>
    %17 = sluice.linear %result_0, %15, %16 : (!sluice.seq<@s1, 6, f32>, tensor<8x6xf32>, tensor<8xf32>) -> !sluice.seq<@s1, 8, f32>
    %18 = sluice.map(%17) {
    ^bb0(%arg1: f32):
      %cst = arith.constant 0.707106769 : f32
      %29 = arith.mulf %arg1, %cst : f32
      %30 = math.erf %29 : f32
      %cst_6 = arith.constant 5.000000e-01 : f32
      %31 = arith.mulf %arg1, %cst_6 : f32
      %cst_7 = arith.constant 1.000000e+00 : f32
      %32 = arith.addf %30, %cst_7 : f32
      %33 = arith.mulf %31, %32 : f32
      sluice.yield %33 : f32
    } : (!sluice.seq<@s1, 8, f32>) -> !sluice.seq<@s1, 8, f32>
    %19 = sluice.read @stages.5.feed_forward.out.weight : tensor<6x8xf32>
    %20 = sluice.read @stages.5.feed_forward.out.bias : tensor<6xf32>
    %21 = sluice.linear %18, %19, %20 : (!sluice.seq<@s1, 8, f32>, tensor<6x8xf32>, tensor<6xf32>) -> !sluice.seq<@s1, 6, f32>
    %22 = sluice.map(%result_0, %21) {
    ^bb0(%arg1: f32, %arg2: f32):
      %29 = arith.addf %arg1, %arg2 : f32
      sluice.yield %29 : f32
    } : (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 6, f32>) -> !sluice.seq<@s1, 6, f32>
    %23 = sluice.read @stages.5.feed_forward.norm.weight : tensor<6xf32>
    %24 = sluice.read @stages.5.feed_forward.norm.bias : tensor<6xf32>
    %result_3, %mean_4, %rstd_5 = sluice.norm %22, %23, %24 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s1, 6, f32>, tensor<6xf32>, tensor<6xf32>) -> (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %25 = sluice.map(%result_3, %result) {
    ^bb0(%arg1: f32, %arg2: f32):
      %29 = arith.addf %arg1, %arg2 : f32
      sluice.yield %29 : f32
    } : (!sluice.seq<@s1, 6, f32>, !sluice.seq<@s1, 6, f32>) -> !sluice.seq<@s1, 6, f32>
    %26 = sluice.read @stages.7.weight : tensor<11x6xf32>
    %27 = sluice.last %25 : (!sluice.seq<@s1, 6, f32>) -> !sluice.seq<@last, 6, f32>
    %28 = sluice.linear %27, %26 : (!sluice.seq<@last, 6, f32>, tensor<11x6xf32>) -> !sluice.seq<@last, 11, f32>
    return %28 : !sluice.seq<@last, 11, f32>
  }
}

