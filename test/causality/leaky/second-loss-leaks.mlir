// The second of two losses scores a row against a token that it reads.
module attributes {sluice.batch = 1 : i64, sluice.context = 32 : i64, sluice.name = "second-loss-leaks", sluice.seed = 0 : i64, sluice.training = {beta1 = 9.0e-01 : f64, beta2 = 9.5e-01 : f64, clip = 1.0 : f64, epsilon = 1.0e-08 : f64, floor = 1.0e-01 : f64, learning_rate = 1.0e-03 : f64, optimizer = "adamw", schedule = "cosine", steps = 100.0 : f64, warmup = 10.0 : f64, weight_decay = 1.0e-01 : f64}, sluice.vocabulary = 11 : i64, sluice.width = 4 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @last on @target factor 0
  sluice.parameter @e : tensor<11x4xf32> {deviation = 1.0 : f64, initial = "normal", names = ["e"], sizes = array<i64: 11>}
  sluice.parameter @v : tensor<11x4xf32> {deviation = 1.0 : f64, initial = "normal", names = ["v"], sizes = array<i64: 11>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %e = sluice.read @e : tensor<11x4xf32>
    %x = sluice.embed %t, %e : (!sluice.seq<@s1, 0, i32>, tensor<11x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %a, %a_lse = sluice.attention %x, %x, %x attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%score: f32, %row: i32, %column: i32, %head: i32):
      sluice.yield %score : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>)
    %b = sluice.map(%a, %x) {
    ^bb0(%left: f32, %right: f32):
      %sum = arith.addf %left, %right : f32
      sluice.yield %sum : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %l = sluice.cross_entropy %b, %e, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<11x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    %v = sluice.read @v : tensor<11x4xf32>
    %k = sluice.cross_entropy %b, %v, %t {offset = 0 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<11x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %l : !sluice.seq<@s1, 0, f32>
  }
  func.func @predict(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@last, 11, f32> {
    %e = sluice.read @e : tensor<11x4xf32>
    %x = sluice.embed %t, %e : (!sluice.seq<@s1, 0, i32>, tensor<11x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %a, %a_lse = sluice.attention %x, %x, %x attributes {heads = 1 : i64, kv_heads = 1 : i64, head_size = 4 : i64, query_column = 0 : i64, key_column = 0 : i64, value_column = 0 : i64, mask = affine_set<(p, q)[n] : (p - q >= 0)>} {
    ^bb0(%score: f32, %row: i32, %column: i32, %head: i32):
      sluice.yield %score : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>)
    %b = sluice.map(%a, %x) {
    ^bb0(%left: f32, %right: f32):
      %sum = arith.addf %left, %right : f32
      sluice.yield %sum : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %z = sluice.last %b : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@last, 4, f32>
    %y = sluice.linear %z, %e : (!sluice.seq<@last, 4, f32>, tensor<11x4xf32>) -> !sluice.seq<@last, 11, f32>
    return %y : !sluice.seq<@last, 11, f32>
  }
}
