// sluice compile test/causality/causal/windows.json
// 
#set = affine_set<(d0, d1)[s0] : (d0 - d1 >= 0, d1 - d0 + 2 >= 0)>
#set1 = affine_set<(d0, d1)[s0] : (d0 - d1 - 1 >= 0, d1 - d0 + 1 >= 0)>
#set2 = affine_set<(d0, d1)[s0] : (d0 - d1 - 2 >= 0, d1 - d0 + 8 >= 0)>
module attributes {sluice.batch = 1 : i64, sluice.context = 64 : i64, sluice.name = "windows", sluice.seed = 0 : i64, sluice.training = {beta1 = 9.000000e-01 : f64, beta2 = 0.94999999999999996 : f64, clip = 1.000000e+00 : f64, epsilon = 1.000000e-08 : f64, floor = 1.000000e-01 : f64, learning_rate = 3.000000e-04 : f64, optimizer = "adamw", schedule = "cosine", steps = 1.000000e+03 : f64, warmup = 1.000000e+02 : f64, weight_decay = 1.000000e-01 : f64}, sluice.vocabulary = 11 : i64, sluice.width = 4 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @s3 on @target factor 3
  sluice.scale @last on @target factor 0
  sluice.parameter @stages.0.token.weight : tensor<11x4xf32> {deviation = 2.000000e-02 : f64, initial = "normal", names = ["stages.0.token.weight"], sizes = array<i64: 11>}
  sluice.parameter @stages.1.attention.norm.weight : tensor<4xf32> {initial = "ones", names = ["stages.1.attention.norm.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.1.attention.norm.bias : tensor<4xf32> {initial = "zeros", names = ["stages.1.attention.norm.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.1.attention.qkv.weight : tensor<12x4xf32> {decay, deviation = 5.000000e-01 : f64, initial = "normal", names = ["stages.1.attention.query.weight", "stages.1.attention.key.weight", "stages.1.attention.value.weight"], sizes = array<i64: 4, 4, 4>}
  sluice.parameter @stages.1.attention.qkv.bias : tensor<12xf32> {initial = "zeros", names = ["stages.1.attention.query.bias", "stages.1.attention.key.bias", "stages.1.attention.value.bias"], sizes = array<i64: 4, 4, 4>}
  sluice.parameter @stages.1.attention.output.weight : tensor<4x4xf32> {decay, deviation = 0.20412414523193154 : f64, initial = "normal", names = ["stages.1.attention.output.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.1.attention.output.bias : tensor<4xf32> {initial = "zeros", names = ["stages.1.attention.output.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.1.feed_forward.norm.weight : tensor<4xf32> {initial = "ones", names = ["stages.1.feed_forward.norm.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.1.feed_forward.norm.bias : tensor<4xf32> {initial = "zeros", names = ["stages.1.feed_forward.norm.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.1.feed_forward.in.weight : tensor<8x4xf32> {decay, deviation = 5.000000e-01 : f64, initial = "normal", names = ["stages.1.feed_forward.in.weight"], sizes = array<i64: 8>}
  sluice.parameter @stages.1.feed_forward.in.bias : tensor<8xf32> {initial = "zeros", names = ["stages.1.feed_forward.in.bias"], sizes = array<i64: 8>}
  sluice.parameter @stages.1.feed_forward.out.weight : tensor<4x8xf32> {decay, deviation = 0.14433756729740643 : f64, initial = "normal", names = ["stages.1.feed_forward.out.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.1.feed_forward.out.bias : tensor<4xf32> {initial = "zeros", names = ["stages.1.feed_forward.out.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.3.weight : tensor<4x12xf32> {decay, deviation = 0.28867513459481292 : f64, initial = "normal", names = ["stages.3.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.3.bias : tensor<4xf32> {initial = "zeros", names = ["stages.3.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.4.attention.norm.weight : tensor<4xf32> {initial = "ones", names = ["stages.4.attention.norm.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.4.attention.norm.bias : tensor<4xf32> {initial = "zeros", names = ["stages.4.attention.norm.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.4.attention.qkv.weight : tensor<12x4xf32> {decay, deviation = 5.000000e-01 : f64, initial = "normal", names = ["stages.4.attention.query.weight", "stages.4.attention.key.weight", "stages.4.attention.value.weight"], sizes = array<i64: 4, 4, 4>}
  sluice.parameter @stages.4.attention.qkv.bias : tensor<12xf32> {initial = "zeros", names = ["stages.4.attention.query.bias", "stages.4.attention.key.bias", "stages.4.attention.value.bias"], sizes = array<i64: 4, 4, 4>}
  sluice.parameter @stages.4.attention.output.weight : tensor<4x4xf32> {decay, deviation = 0.20412414523193154 : f64, initial = "normal", names = ["stages.4.attention.output.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.4.attention.output.bias : tensor<4xf32> {initial = "zeros", names = ["stages.4.attention.output.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.4.feed_forward.norm.weight : tensor<4xf32> {initial = "ones", names = ["stages.4.feed_forward.norm.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.4.feed_forward.norm.bias : tensor<4xf32> {initial = "zeros", names = ["stages.4.feed_forward.norm.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.4.feed_forward.in.weight : tensor<8x4xf32> {decay, deviation = 5.000000e-01 : f64, initial = "normal", names = ["stages.4.feed_forward.in.weight"], sizes = array<i64: 8>}
  sluice.parameter @stages.4.feed_forward.in.bias : tensor<8xf32> {initial = "zeros", names = ["stages.4.feed_forward.in.bias"], sizes = array<i64: 8>}
  sluice.parameter @stages.4.feed_forward.out.weight : tensor<4x8xf32> {decay, deviation = 0.14433756729740643 : f64, initial = "normal", names = ["stages.4.feed_forward.out.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.4.feed_forward.out.bias : tensor<4xf32> {initial = "zeros", names = ["stages.4.feed_forward.out.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.5.weight : tensor<12x4xf32> {decay, deviation = 5.000000e-01 : f64, initial = "normal", names = ["stages.5.weight"], sizes = array<i64: 12>}
  sluice.parameter @stages.5.bias : tensor<12xf32> {initial = "zeros", names = ["stages.5.bias"], sizes = array<i64: 12>}
  sluice.parameter @stages.7.attention.norm.weight : tensor<4xf32> {initial = "ones", names = ["stages.7.attention.norm.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.7.attention.norm.bias : tensor<4xf32> {initial = "zeros", names = ["stages.7.attention.norm.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.7.attention.qkv.weight : tensor<12x4xf32> {decay, deviation = 5.000000e-01 : f64, initial = "normal", names = ["stages.7.attention.query.weight", "stages.7.attention.key.weight", "stages.7.attention.value.weight"], sizes = array<i64: 4, 4, 4>}
  sluice.parameter @stages.7.attention.qkv.bias : tensor<12xf32> {initial = "zeros", names = ["stages.7.attention.query.bias", "stages.7.attention.key.bias", "stages.7.attention.value.bias"], sizes = array<i64: 4, 4, 4>}
  sluice.parameter @stages.7.attention.output.weight : tensor<4x4xf32> {decay, deviation = 0.20412414523193154 : f64, initial = "normal", names = ["stages.7.attention.output.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.7.attention.output.bias : tensor<4xf32> {initial = "zeros", names = ["stages.7.attention.output.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.7.feed_forward.norm.weight : tensor<4xf32> {initial = "ones", names = ["stages.7.feed_forward.norm.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.7.feed_forward.norm.bias : tensor<4xf32> {initial = "zeros", names = ["stages.7.feed_forward.norm.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.7.feed_forward.in.weight : tensor<8x4xf32> {decay, deviation = 5.000000e-01 : f64, initial = "normal", names = ["stages.7.feed_forward.in.weight"], sizes = array<i64: 8>}
  sluice.parameter @stages.7.feed_forward.in.bias : tensor<8xf32> {initial = "zeros", names = ["stages.7.feed_forward.in.bias"], sizes = array<i64: 8>}
  sluice.parameter @stages.7.feed_forward.out.weight : tensor<4x8xf32> {decay, deviation = 0.14433756729740643 : f64, initial = "normal", names = ["stages.7.feed_forward.out.weight"], sizes = array<i64: 4>}
  sluice.parameter @stages.7.feed_forward.out.bias : tensor<4xf32> {initial = "zeros", names = ["stages.7.feed_forward.out.bias"], sizes = array<i64: 4>}
  sluice.parameter @stages.8.weight : tensor<11x4xf32> {decay, deviation = 2.000000e-02 : f64, initial = "normal", names = ["stages.8.weight"], sizes = array<i64: 11>}
  func.func @evaluate(%arg0: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %0 = sluice.read @stages.0.token.weight : tensor<11x4xf32>
    %1 = sluice.embed %arg0, %0 : (!sluice.seq<@s1, 0, i32>, tensor<11x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %2 = sluice.read @stages.1.attention.norm.weight : tensor<4xf32>
    %3 = sluice.read @stages.1.attention.norm.bias : tensor<4xf32>
    %result, %mean, %rstd = sluice.norm %1, %2, %3 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %4 = sluice.read @stages.1.attention.qkv.weight : tensor<12x4xf32>
    %5 = sluice.read @stages.1.attention.qkv.bias : tensor<12xf32>
    %6 = sluice.linear %result, %4, %5 : (!sluice.seq<@s1, 4, f32>, tensor<12x4xf32>, tensor<12xf32>) -> !sluice.seq<@s1, 12, f32>
    %output, %lse = sluice.attention %6, %6, %6 attributes {head_size = 2 : i64, heads = 2 : i64, key_column = 4 : i64, kv_heads = 2 : i64, mask = #set, query_column = 0 : i64, value_column = 8 : i64} {
    ^bb0(%arg1: f32, %arg2: i32, %arg3: i32, %arg4: i32):
      %cst = arith.constant 0.707106769 : f32
      %71 = arith.mulf %arg1, %cst : f32
      sluice.yield %71 : f32
    } : (!sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
    %7 = sluice.read @stages.1.attention.output.weight : tensor<4x4xf32>
    %8 = sluice.read @stages.1.attention.output.bias : tensor<4xf32>
    %9 = sluice.linear %output, %7, %8 : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %10 = sluice.map(%1, %9) {
    ^bb0(%arg1: f32, %arg2: f32):
      %71 = arith.addf %arg1, %arg2 : f32
      sluice.yield %71 : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %11 = sluice.read @stages.1.feed_forward.norm.weight : tensor<4xf32>
    %12 = sluice.read @stages.1.feed_forward.norm.bias : tensor<4xf32>
    %result_0, %mean_1, %rstd_2 = sluice.norm %10, %11, %12 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %13 = sluice.read @stages.1.feed_forward.in.weight : tensor<8x4xf32>
    %14 = sluice.read @stages.1.feed_forward.in.bias : tensor<8xf32>
    %15 = sluice.linear %result_0, %13, %14 : (!sluice.seq<@s1, 4, f32>, tensor<8x4xf32>, tensor<8xf32>) -> !sluice.seq<@s1, 8, f32>
    %16 = sluice.map(%15) {
    ^bb0(%arg1: f32):
      %cst = arith.constant 0.707106769 : f32
      %71 = arith.mulf %arg1, %cst : f32
      %72 = math.erf %71 : f32
      %cst_19 = arith.constant 5.000000e-01 : f32
      %73 = arith.mulf %arg1, %cst_19 : f32
      %cst_20 = arith.constant 1.000000e+00 : f32
      %74 = arith.addf %72, %cst_20 : f32
      %75 = arith.mulf %73, %74 : f32
      sluice.yield %75 : f32
    } : (!sluice.seq<@s1, 8, f32>) -> !sluice.seq<@s1, 8, f32>
    %17 = sluice.read @stages.1.feed_forward.out.weight : tensor<4x8xf32>
    %18 = sluice.read @stages.1.feed_forward.out.bias : tensor<4xf32>
    %19 = sluice.linear %16, %17, %18 : (!sluice.seq<@s1, 8, f32>, tensor<4x8xf32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %20 = sluice.map(%10, %19) {
    ^bb0(%arg1: f32, %arg2: f32):
      %71 = arith.addf %arg1, %arg2 : f32
      sluice.yield %71 : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %21 = sluice.shift %20 by 2 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %22 = sluice.fold %21 factor 3 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s3, 12, f32>
    %23 = sluice.read @stages.3.weight : tensor<4x12xf32>
    %24 = sluice.read @stages.3.bias : tensor<4xf32>
    %25 = sluice.linear %22, %23, %24 : (!sluice.seq<@s3, 12, f32>, tensor<4x12xf32>, tensor<4xf32>) -> !sluice.seq<@s3, 4, f32>
    %26 = sluice.read @stages.4.attention.norm.weight : tensor<4xf32>
    %27 = sluice.read @stages.4.attention.norm.bias : tensor<4xf32>
    %result_3, %mean_4, %rstd_5 = sluice.norm %25, %26, %27 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s3, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s3, 4, f32>, !sluice.seq<@s3, 0, f32>, !sluice.seq<@s3, 0, f32>)
    %28 = sluice.read @stages.4.attention.qkv.weight : tensor<12x4xf32>
    %29 = sluice.read @stages.4.attention.qkv.bias : tensor<12xf32>
    %30 = sluice.linear %result_3, %28, %29 : (!sluice.seq<@s3, 4, f32>, tensor<12x4xf32>, tensor<12xf32>) -> !sluice.seq<@s3, 12, f32>
    %output_6, %lse_7 = sluice.attention %30, %30, %30 attributes {head_size = 2 : i64, heads = 2 : i64, key_column = 4 : i64, kv_heads = 2 : i64, mask = #set1, query_column = 0 : i64, value_column = 8 : i64} {
    ^bb0(%arg1: f32, %arg2: i32, %arg3: i32, %arg4: i32):
      %cst = arith.constant 0.707106769 : f32
      %71 = arith.mulf %arg1, %cst : f32
      sluice.yield %71 : f32
    } : (!sluice.seq<@s3, 12, f32>, !sluice.seq<@s3, 12, f32>, !sluice.seq<@s3, 12, f32>) -> (!sluice.seq<@s3, 4, f32>, !sluice.seq<@s3, 2, f32>)
    %31 = sluice.read @stages.4.attention.output.weight : tensor<4x4xf32>
    %32 = sluice.read @stages.4.attention.output.bias : tensor<4xf32>
    %33 = sluice.linear %output_6, %31, %32 : (!sluice.seq<@s3, 4, f32>, tensor<4x4xf32>, tensor<4xf32>) -> !sluice.seq<@s3, 4, f32>
    %34 = sluice.map(%25, %33) {
    ^bb0(%arg1: f32, %arg2: f32):
      %71 = arith.addf %arg1, %arg2 : f32
      sluice.yield %71 : f32
    } : (!sluice.seq<@s3, 4, f32>, !sluice.seq<@s3, 4, f32>) -> !sluice.seq<@s3, 4, f32>
    %35 = sluice.read @stages.4.feed_forward.norm.weight : tensor<4xf32>
    %36 = sluice.read @stages.4.feed_forward.norm.bias : tensor<4xf32>
    %result_8, %mean_9, %rstd_10 = sluice.norm %34, %35, %36 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s3, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s3, 4, f32>, !sluice.seq<@s3, 0, f32>, !sluice.seq<@s3, 0, f32>)
    %37 = sluice.read @stages.4.feed_forward.in.weight : tensor<8x4xf32>
    %38 = sluice.read @stages.4.feed_forward.in.bias : tensor<8xf32>
    %39 = sluice.linear %result_8, %37, %38 : (!sluice.seq<@s3, 4, f32>, tensor<8x4xf32>, tensor<8xf32>) -> !sluice.seq<@s3, 8, f32>
    %40 = sluice.map(%39) {
    ^bb0(%arg1: f32):
      %cst = arith.constant 0.707106769 : f32
      %71 = arith.mulf %arg1, %cst : f32
      %72 = math.erf %71 : f32
      %cst_19 = arith.constant 5.000000e-01 : f32
      %73 = arith.mulf %arg1, %cst_19 : f32
      %cst_20 = arith.constant 1.000000e+00 : f32
      %74 = arith.addf %72, %cst_20 : f32
      %75 = arith.mulf %73, %74 : f32
      sluice.yield %75 : f32
    } : (!sluice.seq<@s3, 8, f32>) -> !sluice.seq<@s3, 8, f32>
    %41 = sluice.read @stages.4.feed_forward.out.weight : tensor<4x8xf32>
    %42 = sluice.read @stages.4.feed_forward.out.bias : tensor<4xf32>
    %43 = sluice.linear %40, %41, %42 : (!sluice.seq<@s3, 8, f32>, tensor<4x8xf32>, tensor<4xf32>) -> !sluice.seq<@s3, 4, f32>
    %44 = sluice.map(%34, %43) {
    ^bb0(%arg1: f32, %arg2: f32):
      %71 = arith.addf %arg1, %arg2 : f32
      sluice.yield %71 : f32
    } : (!sluice.seq<@s3, 4, f32>, !sluice.seq<@s3, 4, f32>) -> !sluice.seq<@s3, 4, f32>
    %45 = sluice.read @stages.5.weight : tensor<12x4xf32>
    %46 = sluice.read @stages.5.bias : tensor<12xf32>
    %47 = sluice.linear %44, %45, %46 : (!sluice.seq<@s3, 4, f32>, tensor<12x4xf32>, tensor<12xf32>) -> !sluice.seq<@s3, 12, f32>
    %48 = sluice.unfold %47 factor 3 : (!sluice.seq<@s3, 12, f32>) -> !sluice.seq<@s1, 4, f32>
    %49 = sluice.map(%48, %1) {
    ^bb0(%arg1: f32, %arg2: f32):
      %71 = arith.addf %arg1, %arg2 : f32
      sluice.yield %71 : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %50 = sluice.read @stages.7.attention.norm.weight : tensor<4xf32>
    %51 = sluice.read @stages.7.attention.norm.bias : tensor<4xf32>
    %result_11, %mean_12, %rstd_13 = sluice.norm %49, %50, %51 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %52 = sluice.read @stages.7.attention.qkv.weight : tensor<12x4xf32>
    %53 = sluice.read @stages.7.attention.qkv.bias : tensor<12xf32>
    %54 = sluice.linear %result_11, %52, %53 : (!sluice.seq<@s1, 4, f32>, tensor<12x4xf32>, tensor<12xf32>) -> !sluice.seq<@s1, 12, f32>
    %output_14, %lse_15 = sluice.attention %54, %54, %54 attributes {head_size = 2 : i64, heads = 2 : i64, key_column = 4 : i64, kv_heads = 2 : i64, mask = #set2, query_column = 0 : i64, value_column = 8 : i64} {
    ^bb0(%arg1: f32, %arg2: i32, %arg3: i32, %arg4: i32):
      %cst = arith.constant 0.707106769 : f32
      %71 = arith.mulf %arg1, %cst : f32
      sluice.yield %71 : f32
    } : (!sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
    %55 = sluice.read @stages.7.attention.output.weight : tensor<4x4xf32>
    %56 = sluice.read @stages.7.attention.output.bias : tensor<4xf32>
    %57 = sluice.linear %output_14, %55, %56 : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %58 = sluice.map(%49, %57) {
    ^bb0(%arg1: f32, %arg2: f32):
      %71 = arith.addf %arg1, %arg2 : f32
      sluice.yield %71 : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %59 = sluice.read @stages.7.feed_forward.norm.weight : tensor<4xf32>
    %60 = sluice.read @stages.7.feed_forward.norm.bias : tensor<4xf32>
    %result_16, %mean_17, %rstd_18 = sluice.norm %58, %59, %60 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %61 = sluice.read @stages.7.feed_forward.in.weight : tensor<8x4xf32>
    %62 = sluice.read @stages.7.feed_forward.in.bias : tensor<8xf32>
    %63 = sluice.linear %result_16, %61, %62 : (!sluice.seq<@s1, 4, f32>, tensor<8x4xf32>, tensor<8xf32>) -> !sluice.seq<@s1, 8, f32>
    %64 = sluice.map(%63) {
    ^bb0(%arg1: f32):
      %cst = arith.constant 0.707106769 : f32
      %71 = arith.mulf %arg1, %cst : f32
      %72 = math.erf %71 : f32
      %cst_19 = arith.constant 5.000000e-01 : f32
      %73 = arith.mulf %arg1, %cst_19 : f32
      %cst_20 = arith.constant 1.000000e+00 : f32
      %74 = arith.addf %72, %cst_20 : f32
      %75 = arith.mulf %73, %74 : f32
      sluice.yield %75 : f32
    } : (!sluice.seq<@s1, 8, f32>) -> !sluice.seq<@s1, 8, f32>
    %65 = sluice.read @stages.7.feed_forward.out.weight : tensor<4x8xf32>
    %66 = sluice.read @stages.7.feed_forward.out.bias : tensor<4xf32>
    %67 = sluice.linear %64, %65, %66 : (!sluice.seq<@s1, 8, f32>, tensor<4x8xf32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %68 = sluice.map(%58, %67) {
    ^bb0(%arg1: f32, %arg2: f32):
      %71 = arith.addf %arg1, %arg2 : f32
      sluice.yield %71 : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %69 = sluice.read @stages.8.weight : tensor<11x4xf32>
    %70 = sluice.cross_entropy %68, %69, %arg0 {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<11x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %70 : !sluice.seq<@s1, 0, f32>
  }
  func.func @predict(%arg0: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@last, 11, f32> {
    %0 = sluice.read @stages.0.token.weight : tensor<11x4xf32>
    %1 = sluice.embed %arg0, %0 : (!sluice.seq<@s1, 0, i32>, tensor<11x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %2 = sluice.read @stages.1.attention.norm.weight : tensor<4xf32>
    %3 = sluice.read @stages.1.attention.norm.bias : tensor<4xf32>
    %result, %mean, %rstd = sluice.norm %1, %2, %3 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %4 = sluice.read @stages.1.attention.qkv.weight : tensor<12x4xf32>
    %5 = sluice.read @stages.1.attention.qkv.bias : tensor<12xf32>
    %6 = sluice.linear %result, %4, %5 : (!sluice.seq<@s1, 4, f32>, tensor<12x4xf32>, tensor<12xf32>) -> !sluice.seq<@s1, 12, f32>
    %output, %lse = sluice.attention %6, %6, %6 attributes {head_size = 2 : i64, heads = 2 : i64, key_column = 4 : i64, kv_heads = 2 : i64, mask = #set, query_column = 0 : i64, value_column = 8 : i64} {
    ^bb0(%arg1: f32, %arg2: i32, %arg3: i32, %arg4: i32):
      %cst = arith.constant 0.707106769 : f32
      %72 = arith.mulf %arg1, %cst : f32
      sluice.yield %72 : f32
    } : (!sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
    %7 = sluice.read @stages.1.attention.output.weight : tensor<4x4xf32>
    %8 = sluice.read @stages.1.attention.output.bias : tensor<4xf32>
    %9 = sluice.linear %output, %7, %8 : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %10 = sluice.map(%1, %9) {
    ^bb0(%arg1: f32, %arg2: f32):
      %72 = arith.addf %arg1, %arg2 : f32
      sluice.yield %72 : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %11 = sluice.read @stages.1.feed_forward.norm.weight : tensor<4xf32>
    %12 = sluice.read @stages.1.feed_forward.norm.bias : tensor<4xf32>
    %result_0, %mean_1, %rstd_2 = sluice.norm %10, %11, %12 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %13 = sluice.read @stages.1.feed_forward.in.weight : tensor<8x4xf32>
    %14 = sluice.read @stages.1.feed_forward.in.bias : tensor<8xf32>
    %15 = sluice.linear %result_0, %13, %14 : (!sluice.seq<@s1, 4, f32>, tensor<8x4xf32>, tensor<8xf32>) -> !sluice.seq<@s1, 8, f32>
    %16 = sluice.map(%15) {
    ^bb0(%arg1: f32):
      %cst = arith.constant 0.707106769 : f32
      %72 = arith.mulf %arg1, %cst : f32
      %73 = math.erf %72 : f32
      %cst_19 = arith.constant 5.000000e-01 : f32
      %74 = arith.mulf %arg1, %cst_19 : f32
      %cst_20 = arith.constant 1.000000e+00 : f32
      %75 = arith.addf %73, %cst_20 : f32
      %76 = arith.mulf %74, %75 : f32
      sluice.yield %76 : f32
    } : (!sluice.seq<@s1, 8, f32>) -> !sluice.seq<@s1, 8, f32>
    %17 = sluice.read @stages.1.feed_forward.out.weight : tensor<4x8xf32>
    %18 = sluice.read @stages.1.feed_forward.out.bias : tensor<4xf32>
    %19 = sluice.linear %16, %17, %18 : (!sluice.seq<@s1, 8, f32>, tensor<4x8xf32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %20 = sluice.map(%10, %19) {
    ^bb0(%arg1: f32, %arg2: f32):
      %72 = arith.addf %arg1, %arg2 : f32
      sluice.yield %72 : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %21 = sluice.shift %20 by 2 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %22 = sluice.fold %21 factor 3 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s3, 12, f32>
    %23 = sluice.read @stages.3.weight : tensor<4x12xf32>
    %24 = sluice.read @stages.3.bias : tensor<4xf32>
    %25 = sluice.linear %22, %23, %24 : (!sluice.seq<@s3, 12, f32>, tensor<4x12xf32>, tensor<4xf32>) -> !sluice.seq<@s3, 4, f32>
    %26 = sluice.read @stages.4.attention.norm.weight : tensor<4xf32>
    %27 = sluice.read @stages.4.attention.norm.bias : tensor<4xf32>
    %result_3, %mean_4, %rstd_5 = sluice.norm %25, %26, %27 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s3, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s3, 4, f32>, !sluice.seq<@s3, 0, f32>, !sluice.seq<@s3, 0, f32>)
    %28 = sluice.read @stages.4.attention.qkv.weight : tensor<12x4xf32>
    %29 = sluice.read @stages.4.attention.qkv.bias : tensor<12xf32>
    %30 = sluice.linear %result_3, %28, %29 : (!sluice.seq<@s3, 4, f32>, tensor<12x4xf32>, tensor<12xf32>) -> !sluice.seq<@s3, 12, f32>
    %output_6, %lse_7 = sluice.attention %30, %30, %30 attributes {head_size = 2 : i64, heads = 2 : i64, key_column = 4 : i64, kv_heads = 2 : i64, mask = #set1, query_column = 0 : i64, value_column = 8 : i64} {
    ^bb0(%arg1: f32, %arg2: i32, %arg3: i32, %arg4: i32):
      %cst = arith.constant 0.707106769 : f32
      %72 = arith.mulf %arg1, %cst : f32
      sluice.yield %72 : f32
    } : (!sluice.seq<@s3, 12, f32>, !sluice.seq<@s3, 12, f32>, !sluice.seq<@s3, 12, f32>) -> (!sluice.seq<@s3, 4, f32>, !sluice.seq<@s3, 2, f32>)
    %31 = sluice.read @stages.4.attention.output.weight : tensor<4x4xf32>
    %32 = sluice.read @stages.4.attention.output.bias : tensor<4xf32>
    %33 = sluice.linear %output_6, %31, %32 : (!sluice.seq<@s3, 4, f32>, tensor<4x4xf32>, tensor<4xf32>) -> !sluice.seq<@s3, 4, f32>
    %34 = sluice.map(%25, %33) {
    ^bb0(%arg1: f32, %arg2: f32):
      %72 = arith.addf %arg1, %arg2 : f32
      sluice.yield %72 : f32
    } : (!sluice.seq<@s3, 4, f32>, !sluice.seq<@s3, 4, f32>) -> !sluice.seq<@s3, 4, f32>
    %35 = sluice.read @stages.4.feed_forward.norm.weight : tensor<4xf32>
    %36 = sluice.read @stages.4.feed_forward.norm.bias : tensor<4xf32>
    %result_8, %mean_9, %rstd_10 = sluice.norm %34, %35, %36 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s3, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s3, 4, f32>, !sluice.seq<@s3, 0, f32>, !sluice.seq<@s3, 0, f32>)
    %37 = sluice.read @stages.4.feed_forward.in.weight : tensor<8x4xf32>
    %38 = sluice.read @stages.4.feed_forward.in.bias : tensor<8xf32>
    %39 = sluice.linear %result_8, %37, %38 : (!sluice.seq<@s3, 4, f32>, tensor<8x4xf32>, tensor<8xf32>) -> !sluice.seq<@s3, 8, f32>
    %40 = sluice.map(%39) {
    ^bb0(%arg1: f32):
      %cst = arith.constant 0.707106769 : f32
      %72 = arith.mulf %arg1, %cst : f32
      %73 = math.erf %72 : f32
      %cst_19 = arith.constant 5.000000e-01 : f32
      %74 = arith.mulf %arg1, %cst_19 : f32
      %cst_20 = arith.constant 1.000000e+00 : f32
      %75 = arith.addf %73, %cst_20 : f32
      %76 = arith.mulf %74, %75 : f32
      sluice.yield %76 : f32
    } : (!sluice.seq<@s3, 8, f32>) -> !sluice.seq<@s3, 8, f32>
    %41 = sluice.read @stages.4.feed_forward.out.weight : tensor<4x8xf32>
    %42 = sluice.read @stages.4.feed_forward.out.bias : tensor<4xf32>
    %43 = sluice.linear %40, %41, %42 : (!sluice.seq<@s3, 8, f32>, tensor<4x8xf32>, tensor<4xf32>) -> !sluice.seq<@s3, 4, f32>
    %44 = sluice.map(%34, %43) {
    ^bb0(%arg1: f32, %arg2: f32):
      %72 = arith.addf %arg1, %arg2 : f32
      sluice.yield %72 : f32
    } : (!sluice.seq<@s3, 4, f32>, !sluice.seq<@s3, 4, f32>) -> !sluice.seq<@s3, 4, f32>
    %45 = sluice.read @stages.5.weight : tensor<12x4xf32>
    %46 = sluice.read @stages.5.bias : tensor<12xf32>
    %47 = sluice.linear %44, %45, %46 : (!sluice.seq<@s3, 4, f32>, tensor<12x4xf32>, tensor<12xf32>) -> !sluice.seq<@s3, 12, f32>
    %48 = sluice.unfold %47 factor 3 : (!sluice.seq<@s3, 12, f32>) -> !sluice.seq<@s1, 4, f32>
    %49 = sluice.map(%48, %1) {
    ^bb0(%arg1: f32, %arg2: f32):
      %72 = arith.addf %arg1, %arg2 : f32
      sluice.yield %72 : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %50 = sluice.read @stages.7.attention.norm.weight : tensor<4xf32>
    %51 = sluice.read @stages.7.attention.norm.bias : tensor<4xf32>
    %result_11, %mean_12, %rstd_13 = sluice.norm %49, %50, %51 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %52 = sluice.read @stages.7.attention.qkv.weight : tensor<12x4xf32>
    %53 = sluice.read @stages.7.attention.qkv.bias : tensor<12xf32>
    %54 = sluice.linear %result_11, %52, %53 : (!sluice.seq<@s1, 4, f32>, tensor<12x4xf32>, tensor<12xf32>) -> !sluice.seq<@s1, 12, f32>
    %output_14, %lse_15 = sluice.attention %54, %54, %54 attributes {head_size = 2 : i64, heads = 2 : i64, key_column = 4 : i64, kv_heads = 2 : i64, mask = #set2, query_column = 0 : i64, value_column = 8 : i64} {
    ^bb0(%arg1: f32, %arg2: i32, %arg3: i32, %arg4: i32):
      %cst = arith.constant 0.707106769 : f32
      %72 = arith.mulf %arg1, %cst : f32
      sluice.yield %72 : f32
    } : (!sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>, !sluice.seq<@s1, 12, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 2, f32>)
    %55 = sluice.read @stages.7.attention.output.weight : tensor<4x4xf32>
    %56 = sluice.read @stages.7.attention.output.bias : tensor<4xf32>
    %57 = sluice.linear %output_14, %55, %56 : (!sluice.seq<@s1, 4, f32>, tensor<4x4xf32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %58 = sluice.map(%49, %57) {
    ^bb0(%arg1: f32, %arg2: f32):
      %72 = arith.addf %arg1, %arg2 : f32
      sluice.yield %72 : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %59 = sluice.read @stages.7.feed_forward.norm.weight : tensor<4xf32>
    %60 = sluice.read @stages.7.feed_forward.norm.bias : tensor<4xf32>
    %result_16, %mean_17, %rstd_18 = sluice.norm %58, %59, %60 {epsilon = 1.000000e-05 : f64} : (!sluice.seq<@s1, 4, f32>, tensor<4xf32>, tensor<4xf32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 0, f32>, !sluice.seq<@s1, 0, f32>)
    %61 = sluice.read @stages.7.feed_forward.in.weight : tensor<8x4xf32>
    %62 = sluice.read @stages.7.feed_forward.in.bias : tensor<8xf32>
    %63 = sluice.linear %result_16, %61, %62 : (!sluice.seq<@s1, 4, f32>, tensor<8x4xf32>, tensor<8xf32>) -> !sluice.seq<@s1, 8, f32>
    %64 = sluice.map(%63) {
    ^bb0(%arg1: f32):
      %cst = arith.constant 0.707106769 : f32
      %72 = arith.mulf %arg1, %cst : f32
      %73 = math.erf %72 : f32
      %cst_19 = arith.constant 5.000000e-01 : f32
      %74 = arith.mulf %arg1, %cst_19 : f32
      %cst_20 = arith.constant 1.000000e+00 : f32
      %75 = arith.addf %73, %cst_20 : f32
      %76 = arith.mulf %74, %75 : f32
      sluice.yield %76 : f32
    } : (!sluice.seq<@s1, 8, f32>) -> !sluice.seq<@s1, 8, f32>
    %65 = sluice.read @stages.7.feed_forward.out.weight : tensor<4x8xf32>
    %66 = sluice.read @stages.7.feed_forward.out.bias : tensor<4xf32>
    %67 = sluice.linear %64, %65, %66 : (!sluice.seq<@s1, 8, f32>, tensor<4x8xf32>, tensor<4xf32>) -> !sluice.seq<@s1, 4, f32>
    %68 = sluice.map(%58, %67) {
    ^bb0(%arg1: f32, %arg2: f32):
      %72 = arith.addf %arg1, %arg2 : f32
      sluice.yield %72 : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %69 = sluice.read @stages.8.weight : tensor<11x4xf32>
    %70 = sluice.last %68 : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@last, 4, f32>
    %71 = sluice.linear %70, %69 : (!sluice.seq<@last, 4, f32>, tensor<11x4xf32>) -> !sluice.seq<@last, 11, f32>
    return %71 : !sluice.seq<@last, 11, f32>
  }
}

