module attributes {sluice.batch = 1 : i64, sluice.context = 32 : i64, sluice.name = "m", sluice.seed = 0 : i64, sluice.training = {beta1 = 9.0e-01 : f64, beta2 = 9.5e-01 : f64, clip = 1.0 : f64, epsilon = 1.0e-08 : f64, floor = 1.0e-01 : f64, learning_rate = 1.0e-03 : f64, optimizer = "adamw", schedule = "cosine", steps = 100.0 : f64, warmup = 10.0 : f64, weight_decay = 1.0e-01 : f64}, sluice.vocabulary = 11 : i64, sluice.width = 4 : i64} {
  sluice.axis @target
  sluice.axis @source
  sluice.scale @s1 on @target factor 1
  sluice.scale @s3 on @target factor 3
  sluice.scale @e1 on @source factor 1
  sluice.scale @last on @target factor 0
  sluice.parameter @e : tensor<11x4xf32> {deviation = 1.0 : f64, initial = "normal", names = ["e"], sizes = array<i64: 11>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>, %u: !sluice.seq<@s3, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %e = sluice.read @e : tensor<11x4xf32>
    %x = sluice.embed %t, %e : (!sluice.seq<@s1, 0, i32>, tensor<11x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %g = sluice.embed %u, %e : (!sluice.seq<@s3, 0, i32>, tensor<11x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %b = sluice.map(%g, %x) {
    ^bb0(%left: f32, %right: f32):
      %sum = arith.addf %left, %right : f32
      sluice.yield %sum : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>

    %l = sluice.cross_entropy %b, %e, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<11x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %l : !sluice.seq<@s1, 0, f32>
  }
  func.func @predict(%t: !sluice.seq<@s1, 0, i32>, %u: !sluice.seq<@s3, 0, i32>) -> !sluice.seq<@last, 11, f32> {
    %e = sluice.read @e : tensor<11x4xf32>
    %x = sluice.embed %t, %e : (!sluice.seq<@s1, 0, i32>, tensor<11x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %g = sluice.embed %u, %e : (!sluice.seq<@s3, 0, i32>, tensor<11x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %b = sluice.map(%g, %x) {
    ^bb0(%left: f32, %right: f32):
      %sum = arith.addf %left, %right : f32
      sluice.yield %sum : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>

    %z = sluice.last %b : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@last, 4, f32>
    %y = sluice.linear %z, %e : (!sluice.seq<@last, 4, f32>, tensor<11x4xf32>) -> !sluice.seq<@last, 11, f32>
    return %y : !sluice.seq<@last, 11, f32>
  }
}
