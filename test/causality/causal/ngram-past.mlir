// A pair of tokens that ends at its row chooses the row of a table.
module attributes {sluice.batch = 1 : i64, sluice.context = 32 : i64, sluice.name = "ngram-past", sluice.seed = 0 : i64, sluice.training = {beta1 = 9.0e-01 : f64, beta2 = 9.5e-01 : f64, clip = 1.0 : f64, epsilon = 1.0e-08 : f64, floor = 1.0e-01 : f64, learning_rate = 1.0e-03 : f64, optimizer = "adamw", schedule = "cosine", steps = 100.0 : f64, warmup = 10.0 : f64, weight_decay = 1.0e-01 : f64}, sluice.vocabulary = 11 : i64, sluice.width = 4 : i64} {
  sluice.axis @target
  sluice.scale @s1 on @target factor 1
  sluice.scale @last on @target factor 0
  sluice.parameter @e : tensor<11x4xf32> {deviation = 1.0 : f64, initial = "normal", names = ["e"], sizes = array<i64: 11>}
  func.func @evaluate(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32> {
    %e = sluice.read @e : tensor<11x4xf32>
    %kept = sluice.map(%t) {
    ^bb0(%a: i32):
      sluice.yield %a : i32
    } : (!sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, i32>
    %next = sluice.shift %kept by 1 : (!sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, i32>
    %pair = sluice.map(%t, %next) {
    ^bb0(%one: i32, %other: i32):
      %prime = arith.constant 31 : i32
      %mask = arith.constant 1023 : i32
      %rows = arith.constant 11 : i32
      %moved = arith.muli %other, %prime : i32
      %sum = arith.addi %moved, %one : i32
      %low = arith.andi %sum, %mask : i32
      %row = arith.remsi %low, %rows : i32
      sluice.yield %row : i32
    } : (!sluice.seq<@s1, 0, i32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, i32>
    %b = sluice.embed %pair, %e : (!sluice.seq<@s1, 0, i32>, tensor<11x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %l = sluice.cross_entropy %b, %e, %t {offset = 1 : i64} : (!sluice.seq<@s1, 4, f32>, tensor<11x4xf32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, f32>
    return %l : !sluice.seq<@s1, 0, f32>
  }
  func.func @predict(%t: !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@last, 11, f32> {
    %e = sluice.read @e : tensor<11x4xf32>
    %kept = sluice.map(%t) {
    ^bb0(%a: i32):
      sluice.yield %a : i32
    } : (!sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, i32>
    %next = sluice.shift %kept by 1 : (!sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, i32>
    %pair = sluice.map(%t, %next) {
    ^bb0(%one: i32, %other: i32):
      %prime = arith.constant 31 : i32
      %mask = arith.constant 1023 : i32
      %rows = arith.constant 11 : i32
      %moved = arith.muli %other, %prime : i32
      %sum = arith.addi %moved, %one : i32
      %low = arith.andi %sum, %mask : i32
      %row = arith.remsi %low, %rows : i32
      sluice.yield %row : i32
    } : (!sluice.seq<@s1, 0, i32>, !sluice.seq<@s1, 0, i32>) -> !sluice.seq<@s1, 0, i32>
    %b = sluice.embed %pair, %e : (!sluice.seq<@s1, 0, i32>, tensor<11x4xf32>) -> !sluice.seq<@s1, 4, f32>
    %z = sluice.last %b : (!sluice.seq<@s1, 4, f32>) -> !sluice.seq<@last, 4, f32>
    %y = sluice.linear %z, %e : (!sluice.seq<@last, 4, f32>, tensor<11x4xf32>) -> !sluice.seq<@last, 11, f32>
    return %y : !sluice.seq<@last, 11, f32>
  }
}
