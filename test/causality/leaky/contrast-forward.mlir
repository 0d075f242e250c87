// A prediction that uses a contrastive loss, and so the candidates of later rows and of other texts.
module attributes {sluice.batch = 2 : i64, sluice.context = 12 : i64, sluice.name = "contrast-forward", sluice.seed = 0 : i64, sluice.vocabulary = 5 : i64, sluice.width = 4 : i64, sluice.training = {beta1 = 9.0e-01 : f64, beta2 = 9.5e-01 : f64, clip = 1.0 : f64, epsilon = 1.0e-08 : f64, floor = 1.0e-01 : f64, learning_rate = 1.0e-03 : f64, optimizer = "adamw", schedule = "cosine", steps = 1.0e+02 : f64, warmup = 1.0e+01 : f64, weight_decay = 1.0e-01 : f64}} {
  sluice.axis @tokens
  sluice.scale @s1 on @tokens factor 1
  sluice.scale @last on @tokens factor 0
  sluice.parameter @w : tensor<5x4xf32> {deviation = 2.0e-02 : f64, initial = "normal", names = ["w"], sizes = array<i64: 5>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<5x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %c = sluice.contrast %x, %x : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 0, f32>
    %r = sluice.repeat_columns %c : (!sluice.seq<@s1, 0, f32>) -> !sluice.seq<@s1, 4, f32>
    %y = sluice.map(%x, %r) {
    ^bb0(%i: f32, %j: f32):
      %k = arith.addf %i, %j : f32
      sluice.yield %k : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %l = sluice.cross_entropy %y, %w, %t {offset = 1} : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %l : !sluice.seq<@s1, 0, f32>
  }
  func.func @predict(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@last, 5, f32> {
    %w = sluice.read @w : tensor<5x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %c = sluice.contrast %x, %x : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 0, f32>
    %r = sluice.repeat_columns %c : (!sluice.seq<@s1, 0, f32>) -> !sluice.seq<@s1, 4, f32>
    %y = sluice.map(%x, %r) {
    ^bb0(%i: f32, %j: f32):
      %k = arith.addf %i, %j : f32
      sluice.yield %k : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %last = sluice.last %y : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@last, 4, f32>
    %o = sluice.linear %last, %w : (!sluice.seq<@last, 4, f32>, tensor<5x4xf32>) -> !sluice.seq<@last, 5, f32>
    return %o : !sluice.seq<@last, 5, f32>
  }
}
