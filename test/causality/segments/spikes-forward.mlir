// Labels by spikes of an entropy cut the text, each a row early: the entropy of row t + 1, which has read token t + 1, at t.
module attributes {sluice.batch = 1 : i64, sluice.context = 12 : i64, sluice.name = "spikes-forward", sluice.seed = 0 : i64, sluice.vocabulary = 5 : i64, sluice.width = 4 : i64, sluice.training = {beta1 = 9.0e-01 : f64, beta2 = 9.5e-01 : f64, clip = 1.0 : f64, epsilon = 1.0e-08 : f64, floor = 1.0e-01 : f64, learning_rate = 1.0e-03 : f64, optimizer = "adamw", schedule = "cosine", steps = 1.0e+02 : f64, warmup = 1.0e+01 : f64, weight_decay = 1.0e-01 : f64}} {
  sluice.axis @tokens
  sluice.scale @s1 on @tokens factor 1
  sluice.axis @words segments of @s1 capacity 12
  sluice.scale @w1 on @words factor 1
  sluice.scale @last on @tokens factor 0
  sluice.parameter @w : tensor<5x4xf32> {deviation = 2.0e-02 : f64, initial = "normal", names = ["w"], sizes = array<i64: 5>}
  sluice.parameter @b : tensor<1x4xf32> {deviation = 2.0e-02 : f64, initial = "normal", names = ["b"], sizes = array<i64: 1>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %w = sluice.read @w : tensor<5x4xf32>
    %v = sluice.read @b : tensor<1x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %bits0 = sluice.linear %x, %v : (!sluice.seq<@s1, 4, f32>, tensor<1x4xf32>) -> !sluice.seq<@s1, 1, f32>
    %logits = sluice.linear %x, %w : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 5, f32>
    %entropy = sluice.entropy %logits : (!sluice.seq<@s1, 5, f32>) -> !sluice.seq<@s1, 1, f32>
    %before = sluice.shift %entropy by 1 : (!sluice.seq<@s1, 1, f32>) -> !sluice.seq<@s1, 1, f32>
    %spikes = sluice.map(%entropy, %before) {
    ^bb0(%i: f32, %j: f32):
      %one = arith.constant 1.0 : f32
      %none = arith.constant 0.0 : f32
      %above = arith.cmpf ogt, %i, %j : f32
      %bit = arith.select %above, %one, %none : f32
      sluice.yield %bit : f32
    } : (!sluice.seq<@s1, 1, f32>, !sluice.seq<@s1, 1, f32>) -> !sluice.seq<@s1, 1, f32>
    %labels = sluice.shift %spikes by -1 : (!sluice.seq<@s1, 1, f32>) -> !sluice.seq<@s1, 1, f32>
    %counts0, %ends0 = sluice.segment %labels : (!sluice.seq<@s1, 1, f32>) -> (!sluice.seq<@s1, 0, i32>, !sluice.seq<@w1, 0, i32>)
    %pool0 = sluice.pool_segments %x, %bits0, %counts0, %ends0 : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>, !sluice.seq<@s1, 0, i32>, !sluice.seq<@w1, 0, i32>) -> !sluice.seq<@w1, 4, f32>
    %z = sluice.spread_segments %pool0, %counts0, %ends0 by 1 : (!sluice.seq<@w1, 4, f32>, !sluice.seq<@s1, 0, i32>, !sluice.seq<@w1, 0, i32>) -> !sluice.seq<@s1, 4, f32>
    %y = sluice.map(%x, %z) {
    ^bb0(%i: f32, %j: f32):
      %k = arith.addf %i, %j : f32
      sluice.yield %k : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %l = sluice.cross_entropy %y, %w, %t {offset = 1} : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %l : !sluice.seq<@s1, 0, f32>
  }
  func.func @predict(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@last, 5, f32> {
    %w = sluice.read @w : tensor<5x4xf32>
    %v = sluice.read @b : tensor<1x4xf32>
    %x = sluice.embed %t, %w : (!sluice.seq<@s1, 0, i32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %bits0 = sluice.linear %x, %v : (!sluice.seq<@s1, 4, f32>, tensor<1x4xf32>) -> !sluice.seq<@s1, 1, f32>
    %logits = sluice.linear %x, %w : (!sluice.seq<@s1, 4, f32>, tensor<5x4xf32>) -> !sluice.seq<@s1, 5, f32>
    %entropy = sluice.entropy %logits : (!sluice.seq<@s1, 5, f32>) -> !sluice.seq<@s1, 1, f32>
    %before = sluice.shift %entropy by 1 : (!sluice.seq<@s1, 1, f32>) -> !sluice.seq<@s1, 1, f32>
    %spikes = sluice.map(%entropy, %before) {
    ^bb0(%i: f32, %j: f32):
      %one = arith.constant 1.0 : f32
      %none = arith.constant 0.0 : f32
      %above = arith.cmpf ogt, %i, %j : f32
      %bit = arith.select %above, %one, %none : f32
      sluice.yield %bit : f32
    } : (!sluice.seq<@s1, 1, f32>, !sluice.seq<@s1, 1, f32>) -> !sluice.seq<@s1, 1, f32>
    %labels = sluice.shift %spikes by -1 : (!sluice.seq<@s1, 1, f32>) -> !sluice.seq<@s1, 1, f32>
    %counts0, %ends0 = sluice.segment %labels : (!sluice.seq<@s1, 1, f32>) -> (!sluice.seq<@s1, 0, i32>, !sluice.seq<@w1, 0, i32>)
    %pool0 = sluice.pool_segments %x, %bits0, %counts0, %ends0 : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 1, f32>, !sluice.seq<@s1, 0, i32>, !sluice.seq<@w1, 0, i32>) -> !sluice.seq<@w1, 4, f32>
    %z = sluice.spread_segments %pool0, %counts0, %ends0 by 1 : (!sluice.seq<@w1, 4, f32>, !sluice.seq<@s1, 0, i32>, !sluice.seq<@w1, 0, i32>) -> !sluice.seq<@s1, 4, f32>
    %y = sluice.map(%x, %z) {
    ^bb0(%i: f32, %j: f32):
      %k = arith.addf %i, %j : f32
      sluice.yield %k : f32
    } : (!sluice.seq<@s1, 4, f32>, !sluice.seq<@s1, 4, f32>) -> !sluice.seq<@s1, 4, f32>
    %last = sluice.last %y : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@last, 4, f32>
    %o = sluice.linear %last, %w : (!sluice.seq<@last, 4, f32>, tensor<5x4xf32>) -> !sluice.seq<@last, 5, f32>
    return %o : !sluice.seq<@last, 5, f32>
  }
}
